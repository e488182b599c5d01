import { describe, expect, it } from "vitest";
import { drawn, rowAt, tops } from "./spans";

describe("a long list", () => {
  const at = tops([10, 20, 10, 10]);

  it("knows where each row is", () => {
    expect([...at]).toEqual([0, 10, 30, 40, 50]);
    expect([-5, 0, 9, 10, 29, 30, 49, 500].map((position) => rowAt(at, position))).toEqual([0, 0, 0, 1, 1, 2, 3, 3]);
  });

  it("draws what is in view and a little more, however long it is", () => {
    expect(drawn(at, 12, 10, 0)).toEqual([1, 2]);
    expect(drawn(at, 12, 10, 5)).toEqual([0, 4]);
    expect(drawn(tops([]), 0, 100, 5)).toEqual([0, 0]);
    const [first, end] = drawn(tops(Array(10_000).fill(32)), 160_000, 600, 8);
    expect(end - first).toBeLessThan(40);
  });
});
