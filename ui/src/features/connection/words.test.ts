import { describe, expect, it } from "vitest";
import { context, machine, NOW, windowState } from "../../testing";
import type { State } from "../../wire/State";
import { changes, connection, credentialWarning, isStale, reporting } from "./words";

const say = (state: State, since = NOW - 240_000) => {
  const c = context({ state, state_since: since });
  const { words, more, canConnect, joinAgain } = connection(windowState({ machines: [machine("a")] }), c, NOW);
  return { said: [words, more].filter(Boolean).join(" · "), canConnect, joinAgain };
};

describe("the connection's words", () => {
  it.each<[State, string, boolean, boolean]>([
    [{ state: "online" }, "Live for 4 min · 1 machine online", false, false],
    [{ state: "connecting" }, "Connecting for 4 min", true, false],
    [{ state: "degraded", why: "w" }, "Partly connected for 4 min", true, false],
    [{ state: "offline", why: "w", since: NOW - 60_000, next_try_at: NOW + 12_000 }, "Offline for 1 min · next try in 12 s", true, false],
    [{ state: "offline", why: "w", since: NOW - 60_000, next_try_at: NOW - 1 }, "Offline for 1 min · trying now", true, false],
    [{ state: "paused", until: NOW + 3_600_000 }, "Reporting paused for 4 min · until 10:38", false, false],
    [{ state: "keyring_needed", why: "w" }, "Needs you: the keyring", false, false],
    [{ state: "revoked", why: "w" }, "Needs you: this machine was revoked", false, true],
    [{ state: "expired", why: "w" }, "Needs you: the sign-in has ended", false, true],
    [{ state: "cloned" }, "Needs you: this identity runs elsewhere too", false, true],
    [{ state: "read_only" }, "Reading for 4 min · 1 machine online", false, false],
  ])("for %o", (state, said, canConnect, joinAgain) => {
    expect(say(state)).toEqual({ said, canConnect, joinAgain });
  });

  it("says why events come later where a proxy holds streams back", () => {
    const why = (polls: boolean) => connection(windowState(), context({ polls }), NOW).why;
    expect(why(false)).toBe("");
    expect(why(true)).toContain("proxy");
  });

  it("knows when what is shown may no longer be so", () => {
    const stale = (state: State, readAgo: number) =>
      isStale(
        windowState({ team: { context: "acme", role: null, retention_days: null, read_at: NOW - readAgo } }),
        context({ state }),
        NOW,
      );
    expect(stale({ state: "online" }, 600_000)).toBe(false);
    expect(stale({ state: "offline", why: "w", since: NOW, next_try_at: null }, 0)).toBe(true);
    expect(stale({ state: "paused", until: null }, 10_000)).toBe(false);
    expect(stale({ state: "paused", until: null }, 100_000)).toBe(true);
  });

  it("says what this machine does", () => {
    const found = (turn: "working" | "ended") => ({ harness: "codex", native_id: turn, root: "r", turn, since: null, confirmed: true });
    const state = windowState();
    state.status.sessions = [found("working"), found("ended")];
    expect(reporting(state, context(), NOW)).toBe("reporting 1 session");
    expect(reporting(state, context({ state: { state: "expired", why: "w" } }), NOW)).toBe("not reporting 1 session");
    expect(reporting(state, context({ machine_id: null }), NOW)).toBe("reading only");
    state.status.paused = { until: NOW + 900_000 };
    expect(reporting(state, context(), NOW)).toBe("paused until 09:53");
  });

  it("warns of a sign-in that ends within days", () => {
    expect(credentialWarning(context(), NOW)).toBe("");
    expect(credentialWarning(context({ credential_expires_at: NOW + 4 * 86_400_000 }), NOW)).toContain("4 d");
  });

  it("tells the last changes newest first", () => {
    const c = context({
      changes: [
        { at: NOW - 90_000_000, to: "online", why: "The server answered." },
        { at: NOW - 1000, to: "offline", why: "No answer." },
      ],
    });
    expect(changes(c, NOW).map(({ when, to }) => `${when} ${to}`)).toEqual(["09:38 offline", "Mon 08:38 live"]);
  });
});
