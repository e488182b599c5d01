//! Every route of the server, in one table: capabilities, OpenAPI and the dispatcher read it.

use crate::invitations::accept;
use crate::request::Handler;
use crate::sessions::{attention, follow, list as session_list, register};
use crate::{
    audit, capabilities, credentials, enrollment, events, health, heartbeat, invitations, link, machines, me,
    members, metrics, notes, openapi, presence, teams,
};
use http::Method;
use percent_encoding::percent_decode_str;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use teamlamp_wire::account::{
    AuditRow, Capabilities, ChangeMember, ChangeTeam, CreateTeam, CreatedTeam, Me, Member, Rotated, Team,
};
use teamlamp_wire::event::{Publish, Published, Sequenced};
use teamlamp_wire::frame::{Frame, FramePage};
use teamlamp_wire::heartbeat::{Heartbeat, HeartbeatAnswer, Root};
use teamlamp_wire::invitation::{
    AcceptInvitation, Accepted, CreateInvitation, CreatedInvitation, Invitation, InvitationPreview,
    PreviewInvitation,
};
use teamlamp_wire::limits;
use teamlamp_wire::machine::{Configuration, Enroll, Enrolled, Machine, RenameMachine, SendNote, SentNote};
use teamlamp_wire::presence::PresenceFrame;
use teamlamp_wire::session::{RegisterSessions, RegisteredSessions, Session, SessionFrame};

/// Who may call a route at all; what they may do is the handler's guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing, not even a known host name or a place in the rate limit: `/healthz` and `/readyz`.
    Probe,
    /// Nothing; a valid credential is still looked at where one is sent.
    Nothing,
    /// Nothing; but one that is sent must be valid, since what is done is done for its holder.
    Optional,
    /// A valid credential.
    Credential,
}

/// Makes the JSON schema of a wire type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of `T`, as a row of the table names it.
pub fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// What a route answers.
#[derive(Clone, Copy, Debug)]
pub enum Gives {
    /// 204.
    Nothing,
    /// Plain text.
    Text,
    /// JSON without an envelope.
    Bare(SchemaOf),
    /// One result in its envelope.
    One(SchemaOf),
    /// A list in its envelope.
    List(SchemaOf),
    /// Server-sent events, each of this shape.
    Stream(SchemaOf),
    /// A WebSocket.
    Upgrade,
}

/// One row of the table.
#[derive(Debug)]
pub struct Route {
    /// The `operationId`, which capabilities and the audit name.
    pub operation: &'static str,
    /// The method.
    pub method: Method,
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// Who may call it at all.
    pub needs: Needs,
    /// The query parameters that it knows; any other is refused.
    pub query: &'static [&'static str],
    /// The largest body.
    pub body_bytes: usize,
    /// The body that it takes.
    pub takes: Option<SchemaOf>,
    /// What it answers.
    pub gives: Gives,
    /// The status of its success.
    pub status: u16,
    /// Another status of the same success.
    pub or_status: Option<u16>,
    /// Another form of the answer, for who accepts it: its media type and shape.
    pub or_as: Option<(&'static str, SchemaOf)>,
    /// Whether the answer carries the revision as `ETag`.
    pub tagged: bool,
    /// Whether it wants `If-Match`.
    pub revised: bool,
    /// Whether it changes what anyone may do, so that its refusals are audited.
    pub access: bool,
    /// What does it.
    pub handler: Handler,
}

impl Route {
    const fn new(operation: &'static str, method: Method, path: &'static str, handler: Handler) -> Self {
        Self {
            operation,
            method,
            path,
            needs: Needs::Credential,
            query: &[],
            body_bytes: limits::BODY_BYTES,
            takes: None,
            gives: Gives::Nothing,
            status: 204,
            or_status: None,
            or_as: None,
            tagged: false,
            revised: false,
            access: false,
            handler,
        }
    }
    const fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }
    const fn query(mut self, query: &'static [&'static str]) -> Self {
        self.query = query;
        self
    }
    const fn takes(mut self, takes: SchemaOf) -> Self {
        self.takes = Some(takes);
        self
    }
    /// Answers 200 with JSON without an envelope.
    const fn bare(mut self, of: SchemaOf) -> Self {
        self.gives = Gives::Bare(of);
        self.status = 200;
        self
    }
    /// Answers 200 with plain text.
    const fn text(mut self) -> Self {
        self.gives = Gives::Text;
        self.status = 200;
        self
    }
    /// Answers 200 with one result.
    const fn one(mut self, of: SchemaOf) -> Self {
        self.gives = Gives::One(of);
        self.status = 200;
        self
    }
    /// Answers 201 with what was made.
    const fn made(mut self, of: SchemaOf) -> Self {
        self.gives = Gives::One(of);
        self.status = 201;
        self
    }
    /// Answers 200 with a list.
    const fn list(mut self, of: SchemaOf) -> Self {
        self.gives = Gives::List(of);
        self.status = 200;
        self
    }
    /// Answers 200 with server-sent events.
    const fn stream(mut self, of: SchemaOf) -> Self {
        self.gives = Gives::Stream(of);
        self.status = 200;
        self
    }
    /// Answers 101: the connection becomes a WebSocket.
    const fn upgrade(mut self) -> Self {
        self.gives = Gives::Upgrade;
        self.status = 101;
        self
    }
    const fn or_status(mut self, status: u16) -> Self {
        self.or_status = Some(status);
        self
    }
    const fn or_as(mut self, kind: &'static str, of: SchemaOf) -> Self {
        self.or_as = Some((kind, of));
        self
    }
    const fn tagged(mut self) -> Self {
        self.tagged = true;
        self
    }
    const fn body(mut self, bytes: usize) -> Self {
        self.body_bytes = bytes;
        self
    }
    const fn revised(mut self) -> Self {
        self.revised = true;
        self
    }
    const fn access(mut self) -> Self {
        self.access = true;
        self
    }
}

const LIST: &[&str] = &["limit", "cursor"];

/// Makes a handler of an `async fn(Call) -> Result<Reply, ApiError>`.
macro_rules! h {
    ($function:path) => {
        |call| Box::pin($function(call))
    };
}

/// The table.
pub static ROUTES: &[Route] = &[
    Route::new("health.alive", Method::GET, "/healthz", h!(health::alive)).needs(Needs::Probe).bare(ANY),
    Route::new("health.ready", Method::GET, "/readyz", h!(health::ready)).needs(Needs::Probe).bare(ANY),
    Route::new("metrics.read", Method::GET, "/metrics", h!(metrics::read)).needs(Needs::Nothing).text(),
    Route::new("openapi.read", Method::GET, "/v1/openapi.json", h!(openapi::read))
        .needs(Needs::Nothing)
        .bare(ANY),
    Route::new("capabilities.read", Method::GET, "/v1/capabilities", h!(capabilities::read))
        .needs(Needs::Nothing)
        .bare(of::<Capabilities>),
    // Accounts.
    Route::new("me.read", Method::GET, "/v1/me", h!(me::read)).one(of::<Me>),
    Route::new("credentials.rotate", Method::POST, "/v1/credentials/rotate", h!(credentials::rotate))
        .one(of::<Rotated>)
        .access(),
    Route::new("credentials.sign_out", Method::DELETE, "/v1/credentials/current", h!(credentials::sign_out))
        .access(),
    Route::new("invitations.preview", Method::POST, "/v1/invitations/preview", h!(invitations::preview))
        .needs(Needs::Nothing)
        .takes(of::<PreviewInvitation>)
        .one(of::<InvitationPreview>),
    Route::new("invitations.accept", Method::POST, "/v1/invitations/accept", h!(accept::accept))
        .needs(Needs::Optional)
        .takes(of::<AcceptInvitation>)
        .made(of::<Accepted>)
        .access(),
    Route::new("teams.create", Method::POST, "/v1/teams", h!(teams::create))
        .takes(of::<CreateTeam>)
        .made(of::<CreatedTeam>)
        .access(),
    Route::new("teams.read", Method::GET, "/v1/teams/{team}", h!(teams::read)).one(of::<Team>).tagged(),
    Route::new("teams.change", Method::PATCH, "/v1/teams/{team}", h!(teams::change))
        .takes(of::<ChangeTeam>)
        .one(of::<Team>)
        .tagged()
        .revised()
        .access(),
    Route::new("members.list", Method::GET, "/v1/teams/{team}/members", h!(members::list))
        .query(LIST)
        .list(of::<Member>),
    Route::new("members.read", Method::GET, MEMBER, h!(members::read)).one(of::<Member>).tagged(),
    Route::new("members.change", Method::PATCH, MEMBER, h!(members::change))
        .takes(of::<ChangeMember>)
        .one(of::<Member>)
        .tagged()
        .revised()
        .access(),
    Route::new("members.remove", Method::DELETE, MEMBER, h!(members::remove)).revised().access(),
    Route::new("invitations.create", Method::POST, INVITATIONS, h!(invitations::create))
        .takes(of::<CreateInvitation>)
        .made(of::<CreatedInvitation>)
        .tagged()
        .access(),
    Route::new("invitations.list", Method::GET, INVITATIONS, h!(invitations::list))
        .query(LIST)
        .list(of::<Invitation>),
    Route::new("invitations.revoke", Method::DELETE, INVITATION, h!(invitations::revoke)).access(),
    Route::new("audit.list", Method::GET, "/v1/teams/{team}/audit", h!(audit::list))
        .query(LIST)
        .list(of::<AuditRow>)
        .or_as("application/x-ndjson", of::<AuditRow>),
    // Machines.
    Route::new("machines.enroll", Method::POST, MACHINES, h!(enrollment::enroll))
        .takes(of::<Enroll>)
        .made(of::<Enrolled>)
        .or_status(200)
        .tagged()
        .access(),
    Route::new("machines.list", Method::GET, MACHINES, h!(machines::list)).query(LIST).list(of::<Machine>),
    Route::new("machines.read", Method::GET, MACHINE, h!(machines::read)).one(of::<Machine>).tagged(),
    Route::new("machines.rename", Method::PATCH, MACHINE, h!(machines::rename))
        .takes(of::<RenameMachine>)
        .one(of::<Machine>)
        .tagged()
        .revised()
        .access(),
    Route::new("machines.revoke", Method::DELETE, MACHINE, h!(machines::revoke)).revised().access(),
    Route::new("machines.roots", Method::GET, ROOTS, h!(machines::roots)).query(LIST).list(of::<Root>),
    Route::new("machines.configuration", Method::GET, CONFIGURATION, h!(machines::configuration))
        .one(of::<Configuration>),
    // Presence.
    Route::new("machines.heartbeat", Method::POST, HEARTBEAT, h!(heartbeat::receive))
        .body(limits::BODY_HEARTBEAT_BYTES)
        .takes(of::<Heartbeat>)
        .one(of::<HeartbeatAnswer>)
        .tagged(),
    Route::new("machines.link", Method::GET, LINK, h!(link::open)).upgrade(),
    Route::new("machines.events", Method::GET, MACHINE_EVENTS, h!(presence::stream::open))
        .query(&["after"])
        .stream(of::<PresenceFrame>),
    Route::new("machines.notes.send", Method::POST, NOTES, h!(notes::send))
        .takes(of::<SendNote>)
        .made(of::<SentNote>),
    // Sessions.
    Route::new("sessions.register", Method::POST, SESSIONS, h!(register::register))
        .takes(of::<RegisterSessions>)
        .one(of::<RegisteredSessions>),
    Route::new("sessions.list", Method::GET, SESSIONS, h!(session_list::list))
        .query(&["limit", "cursor", "machine", "harness", "turn", "root", "text", "live"])
        .list(of::<Session>),
    Route::new("sessions.read", Method::GET, SESSION, h!(session_list::read)).one(of::<Session>).tagged(),
    Route::new("sessions.follow", Method::GET, FOLLOW, h!(follow::open)).stream(of::<SessionFrame>),
    Route::new("sessions.attention.claim", Method::POST, ATTENTION, h!(attention::claim))
        .one(of::<Session>)
        .tagged(),
    Route::new("sessions.attention.release", Method::DELETE, ATTENTION, h!(attention::release)),
    // Events.
    Route::new("events.publish", Method::POST, EVENTS, h!(events::publish::publish))
        .body(limits::BODY_EVENTS_BYTES)
        .takes(of::<Publish>)
        .made(of::<Published>),
    Route::new("events.stream", Method::GET, EVENTS, h!(events::stream::open))
        .query(&["after", "source", "kinds", "wait"])
        .stream(of::<Frame>)
        .or_as("application/json", of::<FramePage>),
    Route::new("events.history", Method::GET, HISTORY, h!(events::history::list))
        .query(&["before", "limit", "kinds", "machine", "session", "actor", "text"])
        .list(of::<Sequenced>),
    Route::new("events.read", Method::GET, EVENT, h!(events::history::read)).one(of::<Sequenced>),
];

const MEMBER: &str = "/v1/teams/{team}/members/{principal}";
const INVITATIONS: &str = "/v1/teams/{team}/invitations";
const INVITATION: &str = "/v1/teams/{team}/invitations/{invitation}";
const MACHINES: &str = "/v1/teams/{team}/machines";
const MACHINE: &str = "/v1/teams/{team}/machines/{machine}";
const ROOTS: &str = "/v1/teams/{team}/machines/{machine}/roots";
const CONFIGURATION: &str = "/v1/teams/{team}/machines/{machine}/configuration";
const HEARTBEAT: &str = "/v1/teams/{team}/machines/{machine}/heartbeat";
const LINK: &str = "/v1/teams/{team}/machines/{machine}/link";
const NOTES: &str = "/v1/teams/{team}/machines/{machine}/notes";
const MACHINE_EVENTS: &str = "/v1/teams/{team}/machines/events";
const SESSIONS: &str = "/v1/teams/{team}/sessions";
const SESSION: &str = "/v1/teams/{team}/sessions/{session}";
const FOLLOW: &str = "/v1/teams/{team}/sessions/{session}/follow";
const ATTENTION: &str = "/v1/teams/{team}/sessions/{session}/attention";
const EVENTS: &str = "/v1/teams/{team}/events";
const HISTORY: &str = "/v1/teams/{team}/events/history";
const EVENT: &str = "/v1/teams/{team}/events/{event}";
const ANY: SchemaOf = of::<serde_json::Value>;

type Paths = matchit::Router<(&'static str, Vec<&'static Route>)>;

static PATHS: LazyLock<Paths> = LazyLock::new(|| {
    let mut by_path: BTreeMap<&str, Vec<&Route>> = BTreeMap::new();
    for route in ROUTES {
        by_path.entry(route.path).or_default().push(route);
    }
    let mut paths = Paths::new();
    for (path, routes) in by_path {
        #[expect(clippy::expect_used, reason = "a table with two meanings of a path is a mistake of ours")]
        paths.insert(path, (path, routes)).expect("the paths of the table do not conflict");
    }
    paths
});

/// A path of the table and its parameters in a request.
#[derive(Debug)]
pub struct Found {
    /// The path as the table writes it.
    pub path: &'static str,
    /// Its parameters by name.
    pub params: BTreeMap<String, String>,
    routes: &'static [&'static Route],
}

impl Found {
    /// The row of a method.
    pub fn route(&self, method: &Method) -> Option<&'static Route> {
        self.routes.iter().find(|route| route.method == *method).copied()
    }
    /// The methods that the path knows, as `Allow` lists them.
    pub fn methods(&self) -> String {
        let methods: Vec<&str> = self.routes.iter().map(|route| route.method.as_str()).collect();
        methods.join(", ")
    }
}

/// Finds the path of a request in the table.
pub fn find(path: &str) -> Option<Found> {
    let matched = PATHS.at(path).ok()?;
    let params = matched
        .params
        .iter()
        .map(|(name, value)| {
            let value = percent_decode_str(value).decode_utf8().ok()?;
            Some((name.to_owned(), value.into_owned()))
        })
        .collect::<Option<_>>()?;
    let (path, routes) = matched.value;
    Some(Found { path, params, routes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        for (i, route) in ROUTES.iter().enumerate() {
            for other in &ROUTES[i + 1..] {
                assert_ne!(route.operation, other.operation);
                assert!(route.path != other.path || route.method != other.method, "{}", route.path);
            }
            let found = find(&route.path.replace(['{', '}'], "")).unwrap();
            assert_eq!(found.route(&route.method).map(|r| r.operation), Some(route.operation));
        }
        assert!(find("/v1/nothing").is_none());
    }
}
