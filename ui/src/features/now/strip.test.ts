import { describe, expect, it } from "vitest";
import { NOW } from "../../testing";
import type { Turn } from "../../wire/Turn";
import { BARS, bars, told } from "./strip";

const MINUTE = 60_000;
const hour = (...points: [number, Turn][]) => points.map(([ago, turn]) => ({ at: NOW - ago * MINUTE, turn }));

describe("the last hour", () => {
  it("has 28 bars, the newest on the right", () => {
    const drawn = bars(hour([30, "working"], [5, "waiting_approval"]), NOW);
    expect(drawn).toHaveLength(BARS);
    expect(drawn.slice(0, 14)).toEqual(Array(14).fill(0));
    expect(drawn.slice(14, 25)).toEqual(Array(11).fill(2));
    expect(drawn.slice(26)).toEqual([3, 3]);
  });

  it("begins before the hour where the turn did", () => {
    expect(bars(hour([400, "idle"]), NOW)).toEqual(Array(BARS).fill(1));
  });

  it("shows a short wait rather than the long work around it", () => {
    const drawn = bars(hour([60, "working"], [10.2, "waiting_input"], [10.1, "working"]), NOW);
    expect(drawn.filter((bar) => bar === 3)).toHaveLength(1);
  });

  it("draws nothing after what is known, and nothing for what ended", () => {
    expect(bars(hour([60, "working"]), NOW, NOW - 30 * MINUTE).slice(14)).toEqual(Array(14).fill(0));
    expect(bars(hour([20, "ended"]), NOW)).toEqual(Array(BARS).fill(0));
  });

  it("is told in words", () => {
    expect(told(hour([30, "working"], [4, "waiting_approval"]), NOW)).toBe("Last hour: waiting 4 min, working 26 min.");
    expect(told([], NOW)).toBe("Last hour: nothing known.");
  });
});
