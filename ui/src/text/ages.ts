// Times as a person would say them. Pure: `now` is an argument; the words of a language are in its catalogue.

import { t } from "./index";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long something lasts: `31 s`, `4 min`, `1 h 04`, `3 d`. Never negative. */
export function span(ms: number): string {
  const length = Math.max(0, ms);
  if (length < MINUTE) return t.time.seconds(Math.floor(length / SECOND));
  if (length < HOUR) return t.time.minutes(Math.floor(length / MINUTE));
  if (length < DAY) return t.time.hours(Math.floor(length / HOUR), Math.floor((length % HOUR) / MINUTE));
  return t.time.days(Math.floor(length / DAY));
}

/** How long ago: `just now`, `15 s ago`, `4 min ago`. Below a minute in steps of 5 s, so that it keeps calm. */
export function ago(at: number, now: number): string {
  const age = Math.max(0, now - at);
  if (age < 5 * SECOND) return t.time.justNow;
  return t.time.ago(span(age < MINUTE ? age - (age % (5 * SECOND)) : age));
}

/** The time left until a moment, for `in 12 s`. */
export const until = (at: number, now: number): string => span(Math.max(0, at - now));

const formats = new Map<string, Intl.DateTimeFormat>();

function format(name: string, options: Intl.DateTimeFormatOptions, at: number): string {
  let made = formats.get(name);
  if (!made) formats.set(name, (made = new Intl.DateTimeFormat(t.locale, options)));
  return made.format(at);
}

/** `18:02`. */
export const clock = (at: number): string =>
  format("clock", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }, at);

/** `18:02:11`. */
export const clockSeconds = (at: number): string =>
  format("seconds", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }, at);

/** The exact moment, for a tooltip. */
export const exact = (at: number): string => format("exact", { dateStyle: "full", timeStyle: "medium" }, at);

/** A key that is the same for all moments of one local day. */
export function dayKey(at: number): string {
  const date = new Date(at);
  return `${date.getFullYear()}-${date.getMonth() + 1}-${date.getDate()}`;
}

/** The local day of a moment: from its first millisecond to that of the next. */
export function dayAround(at: number): { from: number; to: number } {
  const date = new Date(at);
  const from = date.setHours(0, 0, 0, 0);
  return { from, to: date.setDate(date.getDate() + 1) };
}

/** `Today`, `Yesterday`, or the date. */
export function day(at: number, now: number): string {
  if (dayKey(at) === dayKey(now)) return t.time.today;
  const yesterday = new Date(now);
  yesterday.setDate(yesterday.getDate() - 1);
  if (dayKey(at) === dayKey(yesterday.getTime())) return t.time.yesterday;
  return format("day", { weekday: "long", day: "numeric", month: "long" }, at);
}

/** A moment, as short as it can be told: `18:02`, `Mon 18:02`, `24 Nov`. */
export function moment(at: number, now: number): string {
  if (dayKey(at) === dayKey(now)) return clock(at);
  if (Math.abs(now - at) < 6 * DAY) {
    return format("weekday", { weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }, at);
  }
  return format("date", { day: "numeric", month: "short" }, at);
}
