//! A database that the first release wrote, kept as it was (`tests/fixtures/first-release/make.py`): every
//! later program opens it, keeps a copy, and answers what the first one answered.

use crate::world::{World, config, listen_to_the_log};
use rusqlite::Connection;
use serde_json::Value;
use std::path::{Path, PathBuf};
use teamlamp_clock::{Clock, Tasks};
use teamlamp_server::Server;
use teamlamp_server::hub::Hub;
use teamlamp_server::store::history::{Wanted, look};
use teamlamp_server::store::{Run, Store, backfill, copy};
use tempfile::TempDir;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/first-release")
}

fn expected() -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture().join("expected.json")).unwrap()).unwrap()
}

/// A data folder with the kept database.
fn kept() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    for name in ["teamlamp.db", "server-keys.json"] {
        std::fs::copy(fixture().join(name), data.join(name)).unwrap();
    }
    folder
}

/// Every page of a list, as ids.
async fn ids(world: &World, path: &str, token: &str) -> Vec<Value> {
    let mut ids = Vec::new();
    let mut before = Value::Null;
    loop {
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut path = format!("{path}{separator}limit=200");
        if let Some(before) = before.as_str() {
            path.push_str(&format!("&before={before}"));
        }
        let answer = world.get(path).by(token).from("127.0.0.1").send().await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        for item in answer.items() {
            let of = [&item["event"]["id"], &item["id"], &item["principal"]["id"]];
            ids.push((*of.into_iter().find(|id| id.is_string()).unwrap()).clone());
        }
        before = answer.body["next_cursor"].clone();
        if before.is_null() {
            return ids;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_releases_database_opens_and_every_team_reads_as_before() {
    listen_to_the_log();
    let (folder, expected) = (kept(), expected());
    let clock = Clock::starting_at(expected["made_at"].as_i64().unwrap() + 1_000);
    let mut config = config(&folder, &clock);
    (config.listen, config.run) = (None, Run::Inline);
    let server = Server::start(config).await.unwrap();
    let world = World { server, clock, folder };
    let token = expected["teams"][0]["token"].as_str().unwrap();
    // Once soon after the start and once when the walk of old events is long done.
    for _ in 0..2 {
        for (question, answer) in expected["answers"].as_object().unwrap() {
            let (team, rest) = question.split_at(question.find(['?', '/']).unwrap());
            let rest = rest.replace('ö', "%C3%B6");
            let path = match rest.strip_prefix('?') {
                Some(query) => format!("/v1/teams/{team}/events/history?{query}"),
                None => format!("/v1/teams/{team}{rest}"),
            };
            let path = path.trim_end_matches('?').to_owned();
            assert_eq!(Value::from(ids(&world, &path, token).await), *answer, "{question}");
        }
        world.clock.sleep(teamlamp_clock::ms(20_000)).await;
    }
    let app = world.server.app().clone();
    assert!(app.store.read(|db| backfill::is_done(db, backfill::EVENT_LOOKUP)).await.unwrap());
    let data = world.folder.path().join("data");
    let copies: Vec<PathBuf> = std::fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("before-migration-1-"))
        .collect();
    assert_eq!(copies.len(), 1, "a copy of what was there before");
    assert_eq!(copy::read(&copies[0]).unwrap().schema, 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&copies[0]).unwrap().permissions().mode() & 0o777, 0o600);
    }
    world.server.shutdown().await;
    assert_eq!(copy::complaints(&data.join("teamlamp.db")).unwrap(), Vec::<String>::new());
}

/// Sequences that a history has, in looks from its end.
async fn history(store: &Store, team: &str, wanted: &Wanted) -> Vec<i64> {
    let (mut found, mut before) = (Vec::new(), i64::MAX);
    while before > 1 {
        let (team, wanted) = (team.into(), wanted.clone());
        let look = store.read(move |db| look(db, &team, &wanted, before.min(10_000))).await.unwrap();
        found.extend(look.events.iter().map(|stored| stored.sequence));
        assert!(look.from < before, "it comes to an end");
        before = look.from;
    }
    found
}

#[tokio::test]
async fn a_walk_of_old_events_goes_on_where_it_was_cut_off_and_changes_no_answer() {
    let (folder, expected) = (kept(), expected());
    let path = folder.path().join("data/teamlamp.db");
    let (team, machine) = (&expected["teams"][1]["id"], &expected["teams"][1]["machine"]);
    let (team, machine) = (team.as_str().unwrap(), machine.as_str().unwrap());
    // A year of events, as the first release would have written them.
    let old = Connection::open(&path).unwrap();
    let count = "INSERT INTO events SELECT e.team_id, t.last_sequence + n, 'evt_' || n, e.at, e.kind, e.resource_kind,
          e.resource_id, e.source_id, e.publisher, CASE WHEN n % 7 = 0 THEN ?2 END, e.actor, e.actor_id, e.data,
          e.written_at
        FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 4000) SELECT n FROM c)
        JOIN teams t ON t.id = ?1 JOIN events e ON e.team_id = ?1 AND e.sequence = 1";
    old.execute(count, [team, machine]).unwrap();
    old.execute("UPDATE teams SET last_sequence = last_sequence + 4000 WHERE id = ?1", [team]).unwrap();
    let actor: String = old
        .query_row("SELECT actor_id FROM events WHERE team_id = ?1 AND sequence = 1", [team], |r| r.get(0))
        .unwrap();
    drop(old);
    let wanted = [
        Wanted::default(),
        Wanted { machine: Some(machine.into()), ..Wanted::default() },
        Wanted { session: expected["teams"][1]["session"].as_str().map(str::to_owned), ..Wanted::default() },
        Wanted { actor: Some(actor.clone()), ..Wanted::default() },
        Wanted { machine: Some(machine.into()), actor: Some(actor), ..Wanted::default() },
    ];
    let mut before: Option<Vec<Vec<i64>>> = None;
    let (mut lives, mut half) = (0, 0);
    loop {
        lives += 1;
        assert!(lives < 50, "the walk ends");
        let tasks = Tasks::new();
        let store = Store::open(&path, Run::Blocking, Clock::system(), Hub::default(), &tasks).unwrap();
        let done = store.read(|db| backfill::is_done(db, backfill::EVENT_LOOKUP)).await.unwrap();
        let mut answers = Vec::new();
        for wanted in &wanted {
            answers.push(history(&store, team, wanted).await);
        }
        let before = before.get_or_insert_with(|| answers.clone());
        assert_eq!(answers, *before, "after {lives} lives");
        if done {
            break;
        }
        half += usize::from(lives > 1);
        // One batch is kept; another is lost with the transaction that it belongs to.
        assert!(store.write(backfill::step).await.unwrap());
        let lost = store.write(|tx| {
            backfill::step(tx)?;
            Err::<(), _>(teamlamp_server::error::ApiError::conflict("Killed."))
        });
        assert!(lost.await.is_err());
        tasks.shutdown(std::time::Duration::from_secs(10)).await;
    }
    assert!(half >= 8, "it was asked in the middle of the walk too: {half}");
    let rows = Connection::open(&path).unwrap();
    let wrong: i64 = rows
        .query_row(
            "SELECT count(*) FROM event_lookup l LEFT JOIN events e USING (team_id, sequence) WHERE e.id IS NULL",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(wrong, 0);
    // What goes from the events goes from their lookup.
    rows.execute("DELETE FROM events WHERE team_id = ?1", [team]).unwrap();
    let left: i64 = rows
        .query_row("SELECT count(*) FROM event_lookup WHERE team_id = ?1", [team], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_newer_database_is_refused_with_a_sentence_and_left_as_it_is() {
    let folder = kept();
    let path = folder.path().join("data/teamlamp.db");
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let fault = Server::start(config(&folder, &Clock::system())).await.unwrap_err().to_string();
    assert!(fault.contains("newer Teamlamp") && fault.contains("update this program"), "{fault}");
    assert!(std::fs::read(&path).unwrap() == bytes, "untouched");
}
