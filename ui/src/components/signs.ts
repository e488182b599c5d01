// The signs of Teamlamp: a state is a shape first and a colour second.

import type { Turn } from "../wire/Turn";

export type SignName =
  | "work" | "wait" | "idle" | "end" | "unknown" | "machine" | "lamp" | "person" | "script" | "note" | "team"
  | "live" | "partly" | "off" | "paused" | "alert" | "search" | "join";

export type Tone = "work" | "lamp" | "faint" | "ok" | "bad" | "soft";

/** The sign of a turn. */
export function signOf(turn: Turn): { sign: SignName; tone: Tone } {
  switch (turn) {
    case "working":
      return { sign: "work", tone: "work" };
    case "waiting_approval":
    case "waiting_input":
      return { sign: "wait", tone: "lamp" };
    case "idle":
      return { sign: "idle", tone: "faint" };
    case "ended":
      return { sign: "end", tone: "faint" };
    case "unknown":
      return { sign: "unknown", tone: "faint" };
  }
}

/** Whether a person is needed. */
export const waits = (turn: Turn): boolean => turn === "waiting_approval" || turn === "waiting_input";
