// Values for tests, complete and plain; a test says only what matters to it.

import type { ContextStatus } from "./wire/ContextStatus";
import type { Event } from "./wire/Event";
import type { FeedItem } from "./wire/FeedItem";
import type { Machine } from "./wire/Machine";
import type { Session } from "./wire/Session";
import type { SessionRow } from "./wire/SessionRow";
import type { WindowState } from "./wire/WindowState";

/** Tuesday, 24 November 2026, 09:38:31 UTC. */
export const NOW = Date.UTC(2026, 10, 24, 9, 38, 31);

export function context(more: Partial<ContextStatus> = {}): ContextStatus {
  return {
    id: "acme",
    origin: "http://127.0.0.1:8720",
    server_id: "srv_1",
    server_name: "ada-laptop",
    team_id: "team_1",
    team_name: "Acme",
    principal_id: "prin_ada",
    principal_name: "Ada",
    machine_id: "ada-laptop",
    machine_name: "ada-laptop",
    state: { state: "online" },
    state_since: NOW - 7_800_000,
    heartbeat_at: NOW - 4_000,
    linked_at: NOW - 7_800_000,
    streaming: true,
    polls: false,
    credential_expires_at: NOW + 20 * 86_400_000,
    clock_offset_ms: 0,
    changes: [],
    ...more,
  };
}

export function machine(id: string, more: Partial<Machine> = {}): Machine {
  return {
    id,
    name: id,
    custodian_id: "prin_ben",
    enrollment: "active",
    connection: "online",
    last_seen_at: NOW - 4_000,
    incarnation_id: "inc_1",
    host_key_id: null,
    revision: 1,
    away: null,
    ...more,
  };
}

export function session(id: string, machine_id: string, more: Partial<Session> = {}): SessionRow {
  const row: Session = {
    id,
    harness: "claude-code",
    native_id: `native-${id}`,
    machine_id,
    root: id,
    title: null,
    model: null,
    turn: "working",
    turn_since: NOW - 720_000,
    confirmed: true,
    live: true,
    started_at: NOW - 3_000_000,
    updated_at: NOW - 4_000,
    visibility: "restricted",
    revision: 1,
    claimed_by: null,
    ...more,
  };
  return { session: row, hour: [{ at: row.turn_since ?? NOW, turn: row.turn }] };
}

/** A feed item; by default a person's script said something, a second after the one before. */
export function event(sequence: number, more: Partial<Event> = {}): Extract<FeedItem, { item: "event" }> {
  return {
    item: "event",
    sequence,
    replay: false,
    event: {
      id: `evt_${sequence}`,
      org: "team_1",
      at: NOW - 3_600_000 + sequence * 1000,
      actor: { principal_id: "prin_ben", kind: "person", name: "Ben" },
      kind: "custom.cli.deploy",
      resource: { kind: "custom", id: "custom.cli.deploy" },
      data: { text: `deploy ${sequence}` },
      ...more,
    },
  };
}

export function windowState(more: Partial<WindowState> = {}): WindowState {
  return {
    version: 1,
    status: { version: "0.1.0", pid: 1, incarnation_id: "inc_1", contexts: [context()], sessions: [], paused: null },
    team: { context: "acme", role: "owner", retention_days: 7, read_at: NOW - 2_000 },
    machines: [],
    sessions: [],
    feed: [],
    local_server: { running: true, origin: "http://127.0.0.1:8720", error: null },
    custody: null,
    pending_join: null,
    notices: [],
    place: { place: "now", session: null },
    suggested: { person: "Ada", machine: "ada-laptop", team: "Ada’s team" },
    ...more,
  };
}
