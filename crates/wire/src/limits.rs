//! Every size, count and interval that both sides agree on. Sizes are bytes, intervals milliseconds.

/// Largest body of a heartbeat (spec 01).
pub const BODY_HEARTBEAT_BYTES: usize = 4 << 20;
/// Largest body of a publication of events.
pub const BODY_EVENTS_BYTES: usize = 2 << 20;
/// Largest body of every other request.
pub const BODY_BYTES: usize = 1 << 20;
/// Deepest nesting of JSON that is read.
pub const JSON_DEPTH: usize = 64;
/// Longest name of a team, machine, person or group, in characters.
pub const NAME_CHARS: usize = 64;
/// Longest note of an invitation, in characters.
pub const INVITATION_NOTE_CHARS: usize = 200;
/// Longest note to a machine, in characters.
pub const NOTE_CHARS: usize = 2000;

/// Items of a list when no limit is given, and the most that may be asked for.
pub const PAGE_DEFAULT: usize = 50;
/// The most items that a list's `limit` may ask for.
pub const PAGE_MAX: usize = 200;
/// The most machines that are listed at once.
pub const MACHINES_MAX: usize = 1000;

/// The most bindings, and as many items of activity, of one heartbeat (spec 02).
pub const BINDINGS_MAX: usize = 4096;
/// The most roots of one heartbeat.
pub const ROOTS_MAX: usize = 1024;
/// The largest descriptor of one binding.
pub const DESCRIPTOR_BYTES: usize = 8 << 10;
/// The largest sequence: integers above it do not survive a JSON number.
pub const SEQUENCE_MAX: u64 = (1 << 53) - 1;
/// How many incarnations of a machine the server remembers, so that a clone is noticed.
pub const INCARNATIONS_KEPT: usize = 16;

/// How often a connector reports when nothing changes.
pub const HEARTBEAT_MS: i64 = 15_000;
/// Reports of changes come at most this often.
pub const REPORT_MIN_MS: i64 = 1_000;
/// A machine is online only while its last heartbeat is younger than this.
pub const ONLINE_MS: i64 = 45_000;
/// How long after its start a server trusts the links that its store names (spec 02).
pub const RESTART_GRACE_MS: i64 = 45_000;
/// How often each side of a link pings.
pub const LINK_PING_MS: i64 = 15_000;
/// Silence of this length ends a link.
pub const LINK_SILENCE_MS: i64 = 40_000;
/// How long a link may take to say hello.
pub const LINK_HELLO_MS: i64 = 5_000;
/// The largest text frame of a link.
pub const LINK_FRAME_BYTES: usize = 64 << 10;
/// A link that lived this long resets the backoff of its dialling.
pub const LINK_STEADY_MS: i64 = 60_000;
/// The backoff of dialling a link: first and longest wait.
pub const LINK_BACKOFF_MS: (i64, i64) = (1_000, 30_000);

/// The largest `data` of an event, serialized (spec 03).
pub const EVENT_DATA_BYTES: usize = 16 << 10;
/// The most events of one publication, and sessions of one registration.
pub const PUBLISH_MAX: usize = 100;
/// How far back an event's own `at` is believed.
pub const EVENT_AT_PAST_MS: i64 = 7 * 86_400_000;
/// How far ahead an event's own `at` is believed.
pub const EVENT_AT_AHEAD_MS: i64 = 60_000;
/// Rows of one page of a snapshot or of a replay.
pub const STREAM_PAGE: usize = 32;
/// How often an idle stream sends a comment.
pub const STREAM_COMMENT_MS: i64 = 15_000;
/// What a new stream sends first, so that a buffering proxy shows itself.
pub const STREAM_PADDING_BYTES: usize = 2 << 10;
/// What may wait for one reader.
pub const STREAM_WAITING_BYTES: usize = 1 << 20;
/// How long a stream's writer waits for room before it ends the stream.
pub const STREAM_SLOW_MS: i64 = 10_000;
/// Open streams of one install.
pub const STREAMS_PER_INSTALL: usize = 10;
/// Open streams of one credential.
pub const STREAMS_PER_CREDENTIAL: usize = 40;
/// The longest that a long poll waits, in seconds.
pub const LONG_POLL_SECONDS: u64 = 25;
/// Silence of this length on a stream is a drop.
pub const STREAM_SILENCE_MS: i64 = 40_000;
/// A client that has no byte of a stream after this long changes to long polls.
pub const STREAM_FIRST_BYTE_MS: i64 = 10_000;
/// The longest line of a stream.
pub const STREAM_LINE_BYTES: usize = 1 << 20;
/// The backoff of following a stream: first and longest wait.
pub const STREAM_BACKOFF_MS: (i64, i64) = (250, 5_000);

/// Requests a minute, and the burst, of one credential (spec 01).
pub const RATE_PER_MINUTE: u32 = 600;
/// How many requests of one credential may come at once.
pub const RATE_BURST: u32 = 120;
/// Requests a minute of one address without a credential.
pub const RATE_ANONYMOUS_PER_MINUTE: u32 = 60;
/// Wrong invitation codes of one address in an hour.
pub const WRONG_CODES_PER_HOUR: u32 = 10;
/// How long the answer to an idempotency key is kept.
pub const IDEMPOTENCY_MS: i64 = 86_400_000;
/// How long one of two equal requests waits for the other's answer.
pub const IDEMPOTENCY_WAIT_MS: i64 = 30_000;
/// The longest idempotency key.
pub const IDEMPOTENCY_KEY_CHARS: usize = 128;
/// The longest caller header that is kept, and the part of it that names the call site.
pub const CALLER_CHARS: (usize, usize) = (120, 60);

/// How long a user credential lives after its last use.
pub const USER_CREDENTIAL_MS: i64 = 90 * 86_400_000;
/// How long a machine credential lives.
pub const MACHINE_CREDENTIAL_MS: i64 = 30 * 86_400_000;
/// The age at which a connector rotates its machine credential.
pub const MACHINE_CREDENTIAL_ROTATE_MS: i64 = 20 * 86_400_000;
/// How long before its end a connector warns of a credential that it could not rotate.
pub const CREDENTIAL_WARNING_MS: i64 = 5 * 86_400_000;
/// How long an old token lives beside the new one that was never used.
pub const ROTATION_OVERLAP_MS: i64 = 86_400_000;
/// How long ended invitations answer `gone` rather than `not_found`.
pub const INVITATION_KEPT_MS: i64 = 30 * 86_400_000;
/// Days for which a team keeps events unless it says otherwise, and what it may say.
pub const RETENTION_DAYS: (u32, u32, u32) = (7, 1, 365);
/// Minutes after which a claimed session that still waits is said once more.
pub const ATTENTION_MINUTES: (u32, u32, u32) = (15, 1, 1440);
/// How long presence transitions are kept.
pub const PRESENCE_EVENTS_KEPT_MS: i64 = 7 * 86_400_000;
/// Transitions of one machine within this time that return to where they began are one line.
pub const FLAP_MS: i64 = 20_000;

/// Frames that the local door keeps for its readers (spec 06).
pub const DOOR_FRAMES: usize = 10_000;
/// Rows and bytes of the outbox.
pub const OUTBOX_LIMITS: (usize, usize) = (50_000, 64 << 20);

/// How many followed sessions a machine is told of at once (spec 02).
pub const WATCHED_MAX: usize = 90;
