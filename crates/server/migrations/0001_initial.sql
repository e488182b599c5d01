-- The tables of teams.v1. Times are milliseconds since the epoch by the server's clock.
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE teams (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  revision INTEGER NOT NULL DEFAULT 1,
  members_may_invite INTEGER NOT NULL DEFAULT 1,
  retention_days INTEGER NOT NULL DEFAULT 7,
  attention_minutes INTEGER NOT NULL DEFAULT 15,
  -- Rises with every change of what anyone may do; open streams notice it.
  auth_epoch INTEGER NOT NULL DEFAULT 1,
  last_sequence INTEGER NOT NULL DEFAULT 0,
  -- What a cursor may not be below, and how far the deletes went.
  pruned_through INTEGER NOT NULL DEFAULT 0,
  deleted_through INTEGER NOT NULL DEFAULT 0,
  presence_sequence INTEGER NOT NULL DEFAULT 0,
  presence_pruned_through INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE principals (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE memberships (
  team_id TEXT NOT NULL REFERENCES teams (id),
  principal_id TEXT NOT NULL REFERENCES principals (id),
  role TEXT NOT NULL,
  active INTEGER NOT NULL DEFAULT 1,
  revision INTEGER NOT NULL DEFAULT 1,
  joined_at INTEGER NOT NULL,
  PRIMARY KEY (team_id, principal_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memberships_by_principal ON memberships (principal_id, team_id);

CREATE TABLE credentials (
  id TEXT PRIMARY KEY,
  principal_id TEXT NOT NULL REFERENCES principals (id),
  kind TEXT NOT NULL,
  -- The team and machine of a machine credential; null for a person's.
  team_id TEXT REFERENCES teams (id),
  machine_id TEXT,
  -- SHA-256 of the whole token; `next_hash` is the token of a rotation that was not used yet.
  token_hash BLOB NOT NULL,
  next_hash BLOB,
  next_issued_at INTEGER,
  first_used_at INTEGER,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX credentials_by_principal ON credentials (principal_id);
CREATE INDEX credentials_by_machine ON credentials (machine_id) WHERE machine_id IS NOT NULL;
CREATE INDEX credentials_by_expiry ON credentials (expires_at);

CREATE TABLE invitations (
  id TEXT PRIMARY KEY,
  -- Null for the owner's code of a new server, which makes a team.
  team_id TEXT REFERENCES teams (id),
  role TEXT NOT NULL,
  code_mac BLOB NOT NULL UNIQUE,
  expires_at INTEGER NOT NULL,
  max_uses INTEGER NOT NULL,
  uses INTEGER NOT NULL DEFAULT 0,
  note TEXT,
  revision INTEGER NOT NULL DEFAULT 1,
  created_by TEXT REFERENCES principals (id),
  created_at INTEGER NOT NULL,
  -- When it ended by use, by hand or by time; kept 30 days from then.
  ended_at INTEGER
) STRICT;
CREATE INDEX invitations_by_team ON invitations (team_id, created_at, id);
CREATE INDEX invitations_by_expiry ON invitations (expires_at);
CREATE INDEX invitations_by_end ON invitations (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE machines (
  id TEXT PRIMARY KEY,
  team_id TEXT NOT NULL REFERENCES teams (id),
  name TEXT NOT NULL,
  -- The name as it is compared: without regard to case.
  name_fold TEXT NOT NULL,
  custodian_id TEXT NOT NULL REFERENCES principals (id),
  enrollment TEXT NOT NULL,
  enrollment_key_hash BLOB NOT NULL,
  incarnation_id TEXT,
  sequence INTEGER NOT NULL DEFAULT 0,
  last_seen_at INTEGER,
  host_key_id TEXT,
  revision INTEGER NOT NULL DEFAULT 1,
  away_reason TEXT,
  away_since INTEGER,
  clock_offset_ms INTEGER,
  created_at INTEGER NOT NULL,
  UNIQUE (team_id, name_fold)
) STRICT;
CREATE INDEX machines_by_custodian ON machines (custodian_id, team_id);
CREATE INDEX machines_by_key ON machines (team_id, enrollment_key_hash);

-- Runs of a machine that another replaced: the newest 16, so that a clone is noticed.
CREATE TABLE machine_incarnations (
  machine_id TEXT NOT NULL REFERENCES machines (id),
  incarnation_id TEXT NOT NULL,
  replaced_at INTEGER NOT NULL,
  -- When it was heard from again, which means that there are two; said once.
  returned_at INTEGER,
  PRIMARY KEY (machine_id, incarnation_id)
) STRICT, WITHOUT ROWID;

-- What an unchanged heartbeat writes besides the machine's own row.
CREATE TABLE machine_heartbeat_state (
  machine_id TEXT PRIMARY KEY REFERENCES machines (id),
  activity_hash BLOB,
  bindings_hash BLOB,
  roots_hash BLOB,
  reported_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE machine_roots (
  machine_id TEXT NOT NULL REFERENCES machines (id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  harnesses TEXT NOT NULL,
  PRIMARY KEY (machine_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE machine_bindings (
  machine_id TEXT NOT NULL REFERENCES machines (id),
  id TEXT NOT NULL,
  incarnation_id TEXT NOT NULL,
  harness TEXT NOT NULL,
  native_id TEXT NOT NULL,
  descriptor TEXT NOT NULL,
  session_id TEXT,
  PRIMARY KEY (machine_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX machine_bindings_by_session ON machine_bindings (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX machine_bindings_unbound ON machine_bindings (machine_id) WHERE session_id IS NULL;
CREATE INDEX machine_bindings_by_native ON machine_bindings (machine_id, harness, native_id);

CREATE TABLE machine_activity (
  machine_id TEXT NOT NULL REFERENCES machines (id),
  harness TEXT NOT NULL,
  native_id TEXT NOT NULL,
  turn TEXT NOT NULL,
  since INTEGER,
  session_id TEXT,
  PRIMARY KEY (machine_id, harness, native_id)
) STRICT, WITHOUT ROWID;

-- Who is linked, and the presence of the last committed transition: nothing else says so.
CREATE TABLE machine_presence (
  machine_id TEXT PRIMARY KEY REFERENCES machines (id),
  team_id TEXT NOT NULL REFERENCES teams (id),
  linked INTEGER NOT NULL DEFAULT 0,
  connection TEXT NOT NULL DEFAULT 'offline',
  changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- Those whose presence time alone may change.
CREATE INDEX machine_presence_up ON machine_presence (machine_id) WHERE connection <> 'offline' OR linked = 1;

CREATE TABLE machine_presence_events (
  team_id TEXT NOT NULL REFERENCES teams (id),
  sequence INTEGER NOT NULL,
  at INTEGER NOT NULL,
  machine_id TEXT NOT NULL,
  from_connection TEXT NOT NULL,
  to_connection TEXT NOT NULL,
  linked INTEGER NOT NULL,
  PRIMARY KEY (team_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE machine_notes (
  id TEXT PRIMARY KEY,
  machine_id TEXT NOT NULL REFERENCES machines (id),
  sender_id TEXT NOT NULL REFERENCES principals (id),
  sender_name TEXT NOT NULL,
  text TEXT NOT NULL,
  at INTEGER NOT NULL,
  -- Its text goes with the acknowledgement; the row still counts against the sender's hour.
  acknowledged_at INTEGER
) STRICT;
CREATE INDEX machine_notes_waiting ON machine_notes (machine_id, id) WHERE acknowledged_at IS NULL;
CREATE INDEX machine_notes_by_sender ON machine_notes (sender_id, at);

CREATE TABLE sources (
  id TEXT PRIMARY KEY,
  team_id TEXT NOT NULL REFERENCES teams (id),
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  machine_id TEXT REFERENCES machines (id),
  custodian_id TEXT NOT NULL REFERENCES principals (id),
  default_visibility TEXT NOT NULL,
  revision INTEGER NOT NULL DEFAULT 1,
  last_received_at INTEGER,
  decoder TEXT
) STRICT;
CREATE UNIQUE INDEX sources_by_machine ON sources (machine_id) WHERE machine_id IS NOT NULL;

-- A session and its one origin: (source, harness, native id).
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  team_id TEXT NOT NULL REFERENCES teams (id),
  source_id TEXT NOT NULL REFERENCES sources (id),
  machine_id TEXT NOT NULL REFERENCES machines (id),
  harness TEXT NOT NULL,
  native_id TEXT NOT NULL,
  root_id TEXT,
  title TEXT,
  model TEXT,
  turn TEXT NOT NULL DEFAULT 'unknown',
  turn_since INTEGER,
  confirmed INTEGER NOT NULL DEFAULT 0,
  -- Whether a binding names it now: between a session.started and its session.ended.
  bound INTEGER NOT NULL DEFAULT 0,
  started_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  visibility TEXT NOT NULL,
  revision INTEGER NOT NULL DEFAULT 1,
  claimed_by TEXT,
  UNIQUE (source_id, harness, native_id)
) STRICT;
CREATE INDEX sessions_by_team ON sessions (team_id, created_at DESC, id DESC);
CREATE INDEX sessions_bound ON sessions (machine_id) WHERE bound = 1;
CREATE INDEX sessions_bound_by_team ON sessions (team_id, created_at DESC, id DESC) WHERE bound = 1;

CREATE TABLE events (
  team_id TEXT NOT NULL REFERENCES teams (id),
  -- Counts per team from 1 without gaps, in commit order.
  sequence INTEGER NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  resource_kind TEXT NOT NULL,
  resource_id TEXT NOT NULL,
  source_id TEXT,
  -- Who published it: the principal or machine whose repetition of the id is the same event.
  publisher TEXT,
  machine_id TEXT,
  actor TEXT NOT NULL,
  actor_id TEXT,
  data TEXT NOT NULL,
  written_at INTEGER NOT NULL,
  PRIMARY KEY (team_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX events_by_id ON events (team_id, id);

-- The current event of each resource.
CREATE TABLE event_resources (
  team_id TEXT NOT NULL REFERENCES teams (id),
  source_id TEXT NOT NULL DEFAULT '',
  resource_kind TEXT NOT NULL,
  resource_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  PRIMARY KEY (team_id, source_id, resource_kind, resource_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_resources_by_sequence ON event_resources (team_id, sequence);

CREATE TABLE idempotency (
  number INTEGER PRIMARY KEY,
  -- Empty strings stand for none.
  team_id TEXT NOT NULL,
  principal_id TEXT NOT NULL,
  route TEXT NOT NULL,
  key TEXT NOT NULL,
  digest BLOB NOT NULL,
  status INTEGER NOT NULL,
  body TEXT NOT NULL,
  etag INTEGER,
  -- The credential that the request made, so that a lost answer loses nobody (accept only).
  credential_id TEXT,
  expires_at INTEGER NOT NULL,
  UNIQUE (team_id, principal_id, route, key)
) STRICT;

CREATE TABLE audit (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  team_id TEXT,
  at INTEGER NOT NULL,
  actor TEXT,
  operation TEXT NOT NULL,
  target_id TEXT,
  outcome TEXT NOT NULL,
  revision INTEGER,
  request_id TEXT,
  count INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX audit_by_team ON audit (team_id, number);
CREATE INDEX audit_denied ON audit (team_id, actor, at) WHERE outcome = 'denied';
