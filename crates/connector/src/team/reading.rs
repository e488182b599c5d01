//! Reading: follows the team's one stream of events into the hub, for as long as the context is signed in.

use super::Team;
use futures_util::StreamExt;
use teamlamp_client::{FollowQuery, Followed, Mode};

impl Team {
    /// Reads for as long as it is polled.
    pub(super) async fn read(&self) {
        let mut redial = self.signals.redial.subscribe();
        let mut nudge = self.signals.nudge.subscribe();
        let mut recovered = self.recovered.subscribe();
        loop {
            let signed = self.sign_in.wait().await;
            let now = self.now();
            self.change(|f| f.stream.begin(now));
            let query = FollowQuery::all(self.context().team_id);
            let mut stream = signed.client.at("stream").follow(&query, self.hub.tip());
            redial.mark_unchanged();
            let mut waits = false;
            loop {
                let said = tokio::select! {
                    biased;
                    () = self.sign_in.over(signed.number) => break,
                    _ = redial.changed() => {
                        let now = self.now();
                        self.change(|f| f.stream.lost(now));
                        signed.client.forget_idle();
                        break;
                    }
                    _ = nudge.changed(), if waits => None,
                    _ = recovered.changed(), if waits => None,
                    said = stream.next() => said,
                };
                let Some(said) = said else {
                    // The wait before the next try is skipped: a stream from where this one had come to.
                    stream = signed.client.at("stream").follow(&query, self.hub.tip());
                    waits = false;
                    continue;
                };
                waits = matches!(said, Followed::Dropped { .. });
                if waits {
                    nudge.mark_unchanged();
                    recovered.mark_unchanged();
                }
                self.heard(&said);
                if let Followed::Ended { why } = &said {
                    tracing::info!(context = %self.id, ?why, "the stream ended");
                    self.sign_in.refused(signed.number);
                    break;
                }
            }
        }
    }

    fn heard(&self, said: &Followed) {
        let now = self.now();
        match said {
            Followed::Connected { mode } => {
                self.works(|f| &mut f.stream, |f| f.polls = *mode == Mode::Polling);
            }
            Followed::Dropped { why, wait } => {
                let next = now + i64::try_from(wait.as_millis()).unwrap_or(0);
                self.change(|f| match f.stream {
                    // A first loss is mended before a person could do anything about it.
                    crate::state::Channel::Up => f.stream.lost(now),
                    _ => f.stream.failed(now, why.sentence(), Some(next)),
                });
            }
            Followed::Frame { .. } | Followed::Gap { .. } | Followed::Ended { .. } => {}
        }
        self.hub.take(said);
    }
}
