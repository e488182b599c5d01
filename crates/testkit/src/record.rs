//! What a run leaves behind: a transcript by virtual time, the rules that were broken, and every secret
//! that was made, so that all that was written can be searched for it.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use teamlamp_clock::Clock;
use teamlamp_wire::Millis;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The log of one run is searched in pieces of this size, so that it never grows.
const LOG_BYTES: usize = 1 << 20;
/// Secrets are at least this long.
const HEAD: usize = 8;

/// The record of one run. Clones are the same one.
#[derive(Clone)]
pub struct Record {
    clock: Clock,
    /// Whether the transcript holds the log, too.
    with_log: bool,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    lines: Vec<(Millis, String, String)>,
    broken: Vec<String>,
    secrets: BTreeSet<String>,
    log: Vec<u8>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Record")
    }
}

impl Record {
    /// An empty record by the world's true clock. `with_log` puts what is logged into the transcript.
    pub fn new(clock: Clock, with_log: bool) -> Self {
        Self { clock, with_log, inner: Arc::default() }
    }

    /// Notes what someone did or saw now.
    pub fn note(&self, who: &str, what: impl Into<String>) {
        let at = self.clock.now_ms();
        self.lock().lines.push((at, who.to_owned(), what.into()));
    }

    /// Notes a rule that does not hold.
    pub fn broken(&self, rule: impl Into<String>) {
        let rule = rule.into();
        self.note("RULE", rule.clone());
        self.lock().broken.push(rule);
    }

    /// Notes a rule that does not hold where `holds` is false.
    pub fn expect(&self, holds: bool, rule: impl FnOnce() -> String) {
        if !holds {
            self.broken(rule());
        }
    }

    /// The rules that did not hold.
    pub fn faults(&self) -> Vec<String> {
        self.lock().broken.clone()
    }

    /// Keeps in mind a secret that may appear nowhere. Of a token only its secret half is one.
    pub fn secret(&self, text: &str) {
        let secret = text.split_once('.').map_or(text, |(_, secret)| secret);
        if secret.len() >= HEAD {
            self.lock().secrets.insert(secret.to_owned());
        }
    }

    /// The transcript by time and, within a moment, by who.
    pub fn transcript(&self) -> String {
        let mut lines = self.lock().lines.clone();
        lines.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        lines.iter().fold(String::new(), |mut text, (at, who, what)| {
            let _ = writeln!(text, "{at:>9} {who:<12} {what}");
            text
        })
    }

    /// Searches files under a folder, and what was logged since the last search, for secrets.
    pub fn search(&self, folder: &Path) {
        self.search_log();
        let secrets = self.lock().secrets.clone();
        for file in files_under(folder) {
            let bytes = std::fs::read(&file).unwrap_or_default();
            if holds_any(&bytes, &secrets) {
                let name = file.strip_prefix(folder).unwrap_or(&file);
                self.broken(format!("a secret stands in {}", name.display()));
            }
        }
    }

    /// Searches what was logged since the last search for secrets.
    pub fn search_log(&self) {
        let found = self.lock().take_log();
        if let Some(line) = found {
            self.broken(format!("a secret stands in the log: {line}"));
        }
    }

    /// What takes the log of this run: everything that our own crates say.
    pub fn subscriber(&self) -> impl Subscriber + Send + Sync + 'static {
        let filter = EnvFilter::new(
            "off,teamlamp=trace,teamlamp_client=trace,teamlamp_connector=trace,teamlamp_server=trace",
        );
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .without_time()
            .with_ansi(false)
            .with_writer(self.clone())
            .finish()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Empties the log, and gives a line of it that holds a secret, with the secret taken out.
    fn take_log(&mut self) -> Option<String> {
        let log = std::mem::take(&mut self.log);
        if !holds_any(&log, &self.secrets) {
            return None;
        }
        let log = String::from_utf8_lossy(&log).into_owned();
        let secret = self.secrets.iter().find(|secret| log.contains(secret.as_str()))?;
        let line = log.lines().find(|line| line.contains(secret.as_str()))?;
        Some(line.replace(secret.as_str(), "***"))
    }
}

impl io::Write for &Record {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let full = {
            let mut inner = self.lock();
            inner.log.extend_from_slice(bytes);
            inner.log.len() > LOG_BYTES
        };
        if full {
            self.search_log();
        }
        if self.with_log {
            self.note("log", String::from_utf8_lossy(bytes).trim_end());
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Record {
    type Writer = &'a Record;
    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// Whether one of the secrets stands in these bytes. Eight bytes are compared at a time with the heads of
/// all secrets at once, since there are many of both.
fn holds_any(bytes: &[u8], secrets: &BTreeSet<String>) -> bool {
    let head = |text: &[u8]| text.first_chunk::<HEAD>().map(|head| u64::from_be_bytes(*head));
    let heads: BTreeSet<u64> = secrets.iter().filter_map(|secret| head(secret.as_bytes())).collect();
    let mut window = 0;
    bytes.iter().enumerate().any(|(end, byte)| {
        window = window << 8 | u64::from(*byte);
        end + 1 >= HEAD
            && heads.contains(&window)
            && secrets.iter().any(|secret| bytes[end + 1 - HEAD..].starts_with(secret.as_bytes()))
    })
}

fn files_under(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_secret_in_a_log_or_a_file_is_found_and_not_repeated() {
        let record = Record::new(Clock::starting_at(0), false);
        record.secret("cred_1.abcdefghijk");
        let _log = tracing::subscriber::set_default(record.subscriber());
        tracing::info!(target: "teamlamp_server", "nothing of it: cred_1");
        let folder = tempfile::tempdir().unwrap();
        record.search(folder.path());
        assert!(record.faults().is_empty());
        tracing::debug!(target: "teamlamp_client", "oh: abcdefghijk");
        std::fs::write(folder.path().join("notes"), "xx abcdefghijk yy").unwrap();
        record.search(folder.path());
        let faults = record.faults();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults.iter().all(|fault| !fault.contains("abcdefghijk")));
    }
}
