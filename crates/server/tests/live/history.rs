//! The history of events (spec 03).

use crate::kit::{Live, activity};
use crate::world::Answer;
use serde_json::{Value, json};

fn sequences(answer: &Answer) -> Vec<i64> {
    answer.items().iter().map(|i| i["sequence"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn newest_first_in_pages_that_join() {
    let live = Live::real().await;
    for i in 0..12 {
        live.publish("n", json!({ "n": i })).await;
    }
    let whole = sequences(&live.get("events/history").await);
    assert_eq!(whole, (1..=14).rev().collect::<Vec<_>>());
    let mut walked = Vec::new();
    let mut before = String::new();
    loop {
        let page = live.get(&format!("events/history?limit=5{before}")).await;
        walked.extend(sequences(&page));
        match page.body["next_cursor"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    assert_eq!(walked, whole);
    let item = live.get("events/history?limit=1").await.items()[0].clone();
    assert_eq!(item["event"]["data"], json!({ "n": 11 }));
    assert_eq!(item.as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn filters_and_text_choose() {
    let live = Live::real().await;
    let member = live.join("member", "Zoë Ünal").await;
    let mut machine = live.machine("Büro").await;
    let session = live.register(&machine, &["n"]).await.remove(0);
    let bindings = [machine.binding("b", "n")];
    live.beat(&mut machine, &bindings, Some(&[activity("n", "working", 1)])).await;
    live.beat(&mut machine, &bindings, Some(&[activity("n", "idle", 2)])).await;
    live.publish("deploy", json!({ "where": { "stages": ["Prod", "Kanarien"] }, "count": 7 })).await;
    let event = json!({ "events": [{ "kind": "custom.cli.note" }] });
    live.post_by(&member.token, "events", &event).await;
    let kinds = |answer: &Answer| -> Vec<String> {
        answer.items().iter().map(|i| i["event"]["kind"].as_str().unwrap().to_owned()).collect()
    };
    for (query, expected) in [
        ("kinds=session.turn".to_owned(), vec!["session.turn"]),
        ("kinds=custom.cli.*".to_owned(), vec!["custom.cli.note", "custom.cli.deploy"]),
        (format!("session={session}"), vec!["session.turn", "session.started"]),
        (
            format!("machine={}", machine.id()),
            vec!["session.turn", "machine.unlinked", "session.started", "machine.enrolled"],
        ),
        (format!("actor={}", member.id), vec!["custom.cli.note", "member.joined"]),
        ("text=KANARIEN".to_owned(), vec!["custom.cli.deploy"]),
        ("text=b%C3%9Cro&kinds=machine.enrolled".to_owned(), vec!["machine.enrolled"]),
        ("text=zo%C3%AB".to_owned(), vec!["custom.cli.note", "member.joined"]),
        ("text=ACME&kinds=session.turn".to_owned(), vec!["session.turn"]),
        ("text=nowhere".to_owned(), vec![]),
        (format!("machine={}&kinds=custom.cli.*", machine.id()), vec![]),
    ] {
        assert_eq!(kinds(&live.get(&format!("events/history?{query}")).await), expected, "{query}");
    }
}

#[tokio::test]
async fn a_search_for_what_is_nowhere_answers_in_bounded_steps() {
    let live = Live::real().await;
    let app = live.world.server.app().clone();
    let team: teamlamp_wire::id::TeamId = live.team.as_str().into();
    for _ in 0..4 {
        let (team, chance) = (team.clone(), app.chance.clone());
        app.store
            .write(move |tx| {
                for i in 0..3_000 {
                    let data = json!({ "n": i });
                    let event = teamlamp_server::events::append::NewEvent::new(
                        teamlamp_server::events::append::system(),
                        "custom.cli.n",
                        "custom",
                        "n",
                        data,
                    );
                    teamlamp_server::events::append::append(tx, &chance, &team, event)?;
                }
                Ok(())
            })
            .await
            .unwrap();
    }
    let first = live.get("events/history?text=Olga").await;
    let next: i64 = first.body["next_cursor"].as_str().unwrap().parse().unwrap();
    assert_eq!((first.items().len(), next), (0, 2_003), "12,002 events: a request looks through 10,000");
    let second = live.get(&format!("events/history?text=Olga&before={next}")).await;
    assert_eq!((sequences(&second), &second.body["next_cursor"]), (vec![2, 1], &Value::Null));
}

#[tokio::test]
async fn bad_queries_are_refused() {
    let live = Live::real().await;
    for bad in
        ["limit=0", "limit=201", "limit=x", "before=0", "before=-3", "before=x", "kinds=nonsense", "after=3"]
    {
        live.get(&format!("events/history?{bad}")).await.refused(400, "invalid_request");
    }
    live.ask("GET", "/v1/teams/team_none/events/history", &live.owner.token, None)
        .await
        .refused(404, "not_found");
}
