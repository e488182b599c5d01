// Older events that the person asked for, before those of the live feed. Pure.

import type { FeedItem } from "../../wire/FeedItem";
import type { HistoryPage } from "../../wire/HistoryPage";
import type { Sequenced } from "../../wire/Sequenced";
import type { EventItem } from "./fold";

/** The most older events that one window keeps. */
export const OLDER_MAX = 10_000;

export interface Older {
  /** The text that was searched for on the server; empty: everything. */
  text: string;
  /** Oldest first. */
  items: EventItem[];
  /** The next question's `before`; null: the beginning was reached; undefined: nothing was asked yet. */
  before: number | null | undefined;
}

export const nothingOlder = (text: string): Older => ({ text, items: [], before: undefined });

const firstSequence = (feed: FeedItem[]): number | null => feed.find((item) => item.item === "event")?.sequence ?? null;

/** What to ask the server for next; undefined where there is nothing more to ask. */
export function ask(older: Older, feed: FeedItem[]): number | null | undefined {
  if (older.before === null || older.items.length >= OLDER_MAX) return undefined;
  return older.before ?? firstSequence(feed);
}

const asItem = ({ sequence, event }: Sequenced): EventItem => ({ item: "event", sequence, event, replay: true });

/** Puts a page before what is there. A page that brings nothing new ends the way back. */
export function withPage(older: Older, page: HistoryPage, feed: FeedItem[]): Older {
  const below = older.items[0]?.sequence ?? firstSequence(feed) ?? Infinity;
  const fresh = page.items
    .filter(({ sequence }) => sequence < below)
    .map(asItem)
    .sort((a, b) => a.sequence - b.sequence);
  const before = page.next_before !== null && (older.before == null || page.next_before < older.before) ? page.next_before : null;
  return { ...older, items: [...fresh, ...older.items], before };
}

/** Older events and the live feed as one: an event is in it once, whichever way it came. */
export function joined(older: Older, feed: FeedItem[]): FeedItem[] {
  if (older.items.length === 0) return feed;
  const first = firstSequence(feed) ?? Infinity;
  return [...older.items.filter((item) => item.sequence < first), ...feed];
}

/** Keeps what fell out of the live feed, so that no hole opens between the two. */
export function absorb(older: Older, was: FeedItem[], feed: FeedItem[]): Older {
  const first = firstSequence(feed);
  if (older.text !== "" || older.before === undefined || first === null) return older;
  const last = older.items.at(-1)?.sequence ?? 0;
  const fallen = was.filter((item): item is EventItem => item.item === "event" && item.sequence < first && item.sequence > last);
  return fallen.length === 0 ? older : { ...older, items: [...older.items, ...fallen] };
}
