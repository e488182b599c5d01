// The recorded scenes: every place full, empty, loading, offline and failing, at one fixed moment.

import { context, event, machine, NOW, session, windowState } from "../../../ui/src/testing";
import type { ContextStatus } from "../../../ui/src/wire/ContextStatus";
import type { Event } from "../../../ui/src/wire/Event";
import type { FeedItem } from "../../../ui/src/wire/FeedItem";
import type { JoinPreview } from "../../../ui/src/wire/JoinPreview";
import type { Machine } from "../../../ui/src/wire/Machine";
import type { SessionRow } from "../../../ui/src/wire/SessionRow";
import type { Turn } from "../../../ui/src/wire/Turn";
import type { WindowState } from "../../../ui/src/wire/WindowState";
import { hostile } from "./hostile";
import type { Scene } from "./recorded";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A session whose hour is drawn: one letter a bar, as in the design's pictures. */
function drawn(id: string, on: string, root: string, harness: string, turn: Turn, ago: number, strip: string): SessionRow {
  const row = session(id, on, { root, harness, turn, turn_since: NOW - ago });
  const turns: Record<string, Turn> = { w: "working", a: "waiting_approval", i: "idle", ".": "unknown" };
  const hour = [...strip].map((letter, i) => ({ at: Math.round(NOW - HOUR + (i * HOUR) / 28), turn: turns[letter] ?? "unknown" }));
  return { ...row, hour: hour.filter((point, i) => i === 0 || point.turn !== hour[i - 1]?.turn) };
}

const machines: Machine[] = [
  machine("ada-laptop", { custodian_id: "prin_ada", last_seen_at: NOW - 1000 }),
  machine("ben-desk", { last_seen_at: NOW - 8000 }),
  machine("ci-runner-2", { last_seen_at: NOW - 13_000, custodian_id: "prin_ci" }),
  machine("chen-air", {
    connection: "offline",
    custodian_id: "prin_chen",
    last_seen_at: NOW - 15 * HOUR - 36 * MINUTE,
    away: { reason: "asleep", since: Date.UTC(2026, 10, 23, 18, 2) },
  }),
];

const sessions: SessionRow[] = [
  drawn("s1", "ada-laptop", "billing-api", "claude-code", "waiting_approval", 4 * MINUTE, "......wwwwwwiiwwwwwwwwwwaaaa"),
  drawn("s2", "ada-laptop", "teamlamp", "codex", "working", 12 * MINUTE, "..............wwwwwwwwwwwwww"),
  drawn("s3", "ada-laptop", "notes", "opencode", "idle", 38 * MINUTE, "wwww....iiiiiiiiiiiiiiiiiiii"),
  drawn("s4", "ben-desk", "mobile", "codex", "waiting_input", 31_000, "....................wwwwwwwa"),
  drawn("s5", "ben-desk", "mobile", "claude-code", "working", 20 * MINUTE, "......wwwwwwwwwwwwwwwwwwwwww"),
  drawn("s6", "ci-runner-2", "nightly", "claude-code", "working", 64 * MINUTE, "wwwwwwwwwwwwwwwwwwwwwwwwwwww"),
  { ...drawn("s7", "chen-air", "website", "claude-code", "ended", 50 * MINUTE, "wwwwww......................") },
];
const last = sessions[6];
if (last) last.session.live = false;

const at = (hours: number, minutes: number, seconds: number, daysAgo = 0) => Date.UTC(2026, 10, 24 - daysAgo, hours, minutes, seconds);
const by = (kind: Event["actor"]["kind"], name: string): Event["actor"] => ({ principal_id: `prin_${name}`, kind, name });

let sequence = 41;
function happened(when: number, kind: string, resource: [string, string], data: Record<string, unknown>, actor = by("machine", "ada-laptop")): FeedItem {
  return event(++sequence, { at: when, kind, resource: { kind: resource[0], id: resource[1] }, data, actor });
}
const moved = (when: number, id: string, from: string, to: string, more = {}) =>
  happened(when, `machine.${to}`, ["machine", id], { name: id, from, to, ...more }, by("system", "server"));
const turned = (when: number, id: string, on: string, root: string, harness: string, from: string, to: string) =>
  happened(when, "session.turn", ["session", id], { harness, machine_id: on, root, from, to, since: when });

function feed(): FeedItem[] {
  sequence = 41;
  return [
    { item: "gap", at: at(18, 0, 0, 1), reason: "retention", missed: 41, pruned_through: 41 },
    moved(at(18, 2, 11, 1), "chen-air", "online", "offline", { away: { reason: "asleep", since: at(18, 2, 11, 1) } }),
    moved(at(9, 1, 40), "ada-laptop", "offline", "online"),
    happened(at(9, 3, 12), "session.started", ["session", "s1"], { harness: "claude-code", machine_id: "ada-laptop", root: "billing-api", turn: "working", since: at(9, 3, 12) }),
    turned(at(9, 8, 50), "s3", "ada-laptop", "notes", "opencode", "idle", "working"),
    turned(at(9, 14, 55), "s3", "ada-laptop", "notes", "opencode", "working", "idle"),
    moved(at(9, 20, 3), "ci-runner-2", "online", "unlinked"),
    moved(at(9, 20, 8), "ci-runner-2", "unlinked", "online"),
    moved(at(9, 20, 15), "ci-runner-2", "online", "unlinked"),
    moved(at(9, 20, 22), "ci-runner-2", "unlinked", "online"),
    happened(at(9, 28, 9), "member.joined", ["principal", "prin_dana"], { name: "Dana", role: "member", active: true }, by("person", "Dana")),
    turned(at(9, 31, 18), "s4", "ben-desk", "mobile", "codex", "waiting_input", "working"),
    happened(at(9, 33, 40), "custom.cli.deploy", ["custom", "custom.cli.deploy"], { text: "deploy 4f2a91c finished" }, by("person", "Ben")),
    turned(at(9, 34, 31), "s1", "ada-laptop", "billing-api", "claude-code", "working", "waiting_approval"),
    turned(at(9, 38, 0), "s4", "ben-desk", "mobile", "codex", "working", "waiting_input"),
  ];
}

const changes = [
  { at: at(7, 28, 31), to: "connecting", why: "Teamlamp started." },
  { at: at(7, 28, 33), to: "online", why: "The server answers and the link is held." },
  { at: at(9, 36, 5), to: "offline", why: "No answer from 127.0.0.1:8720: the connection was refused." },
];

const full = (more: Partial<WindowState> = {}, connection: Partial<ContextStatus> = {}): WindowState =>
  windowState({
    status: {
      ...windowState().status,
      contexts: [context({ changes: changes.slice(0, 2), ...connection })],
      sessions: sessions.slice(0, 3).map(({ session: s }) => ({
        harness: s.harness,
        native_id: s.native_id,
        root: s.root ?? "",
        turn: s.turn,
        since: s.turn_since,
        confirmed: true,
      })),
    },
    machines,
    sessions,
    feed: feed(),
    ...more,
  });

const offline = { state: { state: "offline", why: "No answer from 127.0.0.1:8720: the connection was refused.", since: at(9, 36, 5), next_try_at: NOW + 12_000 } as const, state_since: at(9, 36, 5), linked_at: null, heartbeat_at: at(9, 35, 58), changes };
/** What was known at 09:36, before the question of `mobile`. */
const stale = {
  team: { context: "acme", role: "owner" as const, retention_days: 7, read_at: at(9, 36, 0) },
  sessions: sessions.map((row) => (row.session.id === "s4" ? drawn("s4", "ben-desk", "mobile", "codex", "working", 7 * MINUTE, "....................wwwwwwww") : row)),
};
const unread = { team: { context: "acme", role: null, retention_days: null, read_at: null }, machines: [], sessions: [], feed: [] };
const fresh = (more: Partial<WindowState> = {}): WindowState =>
  windowState({ status: { ...windowState().status, contexts: [] }, team: null, local_server: null, ...more });
const place = (name: "feed" | "invite" | "join") => ({ place: { place: name, session: null } });

const preview = (more: Partial<JoinPreview> = {}): JoinPreview => ({
  origin: "https://teams.acme.example",
  pinned: false,
  in_clear: false,
  invitation: {
    team: { id: "team_1", name: "Acme" },
    server: { id: "srv_1", name: "teams.acme.example" },
    inviter: { name: "Ben" },
    role: "member",
    expires_at: NOW + 23 * HOUR,
  },
  ...more,
});
const locked = "The keyring is locked. Unlock it with your login password, then try again.";
const linkTo = (origin: string) => `teamlamp://join?server=${encodeURIComponent(origin)}&code=7K3QF-9XW2M&team=Acme`;
const link = linkTo(preview().origin);

/** A QR code's shape: not a readable one. */
const qr = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 29 29">${Array.from({ length: 29 * 29 }, (_, i) => ((Math.imul(i + 1, 2654435761) >>> 13) % 100 < 48 ? `<rect x="${i % 29}" y="${Math.floor(i / 29)}" width="1" height="1"/>` : "")).join("")}</svg>`;
const invited = { code: "7K3QF-9XW2M", link: linkTo("http://127.0.0.1:8720"), qr_svg: qr, expires_at: NOW + 24 * HOUR, origin: "http://127.0.0.1:8720", only_this_computer: true };

/** A team of many, with long names. */
function crowd(): WindowState {
  const many = Array.from({ length: 24 }, (_, i) =>
    machine(`m${i}`, {
      name: i === 3 ? "the-build-machine-in-the-cellar-of-the-old-office-04" : `machine-${String(i).padStart(2, "0")}`,
      connection: i % 7 === 6 ? "offline" : i % 5 === 4 ? "unlinked" : "online",
    }),
  );
  const rows = many.flatMap((m, i) =>
    Array.from({ length: (i * 3) % 9 }, (_, j) =>
      drawn(`c${i}-${j}`, m.id, j === 0 ? "a-repository-with-a-rather-long-name" : `repo-${j}`, j % 2 ? "codex" : "claude-code", (["working", "idle", "working", "waiting_input", "unknown"] as const)[(i + j) % 5] ?? "idle", (j + 1) * 7 * MINUTE, "iiiiwwwwwwwwiiwwwwwwwwwwwwww"),
    ),
  );
  return full({ machines: [...machines, ...many], sessions: [...sessions, ...rows] });
}

const long = (count: number): FeedItem[] =>
  Array.from({ length: count }, (_, i) => event(i + 1, { at: NOW - (count - i) * 10_000, data: { text: `event ${i + 1}` } }));

export const scenes: Record<string, () => Scene> = {
  opening: () => ({ state: "never" }),
  unreachable: () => ({ state: "unreachable" }),

  first: () => ({ state: fresh(), answers: { start_team: "never" } }),
  "first-notices": () => ({
    state: fresh({ notices: [{ notice: "tray_missing" }, { notice: "problem", what: "The list of your teams could not be read. It is kept as contexts.json.broken-1; join your teams again." }] }),
  }),
  "first-nameless": () => ({ state: fresh({ suggested: { person: "", machine: "ada-laptop", team: "" } }) }),
  "first-keyring": () => ({
    state: fresh({ custody: { why: locked } }),
    answers: { start_team: { failure: { code: "keyring", message: locked, next: null } } },
  }),
  "first-failing": () => ({
    state: fresh(),
    answers: { start_team: { failure: { code: "local_server", message: "Port 8720 is in use by another program.", next: "End it, or choose another port with teamlamp serve --listen." } } },
  }),

  join: () => ({ state: fresh(place("join")), answers: { join_preview: { value: preview() }, join_accept: "never" } }),
  "join-clear": () => ({
    state: fresh({ ...place("join"), pending_join: { link: linkTo("http://192.168.1.20:8720") } }),
    answers: { join_preview: { value: preview({ origin: "http://192.168.1.20:8720", in_clear: true }) } },
  }),
  "join-failing": () => ({
    state: fresh(place("join")),
    answers: { join_preview: { failure: { code: "gone", message: "The code has been used.", next: "Ask for a new one." } } },
  }),
  "join-owner": () => ({
    state: fresh({ ...place("join"), pending_join: { link } }),
    answers: {
      join_preview: { value: preview({ pinned: true, invitation: { ...preview().invitation, team: null, inviter: null, role: "owner" } }) },
    },
  }),
  "join-keyring": () => ({
    state: fresh({ ...place("join"), pending_join: { link }, custody: { why: locked } }),
    answers: { join_preview: { value: preview() }, join_accept: "never" },
  }),
  "join-second": () => ({ state: full(place("join")), answers: { join_preview: { value: preview() } } }),

  "now-full": () => ({ state: full() }),
  "now-crowd": () => ({ state: crowd() }),
  "now-alone": () => ({ state: full({ machines: machines.slice(0, 1), sessions: [] }) }),
  "now-empty": () => ({ state: full({ machines: [], sessions: [] }) }),
  "now-loading": () => ({ state: full(unread, { state: { state: "connecting" }, state_since: NOW - 3000, heartbeat_at: null, linked_at: null }) }),
  "now-offline": () => ({ state: full(stale, offline) }),
  "now-error": () => ({
    state: full(stale, { state: { state: "revoked", why: "This machine was revoked by an admin. Join again with a new invitation." }, linked_at: null }),
  }),
  "now-keyring": () => ({ state: full({ ...stale, custody: { why: locked } }, { state: { state: "keyring_needed", why: locked }, linked_at: null }) }),
  "now-notices": () => ({
    state: full({ notices: [{ notice: "tray_missing" }, { notice: "problem", what: "The file contexts.json could not be read; it is kept aside." }] }),
  }),
  "now-paused": () => {
    const state = full({}, { state: { state: "paused", until: NOW + HOUR }, linked_at: null, state_since: NOW - 4 * MINUTE });
    state.status.paused = { until: NOW + HOUR };
    return { state };
  },
  "now-teams": () => {
    const state = full();
    state.status.contexts.push(context({ id: "other", team_id: "team_2", team_name: "Night shift" }));
    return { state };
  },
  "now-hostile": () => ({ state: full({ machines: hostile.machines, sessions: hostile.sessions }) }),

  "feed-full": () => ({ state: full(place("feed")) }),
  "feed-empty": () => ({ state: full({ ...place("feed"), feed: [] }) }),
  "feed-loading": () => ({ state: full({ ...place("feed"), ...unread }, { state: { state: "connecting" }, state_since: NOW - 3000 }) }),
  "feed-offline": () => ({ state: full({ ...place("feed"), ...stale }, offline) }),
  "feed-error": () => ({
    state: full(place("feed")),
    answers: { history: { failure: { code: "unavailable", message: "The server is busy.", next: "Try again in a minute." } } },
  }),
  "feed-10000": () => ({ state: full({ ...place("feed"), feed: long(10_000) }) }),
  "feed-history": () => ({
    state: full({ ...place("feed"), feed: long(300).slice(200) }),
    answers: { history: { value: { items: long(200).slice(100).reverse().map((item) => (item.item === "event" ? { sequence: item.sequence, event: item.event } : null)), next_before: 101 } } },
  }),
  "feed-hostile": () => ({ state: full({ ...place("feed"), feed: hostile.feed }) }),

  invite: () => ({ state: full(place("invite")), answers: { invite: { value: invited } } }),
  "invite-failing": () => ({
    state: full(place("invite")),
    answers: { invite: { failure: { code: "forbidden", message: "Only admins invite in this team.", next: "Ask one of them." } } },
  }),
  "invite-viewer": () => ({ state: full({ ...place("invite"), team: { context: "acme", role: "viewer", retention_days: 7, read_at: NOW } }) }),
  "invite-offline": () => ({ state: full({ ...place("invite"), ...stale }, offline) }),
  "invite-loading": () => ({ state: full(place("invite")), answers: { invite: "never" } }),
};
