//! No secret in anything that is written: a whole life of an install is run with every log line kept.

use super::World;
use super::routes::token;
use super::world::CODE;
use crate::connector::Action;
use crate::custody::{Fault, Kind, Place};
use secrecy::ExposeSecret;
use std::io::Write;
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;
    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn no_secret_is_in_a_log_a_file_or_what_debug_prints() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let world = World::new();
    world.server.state().lose_acceptances = 6;
    let mut printed = format!("{:?}", world.install.join(world.wish()).await.unwrap_err());
    let connector = world.connected().await;
    world.until(&connector, "online").await;
    world.server.state().machine_token = None;
    world.pass(40).await;
    world.until(&connector, "online").await;
    world.keyring.fail(Some(Fault::Locked));
    world.server.state().down = true;
    world.pass(60).await;
    printed += &format!("{connector:?} {:?} {:?}", world.install, connector.status());
    printed += &format!("{:?}", connector.act(Action::UnlockKeyring).await);
    world.server.state().down = false;
    world.until(&connector, "online").await;
    connector.shutdown().await;

    let context = world.install.contexts().unwrap().contexts.remove(0).id;
    let kept = world.install.custody.read(Place::Keyring, &context, Kind::Enrollment).await.unwrap().unwrap();
    let mut secrets = vec![kept.expose_secret().to_owned(), CODE.to_owned(), CODE.replace('-', "")];
    secrets.extend((1..=world.server.state().tokens_made).map(|n| token(n).split_off(5)));
    let mut places = vec![("Debug".to_owned(), printed.into_bytes())];
    let written = log.0.lock().unwrap().clone();
    assert!(written.len() > 1_000, "the log was kept");
    places.push(("the log".into(), written));
    for file in std::fs::read_dir(world.install.home.folder()).unwrap() {
        let file = file.unwrap();
        places.push((file.file_name().to_string_lossy().into_owned(), std::fs::read(file.path()).unwrap()));
    }
    for (place, bytes) in places {
        let text = String::from_utf8_lossy(&bytes);
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()), "a secret is in {place}");
        }
    }
}
