//! A home: an empty folder in which one person of this computer runs Teamlamp.

use crate::wait::{eventually, until};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

/// A program that was built with this test.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    let program = test.ancestors().nth(2).expect("it lies in target/<profile>/deps").join(name);
    assert!(program.exists(), "{name} is not built: cargo build --workspace --bins");
    program
}

/// What a finished program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// It worked, and this is what it printed.
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "it failed: {self:?}");
        self.out
    }
    /// It worked, and this is the one JSON document that it printed.
    pub(crate) fn json(self) -> Value {
        let out = self.done();
        serde_json::from_str(&out).unwrap_or_else(|fault| panic!("not JSON ({fault}): {out}"))
    }
    /// It ended with this status, and its sentence holds all of these.
    pub(crate) fn refused(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "the sentence lacks {word:?}: {self:?}");
        }
    }
}

/// A home of its own.
pub(crate) struct Home {
    folder: TempDir,
    /// What its programs find in their environment besides the usual.
    pub(crate) environment: Vec<(String, String)>,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a scratch folder"), environment: Vec::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A program in this home, with nothing of the real one.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .env("HOME", self.path())
            .env("TEAMLAMP_HOME", self.path().join("tl"))
            .env("TEAMLAMP_CUSTODY", "file")
            .env("PATH", "/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.path())
            .kill_on_drop(true);
        command
    }

    /// `teamlamp` with these words, to its end.
    pub(crate) async fn run(&self, words: &[&str]) -> Said {
        self.run_with_input(words, "").await
    }

    /// The same, with something on its standard input.
    pub(crate) async fn run_with_input(&self, words: &[&str], input: &str) -> Said {
        let mut command = self.command(built("teamlamp"));
        let piped = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("teamlamp starts");
        let mut stdin = child.stdin.take().expect("an input");
        stdin.write_all(input.as_bytes()).await.expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().await.expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints UTF-8");
        Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// `teamlamp` with these words, left running.
    pub(crate) fn start(&self, words: &[&str]) -> Running {
        let mut command = self.command(built("teamlamp"));
        Running::start(command.args(words))
    }

    /// A server with a new team in this home, with this machine enrolled; its origin.
    pub(crate) async fn serve_new(&self, listen: &str) -> (Running, String) {
        let data = self.data();
        let words = ["serve", "--data", &data, "--listen", listen, "--init-team", "Acme", "--as", "Owner"];
        let server = self.start(&[&words[..], &["--machine", "first-laptop", "--json"]].concat());
        let ready = server.ready().await;
        let origin = ready["origin"].as_str().expect("an origin").to_owned();
        (server, origin)
    }

    /// The server's data folder.
    pub(crate) fn data(&self) -> String {
        self.path().join("server").to_string_lossy().into_owned()
    }

    /// A connector in this home, once its first heartbeat was answered.
    pub(crate) async fn connect(&self) -> Running {
        let connector = self.start(&["connect", "--json"]);
        connector.ready().await;
        connector
    }

    /// Lets another home in.
    pub(crate) async fn invite(&self, other: &Home, person: &str, machine: &str) {
        let link = self.run(&["invite", "--json"]).await.json()["link"].as_str().expect("a link").to_owned();
        other.run(&["join", &link, "--as", person, "--machine", machine, "--yes"]).await.done();
    }

    /// Waits until the machines that this home sees have these presences.
    pub(crate) async fn sees(&self, expected: &[(&str, &str)]) {
        until(format!("machines {expected:?}"), async || {
            let said = self.run(&["machines", "--json"]).await;
            let Ok(list) = serde_json::from_str::<Value>(&said.out) else { return false };
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let seen: Vec<_> = items
                .iter()
                .map(|m| (m["name"].as_str().unwrap_or(""), m["connection"].as_str().unwrap_or("")))
                .collect();
            seen == expected
        })
        .await;
    }
}

/// A program that runs, and the lines that it printed so far.
pub(crate) struct Running {
    child: Child,
    out: Arc<Mutex<Vec<String>>>,
    err: Arc<Mutex<Vec<String>>>,
    input: Option<tokio::process::ChildStdin>,
}

fn collect(from: impl AsyncRead + Unpin + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = lines.clone();
    #[expect(clippy::disallowed_methods, reason = "it ends with the program whose output it reads")]
    tokio::spawn(async move {
        let mut from = BufReader::new(from).lines();
        while let Ok(Some(line)) = from.next_line().await {
            kept.lock().expect("no reader panicked").push(line);
        }
    });
    lines
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("the program starts");
        let out = collect(child.stdout.take().expect("an output"));
        let err = collect(child.stderr.take().expect("an output for messages"));
        let input = child.stdin.take();
        Self { child, out, err, input }
    }

    /// The lines that it printed so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.out.lock().expect("no reader panicked").clone()
    }

    /// What it said on standard error so far.
    pub(crate) fn messages(&self) -> String {
        self.err.lock().expect("no reader panicked").join("\n")
    }

    /// The JSON documents among its lines so far.
    pub(crate) fn frames(&self) -> Vec<Value> {
        self.lines().iter().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
    }

    /// Its first line, which says that it is ready.
    pub(crate) async fn ready(&self) -> Value {
        let line =
            eventually(format!("a ready line ({})", self.messages()), async || self.lines().first().cloned())
                .await;
        let ready: Value = serde_json::from_str(&line).expect("the ready line is JSON");
        assert_eq!(ready["ready"], true, "{line}");
        ready
    }

    /// Writes a line to its input.
    pub(crate) async fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it has an input");
        input.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Ends it at once (SIGKILL).
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it can be killed");
    }

    /// Asks it to end (SIGTERM), and waits until it did; its status.
    pub(crate) async fn stop(mut self) -> i32 {
        self.signal("TERM");
        self.ended().await
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill").args(["-s", name, &self.pid().to_string()]).status();
        assert!(sent.expect("there is kill").success());
    }

    /// Waits for its end; its status.
    pub(crate) async fn ended(&mut self) -> i32 {
        self.child.wait().await.expect("it ends").code().unwrap_or(-1)
    }
}
