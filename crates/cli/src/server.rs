//! `teamlamp server`: the data of a team server on this computer, asked of its files and not of the API.

use crate::args::{Data, Server};
use crate::fail::Fail;
use crate::out::{Out, Style};
use crate::serve::settings;
use crate::stop;
use serde::Serialize;
use std::path::{Path, PathBuf};
use teamlamp_clock::Chance;
use teamlamp_server::backup;
use teamlamp_server::folder::DATABASE;
use teamlamp_server::maintenance::keep_up;
use teamlamp_server::store::copy::complaints;
use teamlamp_server::store::stats::{self, Stats};
use teamlamp_wire::text::visible;

pub(crate) async fn run(command: &Server, out: &Out) -> Result<(), Fail> {
    match command {
        Server::Backup { file, force, at } => backup(&folder(at)?, file, *force, out),
        Server::Restore { file, force, at } => restore(&folder(at)?, file, *force, out),
        Server::Stats { at } => stats(&folder(at)?, out),
        Server::Maintain { check: true, at } => check(&folder(at)?, out),
        Server::Maintain { check: false, at } => {
            let (data, stopped) = (folder(at)?, stop::asked()?);
            tokio::select! {
                biased;
                done = maintain(&data, out) => done,
                // What was done so far stands; each step is a transaction of its own.
                () = stopped => Err(Fail::failed("Stopped: run it again to go on.")),
            }
        }
    }
}

fn folder(at: &Data) -> Result<PathBuf, Fail> {
    settings::data_folder(at.data.as_deref(), at.config.as_deref())
}

fn backup(data: &Path, file: &Path, force: bool, out: &Out) -> Result<(), Fail> {
    #[derive(Serialize)]
    struct Said<'a> {
        file: &'a Path,
        #[serde(flatten)]
        made: &'a backup::Made,
    }
    let made = backup::make(data, file, force, out.clock.now_ms()).map_err(Fail::failed)?;
    if out.json {
        return Ok(out.document(&Said { file, made: &made })?);
    }
    out.line(&format!("The backup is in {} ({}).", visible(&file.display().to_string()), size(made.bytes)))?;
    out.note("It holds the server's keys and what its teams said: keep it as you keep a password.");
    Ok(())
}

fn restore(data: &Path, file: &Path, force: bool, out: &Out) -> Result<(), Fail> {
    let (chance, now_ms) = (Chance::system(), out.clock.now_ms());
    let restored = backup::restore(file, data, force, &chance, now_ms).map_err(Fail::failed)?;
    if out.json {
        return Ok(out.document(&restored)?);
    }
    let made = restored.made_at.map(|at| format!(" of {}", out.time(at, "%Y-%m-%d %H:%M")));
    let data = visible(&data.display().to_string());
    out.line(&format!("The backup{} is in place in {data}.", made.unwrap_or_default()))?;
    if let Some(aside) = &restored.aside {
        out.note(&format!("What was there is kept in {}.", aside.display()));
    }
    if restored.made_at.is_none() {
        out.note("It was a bare database: the keys in the folder stay as they are.");
    }
    out.note("Start the server with `teamlamp serve`: clients begin again with a snapshot by themselves.");
    Ok(())
}

/// The database of a folder, where there is one.
fn database(data: &Path) -> Result<PathBuf, Fail> {
    let path = data.join(DATABASE);
    if path.exists() {
        return Ok(path);
    }
    Err(Fail::failed(format!(
        "There is no server's data in {}: name the folder with --data.",
        data.display()
    )))
}

fn stats(data: &Path, out: &Out) -> Result<(), Fail> {
    let path = database(data)?;
    let mut stats = stats::of(&path, out.clock.now_ms())
        .map_err(|fault| Fail::failed(format!("The database {} can't be read: {fault}", path.display())))?;
    stats.last_backup_at = backup::last(data);
    if out.json {
        return Ok(out.document(&stats)?);
    }
    show(&stats, out)
}

fn show(stats: &Stats, out: &Out) -> Result<(), Fail> {
    let time = |at: Option<i64>, none: &str| at.map_or(none.to_owned(), |at| out.time(at, "%Y-%m-%d %H:%M"));
    let row = |label: &str, text: &str| {
        out.line(&format!("{}  {}", out.paint(Style::Quiet, &format!("{label:<16}")), visible(text)))
    };
    row("database", &size(stats.database_bytes))?;
    row("of it free", &size(stats.free_bytes))?;
    row("log", &size(stats.log_bytes))?;
    row("schema", &stats.schema.to_string())?;
    row("oldest event", &time(stats.oldest_event_at, "none"))?;
    row("last backup", &time(stats.last_backup_at, "never"))?;
    out.line("")?;
    for team in &stats.teams {
        out.line(&out.paint(Style::Strong, &visible(&team.name)))?;
        row("members", &team.members.to_string())?;
        row("machines", &team.machines.to_string())?;
        row("sessions", &team.sessions.to_string())?;
        row("events", &format!("{} (kept {} days)", team.events, team.retention_days))?;
        out.line("")?;
    }
    for table in stats.tables.iter().filter(|table| table.rows > 0) {
        out.line(&format!("{:>10}  {}", table.rows, visible(&table.name)))?;
    }
    out.line("")?;
    if stats.backlog.is_empty() {
        out.line("Maintenance has nothing left to do.")?;
    }
    for step in &stats.backlog {
        out.line(&format!("Maintenance has work left: {} ({}).", step.name, step.rows))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Checked<'a> {
    sound: bool,
    complaints: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<&'a [&'static str]>,
}

fn check(data: &Path, out: &Out) -> Result<(), Fail> {
    let path = database(data)?;
    let found = complaints(&path)
        .map_err(|fault| Fail::failed(format!("The database {} can't be read: {fault}", path.display())))?;
    if out.json {
        out.document(&Checked { sound: found.is_empty(), complaints: &found, runs: None, failed: None })?;
    }
    judge(&found, out)
}

async fn maintain(data: &Path, out: &Out) -> Result<(), Fail> {
    database(data)?;
    let kept = keep_up(data, &out.clock).await.map_err(Fail::failed)?;
    if out.json {
        let sound = kept.complaints.is_empty();
        let (runs, failed) = (Some(kept.runs), Some(kept.failed.as_slice()));
        out.document(&Checked { sound, complaints: &kept.complaints, runs, failed })?;
    } else {
        out.line(&format!("Maintenance ran to its end ({} runs).", kept.runs))?;
    }
    if !kept.failed.is_empty() {
        return Err(Fail::failed(format!("Steps of maintenance failed: {}.", kept.failed.join(", "))));
    }
    judge(&kept.complaints, out)
}

fn judge(complaints: &[String], out: &Out) -> Result<(), Fail> {
    if complaints.is_empty() {
        if !out.json {
            out.line("The database is sound.")?;
        }
        return Ok(());
    }
    for complaint in complaints {
        out.note(&visible(complaint));
    }
    Err(Fail::failed(
        "The database is damaged: restore a backup with `teamlamp server restore --force FILE`.",
    ))
}

/// Bytes in a unit that a person reads at a glance.
fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
    let in_unit = |unit: u64| bytes as f64 / unit as f64;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", in_unit(1 << 10)),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", in_unit(1 << 20)),
        _ => format!("{:.1} GiB", in_unit(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_at_a_glance() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(200 << 20), "200.0 MiB");
        assert_eq!(size(3 << 30), "3.0 GiB");
    }
}
