// What Now shows, as a pure function of the state and the time: machines as cards, and who waits.

import { signOf, waits, type SignName, type Tone } from "../../components/signs";
import { t } from "../../text";
import { ago, exact, moment } from "../../text/ages";
import { visible } from "../../text/visible";
import type { Machine } from "../../wire/Machine";
import type { SessionRow } from "../../wire/SessionRow";
import { HOUR_MS, ONLINE_MS } from "../../wire/tables";
import type { Turn } from "../../wire/Turn";
import type { WindowState } from "../../wire/WindowState";

/** A session as a card's line. */
export interface Line {
  id: string;
  name: string;
  detail: string;
  turn: Turn;
  sign: SignName;
  tone: Tone;
  since: number | null;
  confirmed: boolean;
  live: boolean;
  /** Until when its past is known. */
  knownUntil: number;
  row: SessionRow;
}

/** A machine as a card. */
export interface Card {
  id: string;
  name: string;
  /** It is this computer. */
  here: boolean;
  off: boolean;
  tone: Tone;
  presence: string;
  presenceExact: string;
  lines: Line[];
}

/** A session that waits for a person. */
export interface Waiting extends Line {
  machine: string;
  claimed: "" | "you" | "other";
}

/** The program's name as its makers write it. */
export const harnessName = (harness: string): string => t.harness[harness] ?? visible(harness);

/** A session's name: its folder, else its title, else that there is none. */
export function sessionName({ session }: SessionRow): string {
  return visible(session.root ?? session.title ?? "") || t.now.untitled;
}

/** How a machine is, in the words of a person; where that may no longer be so, when it was last seen. */
export function presence(machine: Machine, now: number, stale = false): { words: string; exact: string } {
  const seen = machine.last_seen_at;
  if (seen === null) return { words: t.now.starting, exact: "" };
  const told = { exact: exact(seen) };
  if (stale && machine.connection !== "offline") return { ...told, words: ago(seen, now) };
  if (machine.connection === "online") {
    return { ...told, words: now - seen <= ONLINE_MS ? ago(seen, now) : t.now.online };
  }
  const away = machine.away;
  if (away === null) {
    const words = machine.connection === "unlinked" ? t.now.noLink(ago(seen, now)) : t.now.offlineSince(moment(seen, now));
    return { ...told, words };
  }
  const words = { asleep: t.now.asleepSince, shutdown: t.now.quitSince, paused: t.now.pausedSince }[away.reason];
  return { exact: exact(away.since), words: words(moment(away.since, now)) };
}

const ORDER: Record<Turn, number> = { waiting_approval: 0, waiting_input: 0, working: 1, unknown: 2, idle: 3, ended: 4 };

function line(row: SessionRow, machine: Machine | undefined, twins: number, now: number): Line {
  const { session } = row;
  const harness = harnessName(session.harness);
  const more = session.title && session.root ? visible(session.title) : twins > 1 ? visible(session.native_id).slice(0, 8) : "";
  return {
    id: session.id,
    name: sessionName(row),
    detail: more ? `${harness} · ${more}` : harness,
    turn: session.turn,
    ...signOf(session.turn),
    since: session.turn_since,
    confirmed: session.confirmed,
    live: session.live,
    knownUntil: session.live ? now : (machine?.last_seen_at ?? session.updated_at),
    row,
  };
}

/** The lines of one machine: who waits first, what ended last and only for an hour. */
function lines(rows: SessionRow[], machine: Machine, now: number): Line[] {
  const twins = new Map<string, number>();
  const twinKey = ({ session }: SessionRow) => `${session.harness}\n${session.root ?? ""}`;
  for (const row of rows) twins.set(twinKey(row), (twins.get(twinKey(row)) ?? 0) + 1);
  return rows
    .filter(({ session }) => session.turn !== "ended" || now - (session.turn_since ?? session.updated_at) <= HOUR_MS)
    .map((row) => line(row, machine, twins.get(twinKey(row)) ?? 1, now))
    .sort(
      (a, b) =>
        ORDER[a.turn] - ORDER[b.turn] || a.name.localeCompare(b.name) || a.detail.localeCompare(b.detail) || (a.id < b.id ? -1 : 1),
    );
}

/** This computer, in the team that is shown. */
export function shownContext(state: WindowState) {
  return state.status.contexts.find((context) => context.id === state.team?.context) ?? null;
}

/** The machines: this one, then the person's others, then those that are up, by name. Where the state is
 *  of `readAt` and may no longer be so, its sessions keep the durations that they had then. */
export function cards(state: WindowState, now: number, readAt: number | null = null): Card[] {
  const context = shownContext(state);
  const rank = (machine: Machine) =>
    (machine.id === context?.machine_id ? 0 : machine.custodian_id === context?.principal_id ? 1 : 2) * 2 +
    (machine.connection === "offline" ? 1 : 0);
  const byMachine = new Map<string, SessionRow[]>();
  for (const row of state.sessions) {
    const rows = byMachine.get(row.session.machine_id);
    if (rows) rows.push(row);
    else byMachine.set(row.session.machine_id, [row]);
  }
  return state.machines
    .filter((machine) => machine.enrollment === "active")
    .sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name) || (a.id < b.id ? -1 : 1))
    .map((machine) => {
      const off = machine.connection === "offline";
      const { words, exact } = presence(machine, now, readAt !== null);
      return {
        id: machine.id,
        name: visible(machine.name),
        here: machine.id === context?.machine_id,
        off,
        tone: off ? "faint" : machine.connection === "online" ? "ok" : "soft",
        presence: words,
        presenceExact: exact,
        lines: lines(byMachine.get(machine.id) ?? [], machine, readAt ?? now),
      };
    });
}

/** Those that wait for a person, the longest first. */
export function waiting(state: WindowState, now: number): Waiting[] {
  const machines = new Map(state.machines.map((machine) => [machine.id, machine]));
  const me = shownContext(state)?.principal_id;
  return state.sessions
    .filter(({ session }) => waits(session.turn) && session.live)
    .map((row) => {
      const machine = machines.get(row.session.machine_id);
      const by = row.session.claimed_by;
      return {
        ...line(row, machine, 1, now),
        detail: harnessName(row.session.harness),
        machine: machine ? visible(machine.name) : t.now.unknownMachine,
        claimed: by === null ? ("" as const) : by === me ? ("you" as const) : ("other" as const),
      };
    })
    .sort((a, b) => (a.since ?? now) - (b.since ?? now) || (a.id < b.id ? -1 : 1));
}
