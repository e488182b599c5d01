// Folds a machine's flapping into one line, by the rule of crates/wire (presence.rs; both read the cases of
// crates/wire/vectors/flapping.json): transitions of one machine within 20 s of the first that return to
// where they began. Leaves out a transition that only repeats or prepares another one. Pure.

import type { FeedItem } from "../../wire/FeedItem";
import { FLAP_MS } from "../../wire/tables";

export type EventItem = Extract<FeedItem, { item: "event" }>;
export type GapItem = Extract<FeedItem, { item: "gap" }>;

/** Transitions that came to nothing. */
export interface FlapItem {
  item: "flap";
  events: [EventItem, ...EventItem[]];
}

/** What the feed shows in place of items. */
export type Folded = EventItem | GapItem | FlapItem;

const PRESENCE = new Set(["machine.online", "machine.unlinked", "machine.offline"]);

interface Step {
  index: number;
  item: EventItem;
  machine: string;
  from: unknown;
  to: unknown;
  onPurpose: boolean;
}

function steps(items: FeedItem[]): Step[] {
  return items.flatMap((item, index) =>
    item.item === "event" && PRESENCE.has(item.event.kind)
      ? [{
          index,
          item,
          machine: item.event.resource.id,
          from: item.event.data["from"],
          to: item.event.data["to"],
          onPurpose: item.event.data["away"] !== undefined,
        }]
      : [],
  );
}

/** The steps that say nothing of their own. */
function untold(all: Step[]): Set<number> {
  const out = new Set<number>();
  const before = new Map<string, Step>();
  for (const step of all) {
    const last = before.get(step.machine);
    before.set(step.machine, step);
    if (last?.to !== "unlinked") continue;
    // A report that comes just before its link is the beginning of being online.
    const cameUp = last.from === "offline" && step.to === "online";
    if (cameUp && step.item.event.at - last.item.event.at <= FLAP_MS) out.add(last.index);
    // It said that it goes; that it is gone is no news.
    if (last.onPurpose && step.to === "offline") out.add(step.index);
  }
  return out;
}

/** The items in their order, each flapping once, where it began. */
export function fold(items: FeedItem[]): Folded[] {
  const all = steps(items);
  const flaps = new Map<number, FlapItem>();
  const taken = untold(all);
  all.forEach((first, i) => {
    if (taken.has(first.index)) return;
    const near: Step[] = [];
    for (let j = i; j < all.length; j++) {
      const step = all[j] as Step;
      if (step.item.event.at - first.item.event.at > FLAP_MS) break;
      if (step.machine === first.machine && !taken.has(step.index)) near.push(step);
    }
    const end = near.findLastIndex((step) => step.to === first.from);
    if (end < 1) return;
    const folded = near.slice(0, end + 1);
    for (const step of folded) taken.add(step.index);
    flaps.set(first.index, { item: "flap", events: folded.map((step) => step.item) as FlapItem["events"] });
  });
  return items.flatMap((item, index): Folded[] => {
    const flap = flaps.get(index);
    return flap ? [flap] : taken.has(index) ? [] : [item];
  });
}
