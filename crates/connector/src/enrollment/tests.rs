//! Joining and leaving against a scripted server.

use super::*;
use crate::custody::Fault;
use crate::scripted::World;

#[tokio::test(start_paused = true)]
async fn joining_keeps_the_secrets_and_saves_a_context_without_them() {
    let world = World::new();
    let joined = world.install.join(world.wish()).await.unwrap();
    assert_eq!((joined.team.as_str(), joined.machine.as_deref()), ("Acme", Some("laptop")));
    let contexts = world.install.contexts().unwrap().contexts;
    assert_eq!(contexts[0].id, joined.context);
    for kind in [Kind::User, Kind::Machine, Kind::Enrollment] {
        let kept = world.install.custody.read(Place::Keyring, &joined.context, kind).await.unwrap().unwrap();
        let text = String::from_utf8(world.install.home.read("contexts.json").unwrap().unwrap()).unwrap();
        assert!(!text.contains(kept.expose_secret()));
    }
    assert!(!world.install.home.path("joining.json").exists());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_that_could_not_be_kept() {
    let world = World::new();
    for fault in [Fault::Locked, Fault::Absent("no bus".into()), Fault::Hung, Fault::Denied("you".into())] {
        world.keyring.fail(Some(fault.clone()));
        let said = world.install.join(world.wish()).await.unwrap_err();
        assert_eq!((said.code().as_str(), said.to_string()), ("keyring", fault.to_string()));
    }
    assert!(world.server.state().calls.is_empty(), "the code was not spent");
    world.keyring.fail(None);
    world.install.join(world.wish()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_acceptance_is_asked_for_again_under_its_key_also_by_the_next_run() {
    let world = World::new();
    world.server.state().lose_acceptances = 6;
    let said = world.install.join(world.wish()).await.unwrap_err();
    assert_eq!(said.code(), "unreachable");
    world.install.join(world.wish()).await.unwrap();
    let state = world.server.state();
    assert!(state.keys.len() > 5 && state.keys.iter().all(|key| *key == state.keys[0]), "{:?}", state.keys);
}

#[tokio::test(start_paused = true)]
async fn a_machines_name_that_is_taken_can_be_changed_without_a_new_code() {
    let world = World::new();
    world.server.state().refuse_enroll = Some((409, "conflict"));
    let said = world.install.join(world.wish()).await.unwrap_err();
    assert_eq!(said.code(), "conflict");
    assert!(world.install.contexts().unwrap().contexts.is_empty());
    world.server.state().refuse_enroll = None;
    let again = JoinAccept { machine: "other-laptop".into(), ..world.wish() };
    world.install.join(again).await.unwrap();
    assert_eq!(world.server.count("accept"), 1, "the code was spent once");
    assert_eq!(world.install.contexts().unwrap().contexts.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_viewer_is_let_in_without_a_machine() {
    let world = World::new();
    world.server.state().role = Some("viewer");
    let joined = world.install.join(world.wish()).await.unwrap();
    assert_eq!(joined.machine, None);
    assert_eq!(world.server.count("machines"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_preview_shows_what_the_server_says_and_spends_nothing() {
    let world = World::new();
    let link = "teamlamp://join?server=http%3A%2F%2F192.168.1.5%3A8720&code=7K3QF-9XW2M&team=Evil".to_owned();
    let shown = world.install.preview(&JoinFrom::Link { link }).await.unwrap();
    assert_eq!(shown.invitation.team.unwrap().name, "Acme");
    assert!(shown.in_clear && !shown.pinned);
    assert_eq!(world.server.state().calls, ["preview"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_invitation_is_told_in_a_sentence() {
    let world = World::new();
    let code = |code: &str, server: &str| JoinFrom::Code { code: code.into(), server: server.into() };
    for (from, part) in [
        (JoinFrom::Link { link: "https://example.org".into() }, "teamlamp://join?"),
        (code("7K3QF", "http://127.0.0.1:1"), "ten letters"),
        (code("7K3QF-9XW2U", "http://127.0.0.1:1"), "ten letters"),
        (code("7K3QF-9XW2M", "example.org"), "https://"),
        (code("7K3QF-9XW2M", "http://example.org"), "https"),
    ] {
        let said = world.install.preview(&from).await.unwrap_err();
        assert_eq!(said.code(), "bad_link");
        assert!(said.to_string().contains(part), "{said}");
    }
    let named = JoinAccept { machine: " ".into(), ..world.wish() };
    assert_eq!(world.install.join(named).await.unwrap_err().code(), "invalid_request");
    assert!(world.server.state().calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn leaving_revokes_the_machine_and_forgets_everything() {
    let world = World::new();
    let joined = world.install.join(world.wish()).await.unwrap();
    let left = world.install.leave(&joined.context).await.unwrap();
    assert_eq!(left, Left { team: "Acme".into(), untold: None });
    assert!(world.server.state().revoked && world.server.count("current") == 1);
    assert!(world.keyring.is_empty());
    assert!(world.install.contexts().unwrap().contexts.is_empty());
    assert!(matches!(world.install.leave("acme").await, Err(LeaveFault::Unknown(_))));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_can_be_left_and_a_closed_keyring_cannot() {
    let world = World::new();
    let joined = world.install.join(world.wish()).await.unwrap();
    world.keyring.fail(Some(Fault::Locked));
    assert!(matches!(world.install.leave(&joined.context).await, Err(LeaveFault::Custody(Fault::Locked))));
    assert_eq!(world.install.contexts().unwrap().contexts.len(), 1);
    world.keyring.fail(None);
    world.server.state().down = true;
    let left = world.install.leave(&joined.context).await.unwrap();
    assert!(left.untold.is_some());
    assert!(world.keyring.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_running_connector_connects_what_is_joined_and_stops_what_is_left() {
    let world = World::new();
    let connector = world.start(false).await;
    assert!(connector.status().contexts.is_empty());
    let joined = connector.join(world.wish()).await.unwrap();
    world.until(&connector, "online").await;
    connector.leave(&joined.context).await.unwrap();
    assert!(connector.status().contexts.is_empty());
    let calls = world.server.state().calls.len();
    world.pass(120).await;
    assert_eq!(world.server.state().calls.len(), calls);
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_team_that_another_program_of_this_home_joined_is_connected_on_request() {
    let world = World::new();
    let connector = world.start(false).await;
    world.install.join(world.wish()).await.unwrap();
    connector.act(crate::Action::ConnectNow).await.unwrap();
    world.until(&connector, "online").await;
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_file_of_contexts_that_breaks_ends_no_running_team() {
    let world = World::new();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    std::fs::write(world.install.home.path("contexts.json"), "{ half").unwrap();
    let said = connector.act(crate::Action::ConnectNow).await.unwrap_err().to_string();
    assert!(said.contains("contexts.json") && said.contains("Mend"), "{said}");
    world.install.contexts().unwrap();
    let gone = connector.act(crate::Action::ConnectNow).await;
    assert!(gone.is_err(), "the broken file was kept aside by another program");
    world.pass(20).await;
    assert_eq!(connector.status().contexts[0].state.word(), "online");
    connector.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn who_runs_the_server_goes_on_with_a_joining_whose_code_is_gone() {
    let world = World::new();
    let server = "srv_1".into();
    let at = crate::Server { origin: "https://127.0.0.1:9999".into(), fingerprint: Some("0a".repeat(32)) };
    assert!(world.install.resume(&at, &server, "laptop").await.unwrap().is_none());
    world.server.state().refuse_enroll = Some((503, "unavailable"));
    world.install.join(world.wish()).await.unwrap_err();
    world.server.state().refuse_enroll = None;
    assert!(world.install.resume(&at, &"srv_2".into(), "laptop").await.unwrap().is_none());
    let joined = world.install.resume(&at, &server, "laptop").await.unwrap().unwrap();
    assert_eq!((joined.team.as_str(), joined.machine.as_deref()), ("Acme", Some("laptop")));
    let saved = world.install.contexts().unwrap().contexts;
    assert_eq!(saved.len(), 1);
    assert_eq!(saved[0].server(), at, "the server listens elsewhere now, with another key");
    assert_eq!(world.server.count("accept"), 1, "the code was spent once");
    assert!(world.install.resume(&at, &server, "laptop").await.unwrap().is_none(), "it is done");
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_team_that_is_no_longer_saved_is_forgotten() {
    let world = World::new();
    let outbox = crate::outbox::Outbox::open(&world.install.home, 1).unwrap();
    let told = crate::privacy::shown(
        &crate::privacy::tests::found(&[(
            "a",
            crate::privacy::tests::session("acme", teamlamp_wire::session::Turn::Idle, 5),
        )]),
        &crate::privacy::Sharing::default(),
    );
    outbox.remember("long-gone", &told).unwrap();
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    assert!(outbox.told("long-gone").unwrap().is_empty());
    connector.shutdown().await;
}
