// The names of machines and sessions that events speak of: from the state, else from the events themselves.

import { t } from "../../text";
import { textField, visible } from "../../text/visible";
import type { FeedItem } from "../../wire/FeedItem";
import type { Machine } from "../../wire/Machine";
import type { SessionRow } from "../../wire/SessionRow";

export interface Names {
  machine: (id: string) => string;
  session: (id: string) => string;
}

/** Names, safe to show. */
export function names(machines: Machine[], sessions: SessionRow[], items: FeedItem[]): Names {
  const known = { machine: new Map<string, string>(), session: new Map<string, string>() };
  for (const item of items) {
    if (item.item !== "event") continue;
    const { resource, data } = item.event;
    const name = resource.kind === "machine" ? textField(data, "name") : textField(data, "root") || textField(data, "title");
    if (name && (resource.kind === "machine" || resource.kind === "session")) known[resource.kind].set(resource.id, name);
  }
  for (const { session } of sessions) {
    const name = session.root ?? session.title;
    if (name) known.session.set(session.id, visible(name));
  }
  for (const machine of machines) known.machine.set(machine.id, visible(machine.name));
  return {
    machine: (id) => known.machine.get(id) ?? t.events.aMachine,
    session: (id) => known.session.get(id) ?? t.events.aSession,
  };
}
