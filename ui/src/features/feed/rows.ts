// The feed's rows, as a pure function of its items: days, the line of what is new, gaps, events. Heights
// are in rem, so that a list of 10,000 rows knows its length without measuring one.

import { waits } from "../../components/signs";
import { day, dayAround, span } from "../../text/ages";
import { t } from "../../text";
import type { Event } from "../../wire/Event";
import type { FeedItem } from "../../wire/FeedItem";
import type { EventItem, FlapItem, Folded, GapItem } from "./fold";
import type { Names } from "./names";
import { haystack, sentence, turnOf, type Group } from "./sentence";

export type Row = { key: string; height: number } & (
  | { row: "day"; label: string }
  | { row: "new" }
  | { row: "gap"; item: GapItem }
  | { row: "flap"; item: FlapItem }
  | { row: "event"; item: EventItem; aside: string; newest: boolean }
);

export type Chosen = "all" | "waiting" | Group;

/** What of the feed is shown. `who` is empty, `machine:<id>` or `actor:<name>`. */
export interface Filter {
  chosen: Chosen;
  who: string;
  text: string;
}

export const everything: Filter = { chosen: "all", who: "", text: "" };

export const isEverything = (filter: Filter): boolean =>
  filter.chosen === "all" && filter.who === "" && filter.text.trim() === "";

/** Whether an event is to be shown. */
export function admits(filter: Filter, event: Event, names: Names): boolean {
  if (filter.chosen === "waiting") {
    const turn = turnOf(event);
    if (turn === null || !waits(turn)) return false;
  } else if (filter.chosen !== "all" && sentence(event, names).group !== filter.chosen) {
    return false;
  }
  const [kind, ...rest] = filter.who.split(":");
  const who = rest.join(":");
  if (kind === "machine" && event.resource.id !== who && event.data["machine_id"] !== who) return false;
  if (kind === "actor" && event.actor.name !== who) return false;
  const text = filter.text.trim().toLowerCase();
  return text === "" || haystack(event, names).includes(text);
}

/** How long each turn before a `session.turn` was, and which event is each session's newest. */
function turns(items: FeedItem[]): { before: Map<number, number>; newest: Set<number> } {
  const since = new Map<string, number>();
  const last = new Map<string, number>();
  const before = new Map<number, number>();
  for (const item of items) {
    if (item.item !== "event" || item.event.resource.kind !== "session") continue;
    const { event, sequence } = item;
    const begun = typeof event.data["since"] === "number" ? event.data["since"] : event.at;
    const id = event.resource.id;
    const was = since.get(id);
    if (event.kind === "session.turn" && was !== undefined && begun > was) before.set(sequence, begun - was);
    if (event.kind === "session.turn" || event.kind === "session.started") since.set(id, begun);
    last.set(id, sequence);
  }
  return { before, newest: new Set(last.values()) };
}

/** What stands at the right of an event: after how long a turn ended. */
function aside(event: Event, before: number | undefined): string {
  const from = event.data["from"];
  const tells = from === "working" || from === "waiting_approval" || from === "waiting_input";
  return before !== undefined && tells && before >= 1000 ? t.feed.after(span(before)) : "";
}

/** When an item happened. */
const at = (item: Folded): number =>
  item.item === "gap" ? item.at : item.item === "flap" ? item.events[0].event.at : item.event.at;

interface Shown {
  filter: Filter;
  names: Names;
  /** The newest sequence that the person had seen; null: there is no line of what is new. */
  looked: number | null;
  now: number;
  narrow: boolean;
}

/** The rows of folded items. */
export function rows(items: FeedItem[], folded: Folded[], { filter, names, looked, now, narrow }: Shown): Row[] {
  const { before, newest } = turns(items);
  const all = isEverything(filter);
  const eventHeight = narrow ? 3.5 : 2;
  const out: Row[] = [];
  let shown = { from: 0, to: 0 };
  let lineDue = looked !== null;
  for (const item of folded) {
    const first = item.item === "flap" ? item.events[0] : item;
    if (first.item === "event" ? !admits(filter, first.event, names) : !all) continue;
    const when = at(item);
    if (when < shown.from || when >= shown.to) {
      shown = dayAround(when);
      // An event may be of an earlier day than the one before it: the same day then comes twice.
      out.push({ row: "day", key: `day ${shown.from} ${out.length}`, height: 2, label: day(when, now) });
    }
    if (first.item === "event" && lineDue && first.sequence > (looked ?? 0)) {
      lineDue = false;
      if (out.some((row) => row.row === "event" || row.row === "flap")) out.push({ row: "new", key: "new", height: 1.5 });
    }
    if (item.item === "gap") out.push({ row: "gap", key: `gap ${item.at} ${out.length}`, height: narrow ? 4 : 3.25, item });
    else if (item.item === "flap") out.push({ row: "flap", key: `e${item.events[0].sequence}`, height: eventHeight, item });
    else {
      const { sequence, event } = item;
      out.push({
        row: "event",
        key: `e${sequence}`,
        height: eventHeight,
        item,
        aside: aside(event, before.get(sequence)),
        newest: newest.has(sequence),
      });
    }
  }
  return out;
}

/** Who can be chosen in the filter: the names of those who made the loaded events, without the machines. */
export function actors(items: FeedItem[]): string[] {
  const found = new Set<string>();
  for (const item of items) {
    if (item.item === "event" && (item.event.actor.kind === "person" || item.event.actor.kind === "app")) found.add(item.event.actor.name);
  }
  return [...found].sort((a, b) => a.localeCompare(b));
}
