//! How often: token buckets of credentials and addresses, the tally of who spent a minute, and wrong
//! invitation codes (spec 01). In memory and bounded; a restart forgives.

use crate::error::ApiError;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use teamlamp_clock::Moment;
use teamlamp_wire::id::CredentialId;
use teamlamp_wire::limits::{RATE_ANONYMOUS_PER_MINUTE, RATE_BURST, RATE_PER_MINUTE, WRONG_CODES_PER_HOUR};

/// Spenders that are remembered at once; more push out who has been quiet longest.
const REMEMBERED: usize = 20_000;
/// Different names of one spender in one slot; the rest are counted together.
const NAMES: usize = 32;
/// Names that a refusal tells.
const TOLD: usize = 10;
const SLOT: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// How long to wait where only tries under way fill the limit.
const CODES_AGAIN_SECONDS: u64 = 5;
const OTHERS: &str = "(others)";

/// Everyone's buckets.
#[derive(Debug, Default)]
pub struct Limits {
    credentials: Mutex<BTreeMap<CredentialId, Spender>>,
    addresses: Mutex<BTreeMap<IpAddr, Bucket>>,
    codes: Mutex<BTreeMap<IpAddr, Codes>>,
}

/// What one address tried of invitation codes.
#[derive(Debug)]
struct Codes {
    /// When it was wrong, within the last hour.
    wrong: VecDeque<Moment>,
    /// Tries whose result is not known yet.
    under_way: usize,
    at: Moment,
}

impl Limits {
    /// Takes one request from a credential's bucket and tallies it.
    ///
    /// # Errors
    /// 429 with how long to wait and who spent the last minute.
    pub fn spend(
        &self,
        credential: &CredentialId,
        caller: Option<&str>,
        route: &str,
        now: Moment,
    ) -> Result<(), ApiError> {
        let mut spenders = held(&self.credentials);
        make_room(&mut spenders, credential, |s| s.bucket.at);
        let spender = spenders.entry(credential.clone()).or_insert_with(|| Spender::new(now));
        match spender.bucket.take(now, RATE_PER_MINUTE, RATE_BURST) {
            Ok(()) => {
                spender.tally(caller.unwrap_or("(unnamed)"), route, now);
                Ok(())
            }
            Err(wait) => Err(ApiError::rate_limited(
                "Too many requests with this credential: wait, and ask less often.",
                wait,
                json!({ "spent_last_minute": spender.spent(now) }),
            )),
        }
    }

    /// Takes one request without a valid credential from its address's bucket.
    ///
    /// # Errors
    /// 429 with how long to wait.
    pub fn spend_anonymous(&self, peer: IpAddr, now: Moment) -> Result<(), ApiError> {
        let mut addresses = held(&self.addresses);
        let address = neighbourhood(peer);
        make_room(&mut addresses, &address, |b| b.at);
        let burst = RATE_ANONYMOUS_PER_MINUTE;
        let bucket = addresses.entry(address).or_insert_with(|| Bucket::full(now, burst));
        bucket.take(now, RATE_ANONYMOUS_PER_MINUTE, burst).map_err(|wait| {
            ApiError::rate_limited(
                "Too many requests without a valid credential from this address: wait a little.",
                wait,
                json!({}),
            )
        })
    }

    /// Begins a try at an invitation code. Many tries at once are no way around the limit: those under way
    /// count as wrong ones would, but for a moment only.
    ///
    /// # Errors
    /// 429 after ten wrong ones within an hour, and with so many under way.
    pub fn try_code(&self, peer: IpAddr, now: Moment) -> Result<CodeTry<'_>, ApiError> {
        let mut codes = held(&self.codes);
        let address = neighbourhood(peer);
        make_room(&mut codes, &address, |codes| codes.at);
        let of = codes.entry(address).or_insert_with(|| Codes::new(now));
        of.at = now;
        of.wrong.retain(|at| *at + HOUR > now);
        let most = WRONG_CODES_PER_HOUR as usize;
        if let Some(oldest) = of.wrong.front().filter(|_| of.wrong.len() >= most) {
            let wait = whole_seconds(*oldest + HOUR - now);
            let minutes = wait.div_ceil(60);
            let message = format!(
                "Too many wrong codes from this address: try again in {minutes} min, and copy the code."
            );
            return Err(ApiError::rate_limited(message, wait, json!({})));
        }
        if of.wrong.len() + of.under_way >= most {
            let message = "Many codes are being tried from this address: try again in a moment.";
            return Err(ApiError::rate_limited(message, CODES_AGAIN_SECONDS, json!({})));
        }
        of.under_way += 1;
        drop(codes);
        Ok(CodeTry { limits: self, address, begun: now, wrong: true })
    }

    fn code_tried(&self, address: IpAddr, wrong: bool, begun: Moment) {
        let mut codes = held(&self.codes);
        let of = codes.entry(address).or_insert_with(|| Codes::new(begun));
        of.under_way = of.under_way.saturating_sub(1);
        if wrong {
            of.wrong.push_back(begun);
        } else if of.wrong.is_empty() && of.under_way == 0 {
            codes.remove(&address);
        }
    }
}

impl Codes {
    fn new(now: Moment) -> Self {
        Self { wrong: VecDeque::new(), under_way: 0, at: now }
    }
}

/// A try at an invitation code. Unless it [was not wrong](CodeTry::was_not_wrong), dropping it counts: who
/// goes away before the answer may ask for it once more, so going away must not be free.
#[derive(Debug)]
#[must_use]
pub struct CodeTry<'a> {
    limits: &'a Limits,
    address: IpAddr,
    begun: Moment,
    wrong: bool,
}

impl CodeTry<'_> {
    /// The code was right, or nothing was told of it: the try counts for nothing.
    pub fn was_not_wrong(mut self) {
        self.wrong = false;
    }
}

impl Drop for CodeTry<'_> {
    fn drop(&mut self) {
        self.limits.code_tried(self.address, self.wrong, self.begun);
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a map within its bound before `key` comes in: who was quiet longest goes. A bucket that was
/// quiet for a minute is full again, so forgetting it changes nothing.
fn make_room<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, last: impl Fn(&V) -> Moment) {
    if map.len() < REMEMBERED || map.contains_key(key) {
        return;
    }
    let mut quiet: Vec<(Moment, K)> = map.iter().map(|(k, v)| (last(v), k.clone())).collect();
    quiet.sort();
    // A tenth at once, so that this is rare.
    for (_, key) in quiet.into_iter().take(REMEMBERED / 10) {
        map.remove(&key);
    }
}

/// What counts as one address: an IPv4 address, or the /64 of an IPv6 one.
pub fn neighbourhood(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (!0 << 64))),
        },
    }
}

fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// A token bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    tokens: f64,
    at: Moment,
}

impl Bucket {
    /// One that nothing was taken from.
    pub(crate) fn full(now: Moment, burst: u32) -> Self {
        Self { tokens: f64::from(burst), at: now }
    }

    /// Takes one, or says after how many seconds there is one.
    pub(crate) fn take(&mut self, now: Moment, per_minute: u32, burst: u32) -> Result<(), u64> {
        let a_second = f64::from(per_minute) / 60.0;
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + since * a_second).min(f64::from(burst));
        self.at = self.at.max(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(whole_seconds(Duration::from_secs_f64((1.0 - self.tokens) / a_second)).max(1))
    }
}

/// A credential's bucket and what it spent, in slots of ten seconds.
#[derive(Debug)]
struct Spender {
    bucket: Bucket,
    slots: VecDeque<Slot>,
}

#[derive(Debug)]
struct Slot {
    begun: Moment,
    requests: u64,
    callers: BTreeMap<String, u64>,
    routes: BTreeMap<String, u64>,
}

impl Spender {
    fn new(now: Moment) -> Self {
        Self { bucket: Bucket::full(now, RATE_BURST), slots: VecDeque::new() }
    }

    fn tally(&mut self, caller: &str, route: &str, now: Moment) {
        self.forget(now);
        if self.slots.back().is_none_or(|slot| slot.begun + SLOT <= now) {
            self.slots.push_back(Slot {
                begun: now,
                requests: 0,
                callers: BTreeMap::new(),
                routes: BTreeMap::new(),
            });
        }
        if let Some(slot) = self.slots.back_mut() {
            slot.requests += 1;
            count(&mut slot.callers, caller);
            count(&mut slot.routes, route);
        }
    }

    fn forget(&mut self, now: Moment) {
        while self.slots.front().is_some_and(|slot| slot.begun + MINUTE <= now) {
            self.slots.pop_front();
        }
    }

    fn spent(&mut self, now: Moment) -> Value {
        self.forget(now);
        let requests: u64 = self.slots.iter().map(|s| s.requests).sum();
        json!({
            "requests": requests,
            "by_caller": largest(self.slots.iter().map(|s| &s.callers)),
            "by_route": largest(self.slots.iter().map(|s| &s.routes)),
        })
    }
}

/// Counts a name. Where there are too many, the smallest goes to the others, so that one that comes late and
/// often is told all the same.
fn count(names: &mut BTreeMap<String, u64>, name: &str) {
    if names.len() >= NAMES && !names.contains_key(name) {
        let smallest = names.iter().filter(|(name, _)| *name != OTHERS).min_by_key(|(_, count)| **count);
        if let Some(moved) = smallest.map(|(name, _)| name.clone()).and_then(|name| names.remove(&name)) {
            *names.entry(OTHERS.to_owned()).or_default() += moved;
        }
    }
    *names.entry(name.to_owned()).or_default() += 1;
}

fn largest<'a>(slots: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> Vec<Value> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in slots.flatten() {
        *sums.entry(name).or_default() += count;
    }
    let mut sums: Vec<(&str, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    sums.into_iter().take(TOLD).map(|(name, count)| json!({ "name": name, "count": count })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use teamlamp_clock::{Clock, ms};

    fn v4(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_120_then_ten_a_second_and_the_refusal_says_who_spent() {
        let (limits, clock) = (Limits::default(), Clock::starting_at(0));
        let credential = CredentialId::from("cred_1");
        let spend = |caller: &str| limits.spend(&credential, Some(caller), "GET /v1/me", clock.monotonic());
        for i in 0..120 {
            spend(if i < 100 { "a" } else { "b" }).unwrap();
        }
        let refusal = spend("a").unwrap_err();
        assert_eq!((refusal.status, refusal.retry_after_seconds), (429, Some(1)));
        let details = refusal.into_refusal().body.details.unwrap();
        assert_eq!(details["retry_after_seconds"], 1);
        assert_eq!(details["spent_last_minute"]["requests"], 120);
        assert_eq!(details["spent_last_minute"]["by_caller"][0], json!({"name": "a", "count": 100}));
        assert_eq!(details["spent_last_minute"]["by_route"][0]["name"], "GET /v1/me");
        clock.sleep(ms(1_000)).await;
        for _ in 0..10 {
            spend("a").unwrap();
        }
        assert!(spend("a").is_err());
        // Another credential is not concerned.
        limits.spend(&"cred_2".into(), None, "GET /v1/me", clock.monotonic()).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_tally_is_bounded_and_forgets_after_a_minute() {
        let (limits, clock) = (Limits::default(), Clock::starting_at(0));
        let credential = CredentialId::from("cred_1");
        for i in 0..100 {
            let name = format!("program {i}");
            limits.spend(&credential, Some(&name), "GET /v1/me", clock.monotonic()).unwrap();
        }
        {
            let mut spenders = held(&limits.credentials);
            let spender = spenders.get_mut(&credential).unwrap();
            assert!(spender.slots.iter().all(|s| s.callers.len() <= NAMES + 1));
            let spent = spender.spent(clock.monotonic());
            assert_eq!(spent["by_caller"].as_array().unwrap().len(), TOLD);
            assert_eq!(spent["by_caller"][0]["name"], OTHERS);
        }
        clock.sleep(ms(60_000)).await;
        for i in 0..40 {
            let name = format!("once {i}");
            limits.spend(&credential, Some(&name), "GET /v1/me", clock.monotonic()).unwrap();
        }
        for _ in 0..20 {
            limits.spend(&credential, Some("late and often"), "GET /v1/me", clock.monotonic()).unwrap();
        }
        {
            let mut spenders = held(&limits.credentials);
            let spent = spenders.get_mut(&credential).unwrap().spent(clock.monotonic());
            assert_eq!(spent["by_caller"][0], json!({ "name": "late and often", "count": 20 }));
        }
        clock.sleep(ms(60_000)).await;
        let mut spenders = held(&limits.credentials);
        let spent = spenders.get_mut(&credential).unwrap().spent(clock.monotonic());
        assert_eq!(spent["requests"], 0);
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_share_a_bucket_by_64_bits_of_ipv6() {
        let (limits, clock) = (Limits::default(), Clock::starting_at(0));
        let v6 = |text: &str| text.parse::<IpAddr>().unwrap();
        for i in 0..60 {
            limits.spend_anonymous(v6(&format!("2001:db8::{i:x}")), clock.monotonic()).unwrap();
        }
        assert!(limits.spend_anonymous(v6("2001:db8::ffff"), clock.monotonic()).is_err());
        limits.spend_anonymous(v6("2001:db8:0:1::1"), clock.monotonic()).unwrap();
        limits.spend_anonymous(v4(1), clock.monotonic()).unwrap();
        assert_eq!(neighbourhood(v6("::ffff:192.0.2.1")), v4(1));
    }

    #[tokio::test(start_paused = true)]
    async fn ten_wrong_codes_an_hour() {
        let (limits, clock) = (Limits::default(), Clock::starting_at(0));
        let tried = |last: u8| limits.try_code(v4(last), clock.monotonic());
        for _ in 0..10 {
            // One whose end nobody waited for was wrong.
            drop(tried(1).unwrap());
            tried(2).unwrap().was_not_wrong();
        }
        assert_eq!(tried(1).unwrap_err().retry_after_seconds, Some(3600));
        // Tries at once are counted while they are under way, and no longer.
        let tries: Vec<_> = (0..10).map(|_| tried(2).unwrap()).collect();
        assert_eq!(tried(2).unwrap_err().retry_after_seconds, Some(CODES_AGAIN_SECONDS));
        tries.into_iter().for_each(CodeTry::was_not_wrong);
        assert!(held(&limits.codes).keys().all(|address| *address == v4(1)));
        tried(2).unwrap().was_not_wrong();
        clock.sleep(ms(3_600_000)).await;
        tried(1).unwrap().was_not_wrong();
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_remembered_spenders_is_bounded() {
        let (limits, clock) = (Limits::default(), Clock::starting_at(0));
        for i in 0..(REMEMBERED as u32 + 5) {
            let ip = IpAddr::from(i.to_be_bytes());
            limits.spend_anonymous(ip, clock.monotonic()).unwrap();
        }
        assert!(held(&limits.addresses).len() <= REMEMBERED);
    }
}
