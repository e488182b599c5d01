// A session's last hour as bars. Pure.

import { span } from "../../text/ages";
import { t } from "../../text";
import type { Turn } from "../../wire/Turn";
import type { TurnPoint } from "../../wire/TurnPoint";
import { HOUR_MS } from "../../wire/tables";

/** How many bars a strip has. */
export const BARS = 28;

/** A bar: nothing known, idle, working, or waiting for a person. */
export type Bar = 0 | 1 | 2 | 3;

const RANK: Record<Turn, Bar> = { unknown: 0, ended: 0, idle: 1, working: 2, waiting_input: 3, waiting_approval: 3 };

interface Stretch {
  from: number;
  to: number;
  bar: Bar;
}

/** The stretches of the hour before `now`; what came after `knownUntil` is not known. */
function stretches(hour: TurnPoint[], now: number, knownUntil: number): Stretch[] {
  const begin = now - HOUR_MS;
  return hour
    .map((point, i) => ({
      from: Math.max(begin, point.at),
      to: Math.min(now, knownUntil, hour[i + 1]?.at ?? Infinity),
      bar: RANK[point.turn],
    }))
    .filter((stretch) => stretch.to > stretch.from && stretch.bar > 0);
}

/** The hour before `now` in {@link BARS} bars; a bar shows what needed a person most during its time. */
export function bars(hour: TurnPoint[], now: number, knownUntil = now): Bar[] {
  const width = HOUR_MS / BARS;
  const out: Bar[] = Array<Bar>(BARS).fill(0);
  for (const { from, to, bar } of stretches(hour, now, knownUntil)) {
    const first = Math.floor((from - (now - HOUR_MS)) / width);
    const last = Math.min(BARS - 1, Math.ceil((to - (now - HOUR_MS)) / width) - 1);
    for (let i = first; i <= last; i++) out[i] = Math.max(out[i] ?? 0, bar) as Bar;
  }
  return out;
}

/** The same in words, for those who don't see it. */
export function told(hour: TurnPoint[], now: number, knownUntil = now): string {
  const sums = [0, 0, 0, 0];
  for (const { from, to, bar } of stretches(hour, now, knownUntil)) sums[bar] = (sums[bar] ?? 0) + to - from;
  const parts = [
    [sums[3], t.now.hour.waiting],
    [sums[2], t.now.hour.working],
    [sums[1], t.now.hour.idle],
  ] as const;
  const known = parts.filter(([ms]) => ms !== undefined && ms > 0).map(([ms, words]) => words(span(ms ?? 0)));
  return known.length === 0 ? t.now.hour.none : t.now.hour.label(known);
}
