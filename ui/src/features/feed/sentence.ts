// What an event says to a person. Pure; everything that came from others is made visible, never markup.

import { signOf, type SignName, type Tone } from "../../components/signs";
import { t } from "../../text";
import type { EventWords } from "../../text/en.events";
import { plain, type Part } from "../../text/parts";
import { textField, visible } from "../../text/visible";
import type { Event } from "../../wire/Event";
import { KINDS, type Kind } from "../../wire/tables";
import type { Turn } from "../../wire/Turn";
import { harnessName } from "../now/cards";
import type { Names } from "./names";

/** Which filter shows it. */
export type Group = "sessions" | "machines" | "people" | "scripts";

export interface Sentence {
  parts: Part[];
  /** Where and by which program: softer. */
  detail: string;
  /** A custom event's kind, as its publisher wrote it. */
  kind: string;
  /** Who published a custom event. */
  by: string;
  sign: SignName;
  tone: Tone;
  group: Group;
}

const TURNS = new Set<string>(["working", "waiting_approval", "waiting_input", "idle", "ended"]);

/** The turn that an event speaks of; null where it speaks of none. */
export function turnOf(event: Event): Turn | null {
  const word = event.kind === "session.turn" ? event.data["to"] : event.kind === "session.started" ? event.data["turn"] : null;
  if (event.kind === "session.ended") return "ended";
  if (typeof word !== "string") return null;
  return TURNS.has(word) ? (word as Turn) : "unknown";
}

const isKind = (kind: string): kind is Kind => Object.hasOwn(KINDS, kind);

function words(event: Event, names: Names): EventWords {
  const { resource, data } = event;
  const subject =
    resource.kind === "session"
      ? textField(data, "root") || textField(data, "title") || names.session(resource.id)
      : textField(data, "name") || (resource.kind === "machine" ? names.machine(resource.id) : t.events.someone);
  const away = data["away"];
  const reason = typeof away === "object" && away !== null && "reason" in away ? away.reason : "";
  return {
    subject,
    actor: visible(event.actor.name),
    machine: names.machine(String(data["machine_id"] ?? "")),
    data: (field) => textField(data, field),
    away: typeof reason === "string" ? reason : "",
    active: data["active"] !== false,
  };
}

function look(event: Event): { sign: SignName; tone: Tone; group: Group } {
  const turn = turnOf(event);
  if (turn !== null) return { ...signOf(turn), group: "sessions" };
  switch (event.kind.split(".", 1)[0]) {
    case "machine": {
      const tone = { "machine.online": "ok", "machine.cloned": "bad", "machine.revoked": "bad" }[event.kind] as Tone | undefined;
      return { sign: "machine", tone: tone ?? "faint", group: "machines" };
    }
    case "session":
      return { sign: "end", tone: "faint", group: "sessions" };
    case "team":
      return { sign: "team", tone: "soft", group: "people" };
    case "member":
    case "attention":
      return { sign: "person", tone: "soft", group: "people" };
    case "note":
      return { sign: "note", tone: "soft", group: "people" };
    default:
      return { sign: "script", tone: "soft", group: "scripts" };
  }
}

/** A script's own words for its event, where it gave some under a usual name. */
function ownWords(data: Record<string, unknown>): string {
  return textField(data, "text") || textField(data, "message") || textField(data, "title") || textField(data, "summary");
}

/** The sentence of one event. */
export function sentence(event: Event, names: Names): Sentence {
  const base = { detail: "", kind: "", by: "", ...look(event) };
  if (isKind(event.kind)) {
    const w = words(event, names);
    const harness = textField(event.data, "harness");
    const detail = event.kind.startsWith("session.") && harness ? t.now.on(harnessName(harness), w.machine) : "";
    return { ...base, parts: t.events.kinds[event.kind](w), detail };
  }
  const kind = visible(event.kind);
  if (!event.kind.startsWith("custom.")) return { ...base, parts: t.events.unknown(kind) };
  const own = ownWords(event.data);
  const name = kind.split(".").slice(2).join(".") || kind;
  return { ...base, parts: own ? [own] : t.events.custom(name), kind, by: visible(event.actor.name) };
}

const haystacks = new WeakMap<Event, string>();

/** Everything in an event that a person may search for, in lower case. */
export function haystack(event: Event, names: Names): string {
  let made = haystacks.get(event);
  if (made === undefined) {
    const { parts, detail } = sentence(event, names);
    made = [plain(parts), detail, event.kind, event.actor.name, JSON.stringify(event.data)].join("\n").toLowerCase();
    haystacks.set(event, made);
  }
  return made;
}
