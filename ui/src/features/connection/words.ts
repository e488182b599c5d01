// The connection in words, as a pure function of the state and the time.

import type { SignName, Tone } from "../../components/signs";
import { t } from "../../text";
import { clock, moment, span, until } from "../../text/ages";
import type { ContextStatus } from "../../wire/ContextStatus";
import { CREDENTIAL_WARNING_MS } from "../../wire/tables";
import type { WindowState } from "../../wire/WindowState";

/** What stands at the top of every place. */
export interface Connection {
  sign: SignName;
  tone: Tone;
  /** The state and its age. */
  words: string;
  /** More, where there is room. */
  more: string;
  /** Why it is so, in a sentence; empty where there is nothing to explain. */
  why: string;
  /** Whether 'Connect now' can help. */
  canConnect: boolean;
  /** Whether only a new invitation helps. */
  joinAgain: boolean;
}

/** While the stream is held, the app says at least this often that what it knows is current. */
const READ_MAX_AGE_MS = 90_000;

/** Whether what is shown may no longer be so. */
export function isStale(state: WindowState, context: ContextStatus, now: number): boolean {
  const readAt = state.team?.read_at ?? null;
  switch (context.state.state) {
    case "online":
    case "read_only":
      return false;
    case "degraded":
    case "paused":
      return readAt === null || now - readAt > READ_MAX_AGE_MS;
    default:
      return true;
  }
}

const ended = { canConnect: false, joinAgain: true, sign: "alert", tone: "bad", more: "" } as const;
const plain = { canConnect: false, joinAgain: false, more: "", why: "" } as const;

/** The connection of the shown team. */
export function connection(state: WindowState, context: ContextStatus, now: number): Connection {
  const { state: s, state_since } = context;
  const age = span(now - state_since);
  const why = context.polls ? t.connection.polls : "";
  const online = t.connection.online(state.machines.filter((machine) => machine.connection === "online").length);
  switch (s.state) {
    case "online":
      return { ...plain, sign: "live", tone: "ok", words: t.connection.live(age), more: online, why };
    case "read_only":
      return { ...plain, sign: "live", tone: "ok", words: t.connection.readOnly(age), more: online, why };
    case "connecting":
      return { ...plain, sign: "work", tone: "soft", words: t.connection.connecting(age), canConnect: true };
    case "enrolling":
      return { ...plain, sign: "work", tone: "soft", words: t.connection.enrolling };
    case "signed_out":
      return { ...plain, sign: "off", tone: "soft", words: t.connection.signedOut, joinAgain: true };
    case "degraded":
      return { ...plain, sign: "partly", tone: "soft", words: t.connection.degraded(age), why: s.why, canConnect: true };
    case "offline": {
      const left = s.next_try_at === null ? "" : s.next_try_at <= now ? t.connection.tryingNow : t.connection.nextTry(until(s.next_try_at, now));
      return { ...plain, sign: "off", tone: "bad", words: t.connection.offline(span(now - s.since)), more: left, why: s.why, canConnect: true };
    }
    case "paused": {
      const end = s.until === null ? "" : t.connection.pausedUntil(moment(s.until, now));
      return { ...plain, sign: "paused", tone: "soft", words: t.connection.paused(age), more: end };
    }
    case "keyring_needed":
      return { ...plain, sign: "alert", tone: "bad", words: t.connection.keyring, why: s.why };
    case "revoked":
      return { ...ended, words: t.connection.revoked, why: s.why };
    case "expired":
      return { ...ended, words: t.connection.expired, why: s.why };
    case "cloned":
      return { ...ended, words: t.connection.cloned, why: t.connection.clonedWhy };
  }
}

/** What this machine does, for the foot of the sidebar. */
export function reporting(state: WindowState, context: ContextStatus, now: number): string {
  const found = state.status.sessions.filter((session) => session.turn !== "ended").length;
  if (context.machine_id === null) return t.shell.reader;
  const paused = state.status.paused;
  if (paused) return paused.until === null ? t.shell.paused : t.shell.pausedUntil(moment(paused.until, now));
  return context.state.state === "online" || context.state.state === "degraded"
    ? t.shell.reports(found)
    : t.shell.notReporting(found);
}

/** A warning that the sign-in ends soon; empty where it does not. */
export function credentialWarning(context: ContextStatus, now: number): string {
  const end = context.credential_expires_at;
  if (end === null || end - now > CREDENTIAL_WARNING_MS || end <= now) return "";
  return t.connection.credentialEnds(span(end - now));
}

/** A warning that this computer's clock is off by more than a minute; empty where it is not. */
export function clockWarning(context: ContextStatus): string {
  const off = Math.abs(context.clock_offset_ms ?? 0);
  return off > 60_000 ? t.connection.clockOff(span(off)) : "";
}

/** The changes of the connection's state, newest first. */
export function changes(context: ContextStatus, now: number): { key: string; at: number; when: string; to: string; why: string }[] {
  return context.changes
    .map((change, i) => ({
      key: `${i}-${change.at}`,
      at: change.at,
      when: now - change.at < 86_400_000 ? clock(change.at) : moment(change.at, now),
      to: t.connection.states[change.to] ?? change.to,
      why: change.why,
    }))
    .reverse();
}
