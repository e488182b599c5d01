//! The kept frames and their readers.

use super::*;
use teamlamp_client::Mode;
use teamlamp_wire::event::{Actor, ActorKind, Resource as WireResource};

fn event(id: &str, resource: &str) -> Event {
    Event {
        id: id.into(),
        org: "team_1".into(),
        at: 1,
        actor: Actor {
            principal_id: None,
            kind: ActorKind::System,
            name: "system".into(),
            on_behalf_of: vec![],
        },
        kind: "machine.online".into(),
        resource: WireResource { kind: "machine".into(), id: resource.into() },
        data: Default::default(),
    }
}

fn frame(frame: Frame) -> Followed {
    Followed::Frame { frame, replayed: false }
}

fn live(sequence: i64, resource: &str) -> Followed {
    frame(Frame::Event {
        sequence,
        cursor: format!("c{sequence}"),
        data: event(&format!("evt_{sequence}"), resource),
    })
}

fn connected(hub: &Hub) {
    hub.take(&Followed::Connected { mode: Mode::Streaming });
}

fn snapshot(hub: &Hub, resources: &[&str], cursor: &str) {
    hub.take(&frame(Frame::SnapshotBegin));
    for (n, resource) in resources.iter().enumerate() {
        hub.take(&frame(Frame::SnapshotItem { sequence: n as i64, data: event("evt_s", resource) }));
    }
    hub.take(&frame(Frame::SnapshotEnd { cursor: cursor.into() }));
}

fn hub(kept: usize) -> (Clock, Arc<Hub>) {
    let clock = Clock::starting_at(1_000);
    let hub = Hub { kept, ..Hub::new(clock.clone()) };
    connected(&hub);
    (clock, Arc::new(hub))
}

/// What a reader has without waiting, in short.
async fn said(events: &mut Events) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(Some(told)) = tokio::time::timeout(std::time::Duration::from_millis(1), events.next()).await
    {
        let age = told.age_ms.map(|age| format!("@{age}")).unwrap_or_default();
        all.push(match told.what {
            Followed::Frame { frame: Frame::SnapshotBegin, .. } => format!("begin{age}"),
            Followed::Frame { frame: Frame::SnapshotItem { data, .. }, .. } => {
                format!("{}{age}", data.resource.id)
            }
            Followed::Frame { frame: Frame::SnapshotEnd { cursor }, .. } => format!("end {cursor}{age}"),
            Followed::Frame { frame: Frame::Event { sequence, .. }, .. } => format!("{sequence}{age}"),
            Followed::Frame { frame: Frame::ResyncRequired { reason, cursor, .. }, .. } => {
                format!("{reason:?} {}", cursor.unwrap_or_default())
            }
            other => format!("{other:?}").chars().take(11).collect(),
        });
    }
    all
}

#[tokio::test(start_paused = true)]
async fn every_reader_has_its_own_cursor_on_the_one_stream() {
    let (_clock, hub) = hub(10);
    let mut early = hub.read(None).unwrap();
    assert!(said(&mut early).await.is_empty(), "nothing before the first snapshot is whole");
    snapshot(&hub, &["m1", "m2"], "c0");
    assert_eq!(said(&mut early).await, ["begin", "m1", "m2", "end c0"]);
    hub.take(&live(3, "m2"));
    hub.take(&live(4, "m3"));
    assert_eq!(said(&mut early).await, ["3", "4"]);
    let mut late = hub.read(None).unwrap();
    assert_eq!(said(&mut late).await, ["begin", "m1", "m2", "m3", "end c4"]);
    let mut resumed = hub.read(Some("c0")).unwrap();
    assert_eq!(said(&mut resumed).await, ["3", "4"]);
    assert_eq!(resumed.cursor(), Some("c4"));
    assert_eq!(said(&mut hub.read(Some("c3")).unwrap()).await, ["4"]);
    assert!(hub.read(Some("other")).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_somebody_took_is_one_resource_with_its_newest_event() {
    let (_clock, hub) = hub(10);
    let told = |sequence: i64, kind: &str| {
        let mut data = event(&format!("evt_{sequence}"), "sess_1");
        (data.kind, data.resource.kind) = (kind.into(), "session".into());
        frame(Frame::Event { sequence, cursor: format!("c{sequence}"), data })
    };
    snapshot(&hub, &["m1"], "c0");
    hub.take(&told(3, "session.turn"));
    hub.take(&told(4, "attention.claimed"));
    let mut reader = hub.read(None).unwrap();
    let mut items = Vec::new();
    while let Some(Told { what: Followed::Frame { frame, .. }, .. }) = reader.next().await {
        match frame {
            Frame::SnapshotItem { sequence, data } => items.push((sequence, data.kind)),
            Frame::SnapshotEnd { .. } => break,
            _ => {}
        }
    }
    assert_eq!(items[1..], [(4, "attention.claimed".to_owned())], "as a snapshot of the server shows it");
}

#[tokio::test(start_paused = true)]
async fn a_clone_is_told_and_its_machine_stays_what_it_was() {
    let (_clock, hub) = hub(10);
    let cloned = |resource: &str| {
        let mut data = event("evt_3", resource);
        data.kind = "machine.cloned".into();
        frame(Frame::Event { sequence: 3, cursor: "c3".into(), data })
    };
    snapshot(&hub, &["m1"], "c0");
    hub.take(&cloned("m1"));
    let mut reader = hub.read(None).unwrap();
    reader.next().await.unwrap();
    let Followed::Frame { frame: Frame::SnapshotItem { sequence, data }, .. } =
        reader.next().await.unwrap().what
    else {
        panic!("no item")
    };
    assert_eq!((sequence, data.kind.as_str()), (0, "machine.online"), "as a snapshot of the server shows it");
    assert_eq!(said(&mut hub.read(Some("c0")).unwrap()).await, ["3"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_whose_frames_went_past_it_is_told_to_come_back() {
    let (_clock, hub) = hub(3);
    snapshot(&hub, &[], "c0");
    let mut slow = hub.read(None).unwrap();
    assert_eq!(said(&mut slow).await, ["begin", "end c0"]);
    (1..=3).for_each(|n| hub.take(&live(n, "m")));
    assert_eq!(slow.next().await.map(|t| t.age_ms), Some(None));
    (4..=6).for_each(|n| hub.take(&live(n, "m")));
    assert_eq!(said(&mut slow).await, ["SlowReader c1"]);
    assert_eq!(slow.next().await, None);
    assert!(hub.read(Some("c1")).is_err(), "the kept frames no longer reach back to it");
    assert_eq!(said(&mut hub.read(Some("c3")).unwrap()).await, ["4", "5", "6"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_starts_without_the_network_and_sees_the_age_of_what_it_reads() {
    let (clock, hub) = hub(10);
    snapshot(&hub, &["m1"], "c0");
    hub.take(&live(1, "m1"));
    clock.sleep(std::time::Duration::from_secs(5)).await;
    let why = teamlamp_client::TransportFault::new(teamlamp_client::FaultKind::Reset, "x", "y").into();
    hub.take(&Followed::Dropped { why, wait: std::time::Duration::from_secs(1) });
    assert_eq!(said(&mut hub.read(None).unwrap()).await[..2], ["begin@5000", "m1@5000"]);
    connected(&hub);
    hub.take(&live(2, "m1"));
    let resumed = said(&mut hub.read(Some("c0")).unwrap()).await;
    assert_eq!(resumed, ["1@5001", "2"], "what came before the loss stays old");
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_a_receipt_and_then_a_snapshot() {
    let (_clock, hub) = hub(10);
    snapshot(&hub, &["m1"], "c0");
    let mut reader = hub.read(Some("c0")).unwrap();
    hub.take(&live(1, "m1"));
    hub.take(&Followed::Gap {
        reason: ResyncReason::Retention,
        pruned_through: Some(9),
        events_missed: Some(8),
    });
    assert_eq!(said(&mut reader).await, ["Gap { reaso"]);
    snapshot(&hub, &["m1", "m9"], "c9");
    assert_eq!(said(&mut reader).await, ["begin", "m1", "m9", "end c9"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_access_ends_every_reader() {
    let (_clock, hub) = hub(10);
    snapshot(&hub, &[], "c0");
    let mut reader = hub.read(Some("c0")).unwrap();
    hub.take(&Followed::Ended { why: Ending::AccessRevoked("machine_revoked".into()) });
    assert_eq!(said(&mut reader).await, ["Ended { why"]);
    assert_eq!(reader.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn more_resources_than_are_kept_are_read_from_the_server_and_never_told_in_part() {
    let clock = Clock::starting_at(1_000);
    let hub = Arc::new(Hub { resources: 2, ..Hub::new(clock) });
    connected(&hub);
    let mut early = hub.read(None).unwrap();
    snapshot(&hub, &["a", "b"], "c0");
    let mut whole = hub.read(None).unwrap();
    assert_eq!(said(&mut whole).await.len(), 4);
    hub.take(&live(1, "c"));
    assert!(hub.read(None).is_err(), "a part would be taken for all");
    assert!(hub.read(Some("c1")).is_ok() && said(&mut whole).await.len() == 1, "what goes on goes on");
    assert_eq!(said(&mut early).await.len(), 1, "it is told to come back");
    assert!(early.next().await.is_none());
    snapshot(&hub, &["a", "b", "c"], "c2");
    assert!(hub.read(None).is_err());
    snapshot(&hub, &["a"], "c3");
    assert_eq!(said(&mut hub.read(None).unwrap()).await.len(), 3);
}
