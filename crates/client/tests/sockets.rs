//! The client over real sockets: what no script can show. The servers here are a few lines of bytes.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use futures_util::{SinkExt, StreamExt};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PublicKeyData};
use std::collections::VecDeque;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use teamlamp_client::{Client, ClientError, Door, FaultKind, FollowQuery, Followed, Garbled, Http, Trust};
use teamlamp_clock::{Chance, Clock, Tasks};
use teamlamp_wire::account::CreateTeam;
use teamlamp_wire::link::{ClosingReason, FromMachine, FromServer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_tungstenite::tungstenite::Message;

const ME: &str = r#"{"version":1,"context":{},"data":{"principal":{"id":"prin_1","name":"Ada","kind":"person"},
    "credential":{"id":"cred_1","kind":"user","expires_at":1},"memberships":[]}}"#;

fn answer(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn me() -> String {
    answer("200 OK", "application/json", ME)
}

fn client_with(origin: &str, trust: &Trust) -> Client {
    let http = Http::to_server(origin, trust).unwrap();
    Client::new(Arc::new(http), Clock::system(), Chance::system(), "test").with_token("cred_1.x".into())
}

fn client(origin: &str) -> Client {
    client_with(origin, &Trust::default())
}

/// Reads one request; false where the connection ended before.
async fn read_request(io: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match io.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return false,
        }
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    io.read_exact(&mut body).await.is_ok()
}

/// Answers the requests of one connection with these, then closes it.
async fn serve(mut io: impl AsyncRead + AsyncWrite + Unpin, answers: Vec<String>) {
    for text in answers {
        if !read_request(&mut io).await || io.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
    let _ = io.shutdown().await;
}

/// A server whose nth connection answers with the nth list; counts its connections.
async fn server(tasks: &Tasks, connections: Vec<Vec<String>>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let mut connections = VecDeque::from(connections);
    let inner = tasks.clone();
    tasks.spawn("server", async move {
        while let Ok((io, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            inner.spawn("connection", serve(io, connections.pop_front().unwrap_or_default()));
        }
    });
    (origin, count)
}

#[tokio::test]
async fn a_web_page_is_named() {
    let tasks = Tasks::new();
    let page = answer("200 OK", "text/html; charset=utf-8", "<html>Sign in</html>");
    let (origin, _) = server(&tasks, vec![vec![page]]).await;
    let fault = client(&origin).me().await.unwrap_err();
    assert!(matches!(fault, ClientError::Garbled(Garbled::Html { status: 200, .. })), "{fault:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_no_token_goes_elsewhere() {
    let tasks = Tasks::new();
    let (elsewhere, met) = server(&tasks, vec![vec![me()]]).await;
    let redirect = format!("HTTP/1.1 307 Go\r\nlocation: {elsewhere}/v1/me\r\ncontent-length: 0\r\n\r\n");
    let (origin, _) = server(&tasks, vec![vec![redirect]]).await;
    let fault = client(&origin).me().await.unwrap_err();
    assert_eq!(fault.status(), Some(307));
    assert_eq!(met.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_pooled_connection_that_the_server_closed_costs_no_request() {
    let tasks = Tasks::new();
    let created = r#"{"version":1,"context":{},"data":{"team":{"id":"team_1","name":"T"},
        "membership":{"role":"owner","active":true}}}"#;
    let created = answer("201 Created", "application/json", created);
    let (origin, count) = server(&tasks, vec![vec![me()], vec![created], vec![me(), me()]]).await;
    let client = client(&origin);
    client.me().await.unwrap();
    // A change is tried once: it must not be spent on a connection that is already gone.
    client.create_team(&CreateTeam { name: "T".into() }).await.unwrap();
    client.me().await.unwrap();
    client.me().await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 3, "the last two share a connection");
    client.forget_idle();
    let _ = client.create_team(&CreateTeam { name: "T".into() }).await;
    assert_eq!(count.load(Ordering::SeqCst), 4, "a forgotten connection is not used");
}

#[tokio::test]
async fn an_answer_cut_off_is_asked_for_again() {
    let tasks = Tasks::new();
    let cut = me()[..me().len() - 10].to_owned();
    let (origin, count) = server(&tasks, vec![vec![cut], vec![me()]]).await;
    assert_eq!(client(&origin).me().await.unwrap().principal.name, "Ada");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

fn kind(fault: &ClientError) -> FaultKind {
    match fault {
        ClientError::Unreachable(fault) => fault.kind,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_port_without_a_listener_and_a_name_without_an_address_are_told_apart() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let body = CreateTeam { name: "T".into() };
    let fault = client(&format!("http://{free}")).create_team(&body).await.unwrap_err();
    assert_eq!(kind(&fault), FaultKind::Refused, "{fault:?}");
    // No resolver is asked for a label of more than 63 characters.
    let long = format!("http://localhost.{}", "x".repeat(64));
    assert_eq!(Http::to_server(&long, &Trust::default()).unwrap_err().kind, FaultKind::Address);
    let (pin, _) = certificate("localhost");
    let trust = Trust { fingerprint: Some(pin.fingerprint), ca_file: None };
    let fault = client_with(&format!("https://{}", "x".repeat(64)), &trust).create_team(&body).await;
    let fault = fault.unwrap_err();
    assert_eq!(kind(&fault), FaultKind::Dns, "{fault:?}");
}

struct Pinnable {
    fingerprint: String,
    authority_pem: String,
}

/// A certificate for a name, vouched for by an authority of its own.
fn certificate(name: &str) -> (Pinnable, Arc<ServerConfig>) {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, format!("authority of {name}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_pem = params.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let mut fingerprint = String::new();
    for byte in <sha2::Sha256 as sha2::Digest>::digest(key.subject_public_key_info()) {
        write!(fingerprint, "{byte:02x}").unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    (Pinnable { fingerprint, authority_pem }, Arc::new(config))
}

async fn tls_server(tasks: &Tasks, config: Arc<ServerConfig>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (acceptor, inner) = (TlsAcceptor::from(config), tasks.clone());
    tasks.spawn("server", async move {
        while let Ok((io, _)) = listener.accept().await {
            let accepting = acceptor.accept(io);
            inner.spawn("connection", async move {
                if let Ok(io) = accepting.await {
                    serve(io, vec![me(), me()]).await;
                }
            });
        }
    });
    format!("https://localhost:{port}")
}

#[tokio::test]
async fn with_a_pin_exactly_that_key_is_believed() {
    let tasks = Tasks::new();
    let (pin, config) = certificate("another.example");
    let origin = tls_server(&tasks, config).await;
    let trust = Trust { fingerprint: Some(pin.fingerprint), ca_file: None };
    client_with(&origin, &trust).me().await.unwrap();

    let other = Trust { fingerprint: Some(certificate("localhost").0.fingerprint), ca_file: None };
    let fault = client_with(&origin, &other).me().await.unwrap_err();
    assert_eq!(kind(&fault), FaultKind::Pin, "{fault:?}");
    assert!(fault.sentence().contains("new invitation"), "{}", fault.sentence());
    let link = client_with(&origin, &other).link(&"team_1".into(), &"mach_1".into()).await.unwrap_err();
    assert_eq!(kind(&link), FaultKind::Pin, "the link has the same policy: {link:?}");
}

#[tokio::test]
async fn without_a_pin_an_authority_must_vouch_for_the_name() {
    let tasks = Tasks::new();
    let dir = tempfile::tempdir().unwrap();
    let (pin, config) = certificate("localhost");
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, &pin.authority_pem).unwrap();
    let known = Trust { fingerprint: None, ca_file: Some(ca_file.clone()) };
    client_with(&tls_server(&tasks, config).await, &known).me().await.unwrap();

    let strange = tls_server(&tasks, certificate("localhost").1).await;
    let fault = client_with(&strange, &known).me().await.unwrap_err();
    assert_eq!(kind(&fault), FaultKind::Tls, "{fault:?}");
    assert!(fault.sentence().contains("vouches"), "{}", fault.sentence());

    let (pin, config) = certificate("another.example");
    std::fs::write(&ca_file, &pin.authority_pem).unwrap();
    let fault = client_with(&tls_server(&tasks, config).await, &known).me().await.unwrap_err();
    assert!(fault.sentence().contains("another name"), "{}", fault.sentence());
}

#[tokio::test]
async fn a_stream_cut_off_is_resumed_over_a_new_connection() {
    let tasks = Tasks::new();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n:\n\n";
    let checkpoint = |c: &str| format!("{head}data: {{\"type\":\"checkpoint\",\"cursor\":\"{c}\"}}\n\n");
    let (origin, count) = server(&tasks, vec![vec![checkpoint("c1")], vec![checkpoint("c2")]]).await;
    let all = client(&origin).follow(&FollowQuery::all("team_1".into()), Some("c0".into()));
    let all: Vec<_> = all.take(5).collect().await;
    let cursors: Vec<_> = all
        .iter()
        .filter_map(|item| match item {
            Followed::Frame { frame, .. } => frame.cursor(),
            _ => None,
        })
        .collect();
    assert_eq!(cursors, ["c1", "c2"], "{all:?}");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_link_is_a_websocket_on_the_same_port() {
    let tasks = Tasks::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tasks.spawn("server", async move {
        let (io, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(io).await.unwrap();
        let hello = socket.next().await.unwrap().unwrap();
        assert!(hello.to_text().unwrap().contains("hello"));
        socket.send(Message::text(r#"{"type":"closing","reason":"shutdown"}"#)).await.unwrap();
        let _ = socket.close(None).await;
    });
    let mut link = client(&origin).link(&"team_1".into(), &"mach_1".into()).await.unwrap();
    let hello = FromMachine::Hello { incarnation_id: "i".into(), version: "1".into(), now: 5 };
    link.send(&hello).await.unwrap();
    assert_eq!(link.next().await, Ok(FromServer::Closing { reason: ClosingReason::Shutdown }));
    assert!(link.next().await.is_err());
}

fn door(socket: &Path) -> Door {
    Door::at(socket, Clock::system(), Chance::system(), "test").unwrap()
}

#[tokio::test]
async fn the_local_door_is_spoken_to_over_its_socket() {
    let tasks = Tasks::new();
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("door.sock");
    let fault = door(&socket).status().await.unwrap_err();
    assert_eq!(kind(&fault), FaultKind::Refused, "no connector runs: {fault:?}");

    let listener = UnixListener::bind(&socket).unwrap();
    let status =
        r#"{"version":"0.1.0","pid":7,"incarnation_id":"i","contexts":[],"sessions":[],"paused":null}"#;
    let status = answer("200 OK", "application/json", status);
    tasks.spawn("door", async move {
        while let Ok((io, _)) = listener.accept().await {
            serve(io, vec![status.clone()]).await;
        }
    });
    assert_eq!(door(&socket).status().await.unwrap().pid, 7);
}

/// Run by the next test in a process whose environment names a proxy.
#[tokio::test]
#[ignore = "needs an environment of its own"]
async fn in_a_process_with_a_proxy() {
    let (pin, _) = certificate("localhost");
    let trust = Trust { fingerprint: Some(pin.fingerprint), ca_file: None };
    let body = CreateTeam { name: "T".into() };
    let fault = client_with("https://teamlamp.example", &trust).create_team(&body).await.unwrap_err();
    assert_eq!(kind(&fault), FaultKind::Proxy, "{fault:?}");
    // A proxy can't know this computer's own addresses, so it is not asked for them.
    let tasks = Tasks::new();
    let (origin, _) = server(&tasks, vec![vec![me()]]).await;
    client(&origin).me().await.unwrap();
}

#[tokio::test]
async fn the_proxy_of_the_environment_is_used_and_its_refusal_named() {
    let tasks = Tasks::new();
    let refuses = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_owned();
    let (proxy, met) = server(&tasks, vec![vec![refuses]; 8]).await;
    let child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "in_a_process_with_a_proxy"])
        .env("HTTPS_PROXY", &proxy)
        .env("HTTP_PROXY", &proxy)
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .kill_on_drop(true)
        .output();
    let out = Clock::system().within(Duration::from_secs(60), child).await.unwrap().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    assert!(met.load(Ordering::SeqCst) >= 1);
}
