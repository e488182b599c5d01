import { describe, expect, it } from "vitest";
import { isLink, read } from "./invitation";

describe("what a person typed", () => {
  it("is a link", () => {
    expect(isLink("  TEAMLAMP://join?x")).toBe(true);
    expect(read(" teamlamp://join?server=a&code=b ", "")).toEqual({ from: "link", link: "teamlamp://join?server=a&code=b" });
  });

  it("is a code, in any way of writing it, and needs a server", () => {
    for (const code of ["7K3QF-9XW2M", "7k3qf9xw2m", "7k3qf – 9xw2m"]) {
      expect(read(code, "http://127.0.0.1:8720")).toMatchObject({ from: "code" });
      expect(read(code, " ")).toMatchObject({ field: "server" });
    }
  });

  it("is nothing yet", () => {
    for (const text of ["", "7K3QF", "https://example.org", "7K3QF-9XW2MM"]) expect(read(text, "x")).toMatchObject({ field: "text" });
  });
});
