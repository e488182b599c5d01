// What each kind of event says in English. The window gives the names as they are to be shown.

import type { Kind } from "../wire/tables";
import { strong, type Part } from "./parts";

/** What a sentence is made from: names that are safe to show, empty where unknown. */
export interface EventWords {
  /** What the event is about: a team, person, machine, app, or a session's folder. */
  subject: string;
  /** Who made it happen. */
  actor: string;
  /** The machine's name. */
  machine: string;
  /** The words of the event's data: `from`, `to`, `role`, `by`, `reason`, `name`. */
  data: (field: string) => string;
  /** Why a machine is away: `asleep`, `shutdown`, `paused`, or empty. */
  away: string;
  /** Whether a member is active. */
  active: boolean;
}

const says = (words: string) => (e: EventWords): Part[] => [strong(e.subject), ` ${words}`];

function turned(e: EventWords): string {
  const waited = e.data("from").startsWith("waiting_");
  switch (e.data("to")) {
    case "working":
      return waited ? "works again" : "started to work";
    case "waiting_approval":
      return "asks for approval";
    case "waiting_input":
      return "asks a question";
    case "idle":
      return e.data("from") === "working" ? "finished its turn" : "is idle";
    case "ended":
      return "ended";
    default:
      return "can’t be read just now";
  }
}

function started(e: EventWords): string {
  switch (e.data("turn")) {
    case "waiting_approval":
      return "started, and asks for approval";
    case "waiting_input":
      return "started, and asks a question";
    default:
      return "started";
  }
}

const unlinked = (e: EventWords) => (e.data("from") === "offline" ? "reports, without a live link" : "lost its live link");

const gone: Record<string, string> = {
  asleep: "went to sleep",
  shutdown: "quit Teamlamp",
  paused: "paused reporting",
};

export const events = {
  kinds: {
    "team.created": (e) => ["The team ", strong(e.subject), " was made"],
    "team.renamed": (e) => ["The team is now called ", strong(e.subject)],
    "member.joined": (e) => [strong(e.subject), ` joined as ${e.data("role")}`],
    "member.changed": (e) => [strong(e.subject), e.active ? ` is now ${e.data("role")}` : " was made inactive"],
    "member.removed": says("was removed from the team"),
    "machine.enrolled": says("was enrolled"),
    "machine.renamed": (e) => ["A machine is now called ", strong(e.subject)],
    "machine.revoked": says("was revoked"),
    "machine.online": says("is online"),
    "machine.unlinked": (e) => [strong(e.subject), ` ${gone[e.away] ?? unlinked(e)}`],
    "machine.offline": (e) => [strong(e.subject), ` ${gone[e.away] ?? "went offline"}`],
    "machine.cloned": says("runs twice: its identity is on another computer too"),
    "session.started": (e) => [strong(e.subject), ` ${started(e)}`],
    "session.turn": (e) => [strong(e.subject), ` ${turned(e)}`],
    "session.ended": (e) => [
      strong(e.subject),
      e.data("reason") === "reporter_left" ? " is out of sight: its machine stopped reporting" : " ended",
    ],
    "session.published": says("was shared with the team"),
    "session.deleted": says("was deleted"),
    "note.sent": (e) => [strong(e.data("from") || e.actor), " sent a note to ", strong(e.subject)],
    "attention.claimed": (e) => [strong(e.data("by") || e.actor), " takes ", strong(e.subject)],
    "attention.released": (e) => [strong(e.data("by") || e.actor), " let go of ", strong(e.subject)],
    "app.installed": says("was installed"),
    "app.removed": says("was removed"),
    "webhook.disabled": (e) => ["A webhook of ", strong(e.subject), " was switched off"],
  } satisfies Record<Kind, (e: EventWords) => Part[]> as Record<Kind, (e: EventWords) => Part[]>,
  flapped: (machine: string, times: number): Part[] => [strong(machine), ` flapped ${times} times`],
  /** A custom event that says nothing of itself: its kind's last words. */
  custom: (name: string): Part[] => [strong(name)],
  /** A kind of a later version. */
  unknown: (kind: string): Part[] => [strong(kind)],
  someone: "Someone",
  aSession: "A session",
  aMachine: "a machine",
};
