import { describe, expect, it } from "vitest";
import { apply, catchUp, newest } from "./store";
import { event, machine, session, windowState } from "./testing";
import type { Change } from "./wire/Change";
import { FEED_MAX } from "./wire/tables";

const patch = (version: number, ...changes: Change[]) => ({ version, changes });

describe("the store", () => {
  it("takes the next patch, drops an old one, and asks for everything when one is missing", () => {
    const state = windowState({ version: 4 });
    expect(apply(state, patch(4))).toBe("old");
    expect(apply(state, patch(6))).toBe("stale");
    const next = apply(state, patch(5, { change: "custody", question: { why: "Locked." } }));
    expect(next).toMatchObject({ to: { version: 5, custody: { why: "Locked." } } });
  });

  it("asks for everything when the app says that more changed", () => {
    expect(apply(windowState({ version: 1 }), patch(2, { change: "stale" }))).toBe("stale");
  });

  it("replaces, adds and removes machines and sessions by their ids", () => {
    const state = windowState({ version: 1, machines: [machine("a"), machine("b")], sessions: [session("s", "a")] });
    const applied = apply(
      state,
      patch(
        2,
        { change: "machines", changed: [machine("b", { name: "new name" }), machine("c")], gone: ["a"] },
        { change: "sessions", changed: [], gone: ["s"] },
      ),
    );
    if (typeof applied === "string") throw new Error(applied);
    expect(applied.to.machines.map((m) => [m.id, m.name])).toEqual([["b", "new name"], ["c", "c"]]);
    expect(applied.to.sessions).toEqual([]);
  });

  it("never shows an event twice", () => {
    const state = windowState({ version: 1, feed: [event(1), event(2)] });
    const applied = apply(state, patch(2, { change: "feed", items: [event(2), event(3), event(3)] }));
    if (typeof applied === "string") throw new Error(applied);
    expect(applied.to.feed.map((item) => (item.item === "event" ? item.sequence : 0))).toEqual([1, 2, 3]);
  });

  it("keeps the latest events, and no more than its bound", () => {
    const state = windowState({ version: 1, feed: [event(1), event(2)] });
    const items = [event(2), event(3), ...Array.from({ length: FEED_MAX }, (_, i) => event(i + 4))];
    const applied = apply(state, patch(2, { change: "feed", items }));
    if (typeof applied === "string") throw new Error(applied);
    expect(applied.to.feed.length).toBe(FEED_MAX);
    expect(applied.to.feed[0]).toMatchObject({ sequence: 4 });
    expect(newest(applied.to.feed)).toBe(FEED_MAX + 3);
  });

  it("catches up with what came while the state was read", () => {
    const state = windowState({ version: 3 });
    const place = (p: "feed" | "now"): Change => ({ change: "place", open: { place: p, session: null } });
    expect(catchUp(state, [patch(2), patch(3), patch(4, place("feed"))])?.place.place).toBe("feed");
    expect(catchUp(state, [patch(5, place("feed"))])).toBeNull();
  });
});
