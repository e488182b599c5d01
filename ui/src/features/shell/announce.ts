// What a screen reader is told without asking: who newly waits, and a change of the connection. Pure.

import { t } from "../../text";
import type { Waiting } from "../now/cards";

/** What stands announced: the waiting sessions that were told, and the connection's words. */
export interface Told {
  waiting: Set<string>;
  connection: string;
}

/** What of a waiting session is news when it changes. */
export const factOf = (line: Waiting): string => `${line.id} ${line.turn} ${line.since ?? ""}`;

/** The next thing to say, and what is then told. Empty where there is nothing: silence is the rule. */
export function announce(told: Told | null, waiting: Waiting[], connection: string): { say: string; told: Told } {
  const next = { waiting: new Set(waiting.map(factOf)), connection };
  if (told === null) return { say: "", told: next };
  const fresh = waiting.filter((line) => !told.waiting.has(factOf(line)));
  const parts: string[] = [];
  if (fresh.length === 1 && fresh[0]) parts.push(t.announce.waits(fresh[0].name, t.turn[fresh[0].turn], fresh[0].machine));
  if (fresh.length > 1) parts.push(t.announce.manyWait(fresh.length));
  if (connection !== told.connection) parts.push(`${connection}.`);
  return { say: parts.join(" "), told: next };
}
