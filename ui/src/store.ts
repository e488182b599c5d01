// The window's state as a pure function of the patches that came. It never guesses: a patch that does not
// follow on the state asks for the whole of it.

import type { Change } from "./wire/Change";
import type { FeedItem } from "./wire/FeedItem";
import type { Patch } from "./wire/Patch";
import { FEED_MAX } from "./wire/tables";
import type { WindowState } from "./wire/WindowState";

/** What became of a patch: a new state, nothing (it was old), or a state that must be read as a whole. */
export type Applied = { to: WindowState } | "old" | "stale";

/** Applies one patch. */
export function apply(state: WindowState, patch: Patch): Applied {
  if (patch.version <= state.version) return "old";
  if (patch.version > state.version + 1) return "stale";
  if (patch.changes.some((change) => change.change === "stale")) return "stale";
  return { to: patch.changes.reduce(step, { ...state, version: patch.version }) };
}

/** Applies those patches that came while the whole state was read; `null` where one is missing. */
export function catchUp(state: WindowState, patches: Patch[]): WindowState | null {
  let now = state;
  for (const patch of patches) {
    const applied = apply(now, patch);
    if (applied === "stale") return null;
    if (applied !== "old") now = applied.to;
  }
  return now;
}

/** A state that was read anew as a whole: that it names the same place is no wish to go there again. */
export function reread(before: WindowState | null, whole: WindowState): WindowState {
  const same = before?.place.place === whole.place.place && before.place.session === whole.place.session;
  return same ? { ...whole, place: before.place } : whole;
}

function step(state: WindowState, change: Change): WindowState {
  switch (change.change) {
    case "status":
      return { ...state, status: change.status };
    case "team":
      return { ...state, team: change.team };
    case "machines":
      return { ...state, machines: merge(state.machines, change.changed, change.gone, (m) => m.id) };
    case "sessions":
      return { ...state, sessions: merge(state.sessions, change.changed, change.gone, (s) => s.session.id) };
    case "feed":
      return { ...state, feed: append(state.feed, change.items) };
    case "local_server":
      return { ...state, local_server: change.server };
    case "custody":
      return { ...state, custody: change.question };
    case "pending_join":
      return { ...state, pending_join: change.join };
    case "notices":
      return { ...state, notices: change.notices };
    case "place":
      return { ...state, place: change.open };
    case "stale":
      return state;
  }
}

function merge<T>(items: T[], changed: T[], gone: string[], id: (item: T) => string): T[] {
  const news = new Map(changed.map((item) => [id(item), item]));
  const away = new Set(gone);
  const kept = items.filter((item) => !away.has(id(item))).map((item) => take(news, id(item)) ?? item);
  return [...kept, ...news.values()];
}

function take<T>(from: Map<string, T>, key: string): T | undefined {
  const value = from.get(key);
  from.delete(key);
  return value;
}

/** The sequence of the newest event of a feed; 0 where it has none. */
export function newest(feed: FeedItem[]): number {
  for (let i = feed.length - 1; i >= 0; i--) {
    const item = feed[i];
    if (item?.item === "event") return item.sequence;
  }
  return 0;
}

/** Events at or below the newest one are repetitions and are left out. */
function append(feed: FeedItem[], items: FeedItem[]): FeedItem[] {
  let last = newest(feed);
  const fresh = items.filter((item) => {
    if (item.item !== "event") return true;
    if (item.sequence <= last) return false;
    last = item.sequence;
    return true;
  });
  return [...feed, ...fresh].slice(-FEED_MAX);
}
