import { describe, expect, it } from "vitest";
import { nameFault } from "../components/names";
import { NOW } from "../testing";
import { ago, day, dayAround, dayKey, moment, span } from "./ages";
import { visible, visibleJson } from "./visible";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

describe("times", () => {
  it("are said as a person would", () => {
    expect([0, 31 * SECOND, 4 * MINUTE, HOUR + 4 * MINUTE, 75 * HOUR, -5].map(span)).toEqual(["0 s", "31 s", "4 min", "1 h 04", "3 d", "0 s"]);
    expect([0, 3, 8, 59, 61, 7200].map((s) => ago(NOW - s * SECOND, NOW))).toEqual([
      "just now",
      "just now",
      "5 s ago",
      "55 s ago",
      "1 min ago",
      "2 h 00 ago",
    ]);
  });

  it("lie within their day", () => {
    const { from, to } = dayAround(NOW);
    expect([from - 1, from, to - 1, to].map((at) => dayKey(at) === dayKey(NOW))).toEqual([false, true, true, false]);
  });

  it("name days and moments by their distance", () => {
    expect([0, 10, 40].map((h) => day(NOW - h * HOUR, NOW))).toEqual(["Today", "Yesterday", "Sunday 22 November"]);
    expect([1, 20, 200].map((h) => moment(NOW - h * HOUR, NOW))).toEqual(["08:38", "Mon 13:38", "16 Nov"]);
  });
});

describe("foreign text", () => {
  it("shows what can't be seen, as crates/wire does", () => {
    expect(visible("a\u001b[2Jb\u0007")).toBe("a␛[2Jb␇");
    expect(visible("x\r\ny\u202ez\u009b1m")).toBe("x  y\ufffdz\ufffd1m");
  });

  it("escapes it in JSON, so that the JSON still says what it was", () => {
    expect(visibleJson({ a: "x\u202ey" })).toBe('{\n  "a": "x\\u202ey"\n}');
    expect(JSON.parse(visibleJson({ a: "\u2028\u009b\u0000" }))).toEqual({ a: "\u2028\u009b\u0000" });
  });
});

describe("names", () => {
  it("are refused with a sentence", () => {
    expect(nameFault(" Ada ")).toBe("");
    expect(nameFault("  ")).toBe("Give a name.");
    expect(nameFault("x".repeat(65))).toBe("At most 64 characters.");
    expect(nameFault("😀".repeat(64))).toBe("");
    expect(nameFault("a\u202eb")).toContain("direction");
  });
});
