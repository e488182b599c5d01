//! A team on one server, its machines, and readers of its streams.

use crate::world::{Answer, Enrolled, Person, World, config, enrolled, fresh, person};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use teamlamp_clock::{Clock, Tasks};
use teamlamp_server::Server;
use teamlamp_server::store::Run;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// When paused time begins.
pub(crate) const BEGIN: i64 = 1_760_000_000_000;
/// How long a reader waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A team and its owner.
pub(crate) struct Live {
    pub(crate) world: World,
    pub(crate) owner: Person,
    pub(crate) team: String,
    pub(crate) tasks: Tasks,
}

/// A machine and its connector's run.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) enrolled: Enrolled,
    pub(crate) run: String,
    pub(crate) sequence: i64,
}

impl Machine {
    pub(crate) fn id(&self) -> &str {
        &self.enrolled.id
    }
    pub(crate) fn token(&self) -> &str {
        &self.enrolled.token
    }
    /// A new run of its connector.
    pub(crate) fn restarted(&self) -> Self {
        Self { run: fresh("run"), sequence: 0, ..self.clone() }
    }
    pub(crate) fn binding(&self, id: &str, native: &str) -> Value {
        json!({ "id": id, "machine_id": self.id(), "incarnation_id": self.run, "harness": "codex",
                "native_session_id": native, "root_id": "root-1", "confirmed": true })
    }
    pub(crate) fn root(&self, id: &str, name: &str) -> Value {
        json!({ "id": id, "machine_id": self.id(), "name": name, "harnesses": ["codex"] })
    }
    /// The body of its next heartbeat.
    pub(crate) fn report(&mut self, bindings: &[Value], activity: Option<&[Value]>) -> Value {
        self.sequence += 1;
        let mut body = json!({ "incarnation_id": self.run, "sequence": self.sequence, "bindings": bindings,
                               "roots": [self.root("root-1", "acme")] });
        if let Some(activity) = activity {
            body["activity"] = json!(activity);
        }
        body
    }
}

pub(crate) fn activity(native: &str, turn: &str, since: i64) -> Value {
    json!({ "harness": "codex", "native_id": native, "turn": turn, "since": since })
}

impl Live {
    /// On a real socket, in real time.
    pub(crate) async fn real() -> Self {
        Self::of(World::new().await).await
    }

    /// Over pipes, in paused time.
    pub(crate) async fn paused() -> Self {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::starting_at(BEGIN));
        let mut config = config(&folder, &clock);
        (config.listen, config.run) = (None, Run::Inline);
        let server = Server::start(config).await.unwrap();
        Self::of(World { server, clock, folder }).await
    }

    async fn of(world: World) -> Self {
        let link = world.server.owner_link().expect("a new server has an owner's link");
        let body = json!({ "code": link.code.to_string(), "name": "Olga", "team_name": "Acme" });
        let accepted = request(&world, "POST", "/v1/invitations/accept", None, Some(&body)).await;
        let owner = person(&accepted);
        Self { team: owner.team.clone(), world, owner, tasks: Tasks::new() }
    }

    /// Ends the server and starts another on the same data; a pipe's clock goes on.
    pub(crate) async fn restart(self) -> Self {
        let Self { world: World { server, clock, folder }, owner, team, tasks } = self;
        let (listens, run) = (server.local_addr().is_some(), server.app().config.run);
        server.shutdown().await;
        let mut config = config(&folder, &clock);
        config.run = run;
        config.listen = config.listen.filter(|_| listens);
        let server = Server::start(config).await.unwrap();
        Self { world: World { server, clock, folder }, owner, team, tasks }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.world.clock
    }
    pub(crate) async fn pass(&self, duration_ms: i64) {
        self.clock().sleep(teamlamp_clock::ms(duration_ms)).await;
    }
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/teams/{}/{rest}", self.team)
    }
    pub(crate) async fn get(&self, rest: &str) -> Answer {
        self.get_by(&self.owner.token, rest).await
    }
    pub(crate) async fn get_by(&self, token: &str, rest: &str) -> Answer {
        request(&self.world, "GET", &self.path(rest), Some(token), None).await
    }
    pub(crate) async fn post_by(&self, token: &str, rest: &str, body: &Value) -> Answer {
        request(&self.world, "POST", &self.path(rest), Some(token), Some(body)).await
    }
    pub(crate) async fn post(&self, rest: &str, body: &Value) -> Answer {
        self.post_by(&self.owner.token, rest, body).await
    }
    /// A request at any path.
    pub(crate) async fn ask(&self, method: &str, path: &str, token: &str, body: Option<&Value>) -> Answer {
        request(&self.world, method, path, Some(token), body).await
    }
    pub(crate) async fn delete(&self, rest: &str, revision: i64) -> Answer {
        let ask = self.world.ask("DELETE", self.path(rest)).by(&self.owner.token).if_match(revision);
        ask.from("127.0.0.1").send().await
    }

    pub(crate) async fn join(&self, role: &str, name: &str) -> Person {
        let made = self.post("invitations", &json!({ "role": role })).await;
        let body = json!({ "code": made.data()["code"], "name": name });
        person(&request(&self.world, "POST", "/v1/invitations/accept", None, Some(&body)).await)
    }

    pub(crate) async fn machine(&self, name: &str) -> Machine {
        self.machine_of(&self.owner, name).await
    }
    pub(crate) async fn machine_of(&self, person: &Person, name: &str) -> Machine {
        let key = fresh("key");
        let body = json!({ "name": name, "enrollment_key": key });
        let enrolled = enrolled(&self.post_by(&person.token, "machines", &body).await, &key);
        Machine { enrolled, run: fresh("run"), sequence: 0 }
    }

    /// Sends a heartbeat.
    pub(crate) async fn send(&self, machine: &Machine, body: &Value) -> Answer {
        self.post_by(machine.token(), &format!("machines/{}/heartbeat", machine.id()), body).await
    }
    /// Sends a machine's next heartbeat, which must be fine.
    pub(crate) async fn beat(
        &self,
        machine: &mut Machine,
        bindings: &[Value],
        activity: Option<&[Value]>,
    ) -> Value {
        let body = machine.report(bindings, activity);
        let answer = self.send(machine, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.data().clone()
    }
    /// Registers native sessions; their ids.
    pub(crate) async fn register(&self, machine: &Machine, natives: &[&str]) -> Vec<String> {
        let sessions: Vec<_> = natives
            .iter()
            .map(|native| json!({ "harness": "codex", "native_id": native, "root_id": "root-1" }))
            .collect();
        let answer = self.post_by(machine.token(), "sessions", &json!({ "sessions": sessions })).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let sessions = answer.data()["sessions"].as_array().unwrap();
        sessions.iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect()
    }
    /// Publishes a custom event of the owner's; its sequence.
    pub(crate) async fn publish(&self, name: &str, data: Value) -> i64 {
        let event = json!({ "kind": format!("custom.cli.{name}"), "data": data });
        let answer = self.post("events", &json!({ "events": [event] })).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.data()["events"][0]["sequence"].as_i64().unwrap()
    }
    /// Events of the history of these kinds, oldest first.
    pub(crate) async fn told(&self, kinds: &str) -> Vec<Value> {
        let answer = self.get(&format!("events/history?limit=200&kinds={kinds}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.items().iter().rev().map(|item| item["event"].clone()).collect()
    }
    /// A machine's presence as the list shows it.
    pub(crate) async fn connection(&self, machine: &Machine) -> String {
        let answer = self.get(&format!("machines/{}", machine.id())).await;
        answer.data()["connection"].as_str().unwrap().to_owned()
    }

    /// Every row of every table, as text: what a refused request leaves as it was.
    pub(crate) fn tables(&self) -> BTreeMap<String, Vec<String>> {
        let db = rusqlite::Connection::open(self.world.server.app().store.path()).unwrap();
        let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
        let mut names = db.prepare(names).unwrap();
        let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
        let rows = |name: &str| -> Vec<String> {
            let mut all = db.prepare(&format!("SELECT * FROM {name}")).unwrap();
            let columns = all.column_count();
            let row = |row: &rusqlite::Row<'_>| {
                (0..columns).map(|i| Ok(format!("{:?}", row.get_ref(i)?))).collect::<Result<Vec<_>, _>>()
            };
            all.query_map([], row).unwrap().map(|row| row.unwrap().join(" ")).collect()
        };
        names.map(|name| (name.clone(), rows(&name))).collect()
    }

    /// How many rows the store's writer has written so far.
    pub(crate) async fn rows_written(&self) -> u64 {
        self.world.server.app().store.write(|tx| Ok(tx.total_changes())).await.unwrap()
    }

    /// A connection to the server, by its socket or by a pipe.
    pub(crate) async fn connect(&self) -> Box<dyn Pipe> {
        match self.world.server.local_addr() {
            Some(address) => Box::new(tokio::net::TcpStream::connect(address).await.unwrap()),
            None => Box::new(self.pipe(64 << 10)),
        }
    }
    /// A pipe that holds so much.
    pub(crate) fn pipe(&self, bytes: usize) -> DuplexStream {
        let (near, far) = tokio::io::duplex(bytes);
        self.world.server.serve_io(far, [127, 0, 0, 1].into());
        near
    }

    /// Opens a stream of the owner's.
    pub(crate) async fn stream(&self, rest: &str) -> Stream {
        self.stream_by(&self.owner.token, rest, &[]).await
    }
    pub(crate) async fn stream_by(&self, token: &str, rest: &str, headers: &[(&str, &str)]) -> Stream {
        let io = self.connect().await;
        let stream = self.open_stream(io, token, rest, headers).await;
        assert_eq!(stream.status, 200, "{rest}");
        stream
    }
    pub(crate) async fn open_stream(
        &self,
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        token: &str,
        rest: &str,
        headers: &[(&str, &str)],
    ) -> Stream {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(io)).await.unwrap();
        self.tasks.spawn("client connection", async move {
            let _ = connection.await;
        });
        let mut request = Request::builder().uri(self.path(rest)).header("host", "localhost");
        request = request.header("authorization", format!("Bearer {token}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = sender.send_request(request.body(Full::default()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        Stream {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            text: String::new(),
            comments: 0,
            clock: self.clock().clone(),
        }
    }

    /// Opens a machine's link and says hello; welcomed.
    pub(crate) async fn link(&self, machine: &Machine) -> Link {
        let mut link = self.dial(machine.token(), machine.id()).await.unwrap();
        link.hello(&machine.run).await;
        assert_eq!(link.next().await.unwrap()["type"], "welcome");
        link
    }
    /// Opens a link; or the status of the refusal.
    pub(crate) async fn dial(&self, token: &str, machine: &str) -> Result<Link, u16> {
        let request = Request::builder()
            .uri(format!("ws://localhost{}", self.path(&format!("machines/{machine}/link"))))
            .header("host", "localhost")
            .header("authorization", format!("Bearer {token}"))
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .body(())
            .unwrap();
        match tokio_tungstenite::client_async(request, self.connect().await).await {
            Ok((socket, _)) => Ok(Link { socket, clock: self.clock().clone() }),
            Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => Err(answer.status().as_u16()),
            Err(fault) => panic!("{fault}"),
        }
    }
}

/// A socket or a pipe.
pub(crate) trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

async fn request(
    world: &World,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: Option<&Value>,
) -> Answer {
    let mut ask = world.ask(method, path);
    if let Some(token) = token {
        ask = ask.by(token);
    }
    if let Some(body) = body {
        ask = ask.json(body);
    }
    if world.server.local_addr().is_none() {
        ask = ask.from("127.0.0.1");
    }
    ask.send().await
}

/// One message of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

impl Frame {
    pub(crate) fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap()
    }
    /// The cursor, which is the message's id too.
    pub(crate) fn cursor(&self) -> &str {
        let cursor = self.data["cursor"].as_str().expect("a frame with a cursor");
        assert_eq!(self.id.as_deref(), Some(cursor));
        cursor
    }
    pub(crate) fn sequence(&self) -> i64 {
        self.data["sequence"].as_i64().unwrap()
    }
    pub(crate) fn event(&self) -> &Value {
        &self.data["data"]
    }
}

/// An open stream of server-sent events.
pub(crate) struct Stream {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    pub(crate) text: String,
    pub(crate) comments: usize,
    clock: Clock,
}

impl Stream {
    /// The next message; `None` where the stream ended cleanly.
    pub(crate) async fn try_next(&mut self) -> Option<Frame> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                if let Some(frame) = self.frame(&block) {
                    return Some(frame);
                }
            }
            let more = self.clock.within(PATIENCE, self.body.frame()).await.expect("nothing came in 20 s");
            let bytes = more?.expect("the stream broke").into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
    fn frame(&mut self, block: &str) -> Option<Frame> {
        let (mut id, mut data) = (None, String::new());
        for line in block.lines() {
            if line.starts_with(':') {
                self.comments += 1;
            } else if let Some(value) = line.strip_prefix("id: ") {
                id = Some(value.to_owned());
            } else if let Some(value) = line.strip_prefix("data: ") {
                data.push_str(value);
            } else {
                assert!(line.is_empty() || line == "retry: 1000", "{line}");
            }
        }
        (!data.is_empty()).then(|| Frame { id, data: serde_json::from_str(&data).unwrap() })
    }
    pub(crate) async fn next(&mut self) -> Frame {
        self.try_next().await.expect("the stream ended")
    }
    /// The next message of this type; others are passed over.
    pub(crate) async fn until(&mut self, kind: &str) -> Frame {
        loop {
            let frame = self.next().await;
            if frame.kind() == kind {
                return frame;
            }
        }
    }
    /// Everything up to the first checkpoint.
    pub(crate) async fn settled(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            frames.push(self.next().await);
            if frames.last().unwrap().kind() == "checkpoint" {
                return frames;
            }
        }
    }
    /// Raw bytes, as they come.
    pub(crate) async fn bytes(&mut self) -> Option<Bytes> {
        let more = self.clock.within(PATIENCE, self.body.frame()).await.expect("nothing came in 20 s");
        Some(more?.expect("the stream broke").into_data().unwrap())
    }
    /// Everything until nothing comes for a while.
    pub(crate) async fn until_silent(&mut self, duration: Duration) -> Vec<Frame> {
        let clock = self.clock.clone();
        let mut frames = Vec::new();
        while let Some(Some(frame)) = clock.within(duration, self.try_next()).await {
            frames.push(frame);
        }
        frames
    }
    /// Whether nothing comes for a while.
    pub(crate) async fn is_silent(&mut self, duration: Duration) -> bool {
        !self.text.contains("data:") && self.clock.clone().within(duration, self.try_next()).await.is_none()
    }
}

/// An open link.
pub(crate) struct Link {
    pub(crate) socket: WebSocketStream<Box<dyn Pipe>>,
    clock: Clock,
}

impl Link {
    pub(crate) async fn say(&mut self, frame: &Value) {
        self.socket.send(Message::Text(frame.to_string().into())).await.unwrap();
    }
    pub(crate) async fn hello(&mut self, run: &str) {
        let now = self.clock.now_ms();
        self.say(&json!({ "type": "hello", "incarnation_id": run, "version": "0.1.0", "now": now })).await;
    }
    /// The server's next frame; `None` where it closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let message = self.clock.within(Duration::from_secs(60), self.socket.next()).await;
            match message.expect("nothing came in 60 s") {
                Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(other)) => panic!("{other:?}"),
            }
        }
    }
    /// The reason with which the server closes; nothing follows.
    pub(crate) async fn closing(&mut self) -> String {
        loop {
            let frame = self.next().await.expect("closed without a reason");
            if frame["type"] == "closing" {
                assert_eq!(self.next().await, None);
                return frame["reason"].as_str().unwrap().to_owned();
            }
        }
    }
    /// Answers pings for a while, as a connector does.
    pub(crate) async fn live_for(&mut self, duration_ms: i64) {
        let clock = self.clock.clone();
        let lively = async { while let Some(Ok(_)) = self.socket.next().await {} };
        clock.within(teamlamp_clock::ms(duration_ms), lively).await;
    }
    pub(crate) async fn close(mut self) {
        let _ = self.socket.close(None).await;
        while let Some(Ok(_)) = self.socket.next().await {}
    }
}
