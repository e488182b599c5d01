import { describe, expect, it } from "vitest";
import { context, machine, NOW, session, windowState } from "../../testing";
import { cards, presence, waiting } from "./cards";

const HOUR = 3_600_000;

describe("machines", () => {
  it("come yours first, then those that are up, by name", () => {
    const state = windowState({
      machines: [
        machine("zed"),
        machine("anna", { connection: "offline" }),
        machine("a-desk", { custodian_id: "prin_ada" }),
        machine("ada-laptop", { custodian_id: "prin_ada" }),
        machine("gone", { enrollment: "revoked" }),
      ],
    });
    expect(cards(state, NOW).map((card) => card.name)).toEqual(["ada-laptop", "a-desk", "zed", "anna"]);
    expect(cards(state, NOW)[0]?.here).toBe(true);
  });

  it("say how they are as a person would", () => {
    const say = (more: Parameters<typeof machine>[1]) => presence(machine("m", more), NOW).words;
    expect(say({ last_seen_at: NOW - 8_000 })).toBe("5 s ago");
    expect(say({ last_seen_at: NOW - 2 * HOUR })).toBe("online");
    expect(say({ last_seen_at: null })).toBe("starting");
    expect(say({ connection: "unlinked", last_seen_at: NOW - 31_000 })).toBe("no live link · 30 s ago");
    const evening = Date.UTC(2026, 10, 23, 18, 2);
    expect(say({ connection: "offline", away: { reason: "asleep", since: evening } })).toBe("asleep since Mon 18:02");
    expect(say({ connection: "offline", last_seen_at: NOW - HOUR })).toBe("offline since 08:38");
    expect(say({ connection: "offline", away: { reason: "paused", since: NOW } })).toBe("paused since 09:38");
    expect(say({ connection: "unlinked", away: { reason: "paused", since: NOW } })).toBe("paused since 09:38");
    expect(presence(machine("m", { last_seen_at: NOW - 2 * HOUR }), NOW, true).words).toBe("2 h 00 ago");
  });
});

describe("sessions", () => {
  it("come waiting first; what ended stays an hour", () => {
    const state = windowState({
      machines: [machine("m")],
      sessions: [
        session("old", "m", { turn: "ended", turn_since: NOW - 2 * HOUR }),
        session("done", "m", { turn: "ended", turn_since: NOW - HOUR / 2, live: false }),
        session("idle", "m", { turn: "idle" }),
        session("works", "m"),
        session("asks", "m", { turn: "waiting_input" }),
      ],
    });
    expect(cards(state, NOW)[0]?.lines.map((line) => line.name)).toEqual(["asks", "works", "idle", "done"]);
  });

  it("of one harness in one folder are told apart", () => {
    const state = windowState({
      machines: [machine("m")],
      sessions: [session("a", "m", { root: "api", native_id: "11111111-2" }), session("b", "m", { root: "api", native_id: "22222222-3" })],
    });
    expect(cards(state, NOW)[0]?.lines.map((line) => line.detail)).toEqual(["Claude Code · 11111111", "Claude Code · 22222222"]);
  });

  it("wait longest first, and not on a machine that is gone", () => {
    const state = windowState({
      status: { ...windowState().status, contexts: [context()] },
      machines: [machine("m")],
      sessions: [
        session("new", "m", { turn: "waiting_input", turn_since: NOW - 31_000, claimed_by: "prin_ada" }),
        session("old", "m", { turn: "waiting_approval", turn_since: NOW - 240_000 }),
        session("off", "m", { turn: "waiting_approval", live: false }),
      ],
    });
    expect(waiting(state, NOW).map((line) => [line.name, line.machine, line.claimed])).toEqual([
      ["old", "m", ""],
      ["new", "m", "you"],
    ]);
  });

  it("show foreign characters rather than obey them", () => {
    const state = windowState({ machines: [machine("m")], sessions: [session("s", "m", { root: "a\u202egpj.exe" })] });
    expect(cards(state, NOW)[0]?.lines[0]?.name).toBe("a\ufffdgpj.exe");
  });
});
