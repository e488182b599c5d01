//! What befalls a world: faults begin at once and end later, each by its own ending.

use super::World;
use crate::network::Weather;
use crate::plan::{Happening, Plan};
use crate::server::SERVER;
use std::time::Duration;
use teamlamp_clock::{Moment, ms};

/// What ends a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The ways of a host are open again.
    Unblock(String),
    /// A machine wakes: its ways are open again, and its clock shows another time.
    Wake(usize, i64),
    /// A machine's clock is set right again by this much.
    Correct(usize, i64),
    /// A machine's connector starts.
    StartMachine(usize),
    /// The server starts.
    StartServer,
}

impl World {
    /// A fault of this kind begins, where it can now.
    pub(super) async fn strike(&mut self, happening: Happening) {
        match happening {
            Happening::Partition => self.partition(),
            Happening::Cut => {
                let host = self.some_host();
                self.network.cut(&host, SERVER);
                self.record.note(&host, "is cut off");
            }
            Happening::Weather => self.network.set_weather(Plan::weather(&self.chance)),
            Happening::Crash | Happening::PowerLoss | Happening::Stop => self.machine_ends(happening).await,
            Happening::Sleep => self.sleep(),
            Happening::ClockJump => {
                if let Some(it) = self.some_machine(|_| true) {
                    let by = self.some_jump();
                    self.machines[it].clock.jump(by);
                    self.record.note(&self.machines[it].name, format!("its clock jumps by {by} ms"));
                    let correct = Ending::Correct(it, -by);
                    self.later(5_000, 600_000, correct);
                }
            }
            Happening::ServerKill if self.server.is_up() => self.server_dies(),
            Happening::ServerKillAtAnswer if self.server.is_up() => {
                self.network.set_trap(SERVER);
                self.trapped = true;
            }
            Happening::ServerRestart if self.server.is_up() => {
                self.trapped = false;
                self.server.shutdown().await;
                self.later(50, 8_000, Ending::StartServer);
            }
            _ => {}
        }
    }

    /// The server's process is killed, and starts again a while later.
    pub(super) fn server_dies(&mut self) {
        self.trapped = false;
        self.server.kill();
        self.later(50, 70_000, Ending::StartServer);
    }

    fn partition(&mut self) {
        let host = self.some_host();
        if self.network.is_blocked(&host, SERVER) || self.network.is_blocked(SERVER, &host) {
            return;
        }
        let way = self.chance.below(4);
        if way != 1 {
            self.network.block(&host, SERVER);
        }
        if way != 2 {
            self.network.block(SERVER, &host);
        }
        self.record.note(
            &host,
            ["is cut off both ways", "hears nothing", "is not heard", "is cut off both ways"]
                [usize::try_from(way).unwrap_or(0)],
        );
        self.later(500, 150_000, Ending::Unblock(host));
    }

    async fn machine_ends(&mut self, happening: Happening) {
        let Some(it) = self.some_machine(|machine| machine.is_up()) else { return };
        match happening {
            Happening::Crash => self.machines[it].crash(),
            Happening::PowerLoss => self.machines[it].lose_power(),
            _ => self.machines[it].shutdown().await,
        }
        self.later(100, 150_000, Ending::StartMachine(it));
    }

    /// A sleeping machine hears and says nothing; its connections may be gone when it wakes, and its clock
    /// shows that time went on while it did not count it.
    fn sleep(&mut self) {
        let Some(it) = self.some_machine(|machine| machine.is_up()) else { return };
        let host = self.machines[it].name.clone();
        self.network.block(&host, SERVER);
        self.network.block(SERVER, &host);
        self.record.note(&host, "falls asleep");
        let jump = self.some_jump().abs();
        self.later(1_000, 300_000, Ending::Wake(it, jump));
    }

    fn some_jump(&self) -> i64 {
        let most = [3_000, 60_000, 3_600_000][usize::try_from(self.chance.below(3)).unwrap_or(0)];
        let by = 1_000 + i64::try_from(self.chance.below(most)).unwrap_or(0);
        if self.chance.percent(50) { by } else { -by }
    }

    /// Something ends after a time between two.
    pub(super) fn later(&mut self, least_ms: u64, most_ms: u64, ending: Ending) {
        let after = Duration::from_millis(least_ms + self.chance.below(most_ms - least_ms));
        self.count += 1;
        self.endings.insert((self.clock.monotonic() + after, self.count), ending);
    }

    /// Ends what is due by a moment.
    pub(super) async fn end_due(&mut self, by: Moment) {
        while let Some(entry) = self.endings.first_entry() {
            if entry.key().0 > by {
                return;
            }
            let ending = entry.remove();
            self.end_fault(ending).await;
        }
    }

    async fn end_fault(&mut self, ending: Ending) {
        match ending {
            Ending::Unblock(host) => self.unblock(&host),
            Ending::Wake(it, jump) => {
                self.machines[it].clock.jump(jump);
                self.unblock(&self.machines[it].name);
                self.later(1_000, 60_000, Ending::Correct(it, -jump));
            }
            Ending::Correct(it, by) => {
                self.machines[it].clock.jump(by);
                self.record.note(&self.machines[it].name, format!("its clock is set by {by} ms"));
            }
            Ending::StartMachine(it) => self.machines[it].start().await,
            Ending::StartServer => self.server.start().await,
        }
    }

    fn unblock(&self, host: &str) {
        self.network.unblock(host, SERVER);
        self.network.unblock(SERVER, host);
        self.record.note(host, "is reachable again");
    }

    /// Every fault ends, but for machines that `stay_down`.
    pub(super) async fn heal_faults(&mut self, stay_down: impl Fn(usize) -> bool) {
        self.record.note("world", "everything heals");
        self.network.set_weather(Weather { latency_ms: 2, jitter_ms: 3 });
        if std::mem::take(&mut self.trapped) {
            self.network.unset_trap(SERVER);
        }
        // Ending a fault may begin a correction, which ends too.
        while let Some((_, ending)) = self.endings.pop_first() {
            match ending {
                Ending::StartMachine(it) if stay_down(it) => {}
                ending => self.end_fault(ending).await,
            }
        }
        self.clock.sleep(ms(10)).await;
    }

    /// A host of a machine or a reader.
    fn some_host(&self) -> String {
        let machines = self.machines.iter().map(|machine| machine.name.as_str());
        let hosts: Vec<&str> =
            machines.chain(self.readers.iter().map(|reader| reader.name.as_str())).collect();
        let which = usize::try_from(self.chance.below(hosts.len() as u64)).unwrap_or(0);
        hosts.get(which).map_or_else(String::new, |host| (*host).to_owned())
    }

    /// A machine of which this is true.
    pub(super) fn some_machine(&self, fits: impl Fn(&crate::machine::Machine) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.machines.len()).filter(|it| fits(&self.machines[*it])).collect();
        let which = usize::try_from(self.chance.below(all.len() as u64)).unwrap_or(0);
        all.get(which).copied()
    }
}
