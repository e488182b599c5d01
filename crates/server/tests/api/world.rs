//! One server in a scratch folder, a plain HTTP client, and the people of a team.

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use teamlamp_clock::Clock;
use teamlamp_server::Server;
use teamlamp_server::config::Config;
use teamlamp_server::store::Run;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};

/// A server and its folder.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clock: Clock,
    pub(crate) folder: TempDir,
}

/// Somebody with a credential, in a team.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) id: String,
    pub(crate) token: String,
    pub(crate) team: String,
}

/// An enrolled machine.
#[derive(Clone, Debug)]
pub(crate) struct Enrolled {
    pub(crate) id: String,
    pub(crate) token: String,
    pub(crate) key: String,
    pub(crate) revision: i64,
}

/// A request that is being put together.
pub(crate) struct Ask<'a> {
    world: &'a World,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    from: Option<IpAddr>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

/// What all servers of this process logged, at the loudest level.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static LISTENING: Once = Once::new();

struct Log;

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn listen_to_the_log() {
    LISTENING.call_once(|| {
        let loudest = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
        loudest.with_writer(|| Log).with_ansi(false).init();
    });
}

/// What was logged.
pub(crate) fn logged() -> String {
    String::from_utf8(LOG.lock().unwrap().clone()).unwrap()
}

static NUMBER: AtomicU64 = AtomicU64::new(1);

/// A text that no other call gives.
pub(crate) fn fresh(what: &str) -> String {
    format!("{what}-{:016}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn config(folder: &TempDir, clock: &Clock) -> Config {
    let mut config = Config::new(folder.path().join("data"), SocketAddr::from(([127, 0, 0, 1], 0)));
    config.clock = clock.clone();
    config
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        listen_to_the_log();
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::system());
        let mut config = config(&folder, &clock);
        change(&mut config);
        let server = Server::start(config).await.unwrap();
        Self { server, clock, folder }
    }

    /// A server without a socket in a test's paused time, which stands still between requests: what a
    /// machine does in a second, slow or not, is no part of the test.
    pub(crate) async fn paused() -> Self {
        listen_to_the_log();
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::starting_at(1_700_000_000_000));
        let mut config = config(&folder, &clock);
        (config.listen, config.run) = (None, Run::Inline);
        let server = Server::start(config).await.unwrap();
        Self { server, clock, folder }
    }

    /// Ends the server and starts another on the same data.
    pub(crate) async fn restart(self) -> Self {
        let Self { server, clock, folder } = self;
        server.shutdown().await;
        let server = Server::start(config(&folder, &clock)).await.unwrap();
        Self { server, clock, folder }
    }

    pub(crate) fn ask(&self, method: &str, path: impl Into<String>) -> Ask<'_> {
        Ask {
            world: self,
            method: method.parse().unwrap(),
            path: path.into(),
            headers: Vec::new(),
            body: None,
            from: None,
        }
    }
    pub(crate) fn get(&self, path: impl Into<String>) -> Ask<'_> {
        self.ask("GET", path)
    }
    pub(crate) fn post(&self, path: impl Into<String>, body: Value) -> Ask<'_> {
        self.ask("POST", path).json(&body)
    }

    /// The owner of a new team, by the owner's link of the first start.
    pub(crate) async fn owner(&self) -> Person {
        let link = self.server.owner_link().expect("a new server has an owner's link");
        let body = json!({ "code": link.code.to_string(), "name": "Olga", "team_name": "Acme" });
        person(&self.post("/v1/invitations/accept", body).send().await)
    }

    /// A code that `inviter` made.
    pub(crate) async fn invite(&self, inviter: &Person, role: &str) -> String {
        let path = format!("/v1/teams/{}/invitations", inviter.team);
        let made = self.post(path, json!({ "role": role })).by(&inviter.token).send().await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.data()["code"].as_str().unwrap().to_owned()
    }

    /// A new member.
    pub(crate) async fn join(&self, inviter: &Person, role: &str, name: &str) -> Person {
        let code = self.invite(inviter, role).await;
        person(&self.post("/v1/invitations/accept", json!({ "code": code, "name": name })).send().await)
    }

    pub(crate) async fn enroll(&self, person: &Person, name: &str) -> Enrolled {
        let key = fresh("key");
        enrolled(&self.enroll_with(person, name, &key).await, &key)
    }

    pub(crate) async fn enroll_with(&self, person: &Person, name: &str, key: &str) -> Answer {
        let path = format!("/v1/teams/{}/machines", person.team);
        self.post(path, json!({ "name": name, "enrollment_key": key })).by(&person.token).send().await
    }

    /// The revision of a resource.
    pub(crate) async fn revision(&self, person: &Person, path: &str) -> i64 {
        let answer = self.get(path).by(&person.token).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.data()["revision"].as_i64().unwrap()
    }
}

pub(crate) fn person(accepted: &Answer) -> Person {
    assert_eq!(accepted.status, 201, "{}", accepted.text);
    let data = accepted.data();
    let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    Person { id: text("/principal/id"), token: text("/credential/token"), team: text("/team/id") }
}

pub(crate) fn enrolled(answer: &Answer, key: &str) -> Enrolled {
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
    let data = answer.data();
    Enrolled {
        id: data["machine"]["id"].as_str().unwrap().to_owned(),
        token: data["credential"]["token"].as_str().unwrap().to_owned(),
        key: key.to_owned(),
        revision: data["machine"]["revision"].as_i64().unwrap(),
    }
}

impl Ask<'_> {
    pub(crate) fn by(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
    pub(crate) fn if_match(self, revision: i64) -> Self {
        self.header("if-match", &format!("\"{revision}\""))
    }
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }
    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").bytes(body.to_string())
    }
    pub(crate) fn bytes(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }
    /// From another address than this computer's.
    pub(crate) fn from(mut self, address: &str) -> Self {
        self.from = Some(address.parse().unwrap());
        self
    }

    pub(crate) async fn send(self) -> Answer {
        match (self.from, self.world.server.local_addr()) {
            (None, Some(address)) => {
                let socket = tokio::net::TcpStream::connect(address).await.unwrap();
                self.over(socket).await
            }
            (from, _) => {
                let (near, far) = tokio::io::duplex(1 << 16);
                self.world.server.serve_io(far, from.unwrap_or([127, 0, 0, 1].into()));
                self.over(near).await
            }
        }
    }

    async fn over<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, io: IO) -> Answer {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(io)).await.unwrap();
        let mut request = Request::builder().method(self.method).uri(self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            request = request.header("host", "localhost");
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(self.body.unwrap_or_default())).unwrap();
        let exchange = async {
            let response = sender.send_request(request).await.unwrap();
            let (parts, body) = response.into_parts();
            // A server that refuses a large body early may close before it took all of it.
            let bytes = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
            (parts, bytes)
        };
        let (parts, bytes) = tokio::select! {
            biased;
            done = exchange => done,
            () = async { let _ = connection.await; std::future::pending().await } => unreachable!("never ends"),
        };
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { status: parts.status.as_u16(), headers: parts.headers, text, body }
    }
}

impl Answer {
    pub(crate) fn data(&self) -> &Value {
        &self.body["data"]
    }
    pub(crate) fn items(&self) -> &Vec<Value> {
        self.body["items"].as_array().unwrap_or_else(|| panic!("no list: {}", self.text))
    }
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
    /// The answer is this refusal, with a sentence that a person can use; the sentence.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> &str {
        assert_eq!((self.status, self.body["error"]["code"].as_str()), (status, Some(code)), "{}", self.text);
        let message = self.body["error"]["message"].as_str().unwrap();
        assert!(message.len() > 10 && message.ends_with('.'), "not a sentence: {message}");
        assert!(message.starts_with(|c: char| c.is_uppercase() || c == '`' || c.is_lowercase()));
        message
    }
}
