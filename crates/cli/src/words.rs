//! The words that several commands share: lengths of time, harnesses, signs of states. A state is a shape
//! first and a colour second.

use crate::out::Style;
use teamlamp_wire::Millis;
use teamlamp_wire::machine::{AwayReason, Connection, Machine};
use teamlamp_wire::session::Turn;
use teamlamp_wire::text::visible;
pub(crate) use teamlamp_wire::words::{ago, count, length};

/// Reads a length of time as people type it: `90s`, `30m`, `2h`, `7d`; in seconds.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    let wrong = || "a length of time is a number and s, m, h or d: 30m, 2h, 7d".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    if count == 0 {
        return Err(wrong());
    }
    Ok(i64::from(count) * seconds)
}

/// How long a pause may be: as long as the local door takes it for, ten years.
pub(crate) fn pause(text: &str) -> Result<i64, String> {
    let seconds = duration(text)?;
    if seconds > 10 * 365 * 86_400 {
        return Err("a pause is at most ten years long; without --for it has no end".to_owned());
    }
    Ok(seconds)
}

/// The beginning of a key's fingerprint, in groups that people can compare: nobody makes another key for
/// which these 128 bits are the same.
pub(crate) fn fingerprint(hex: &str) -> String {
    let groups: Vec<&str> =
        hex.as_bytes().chunks(4).filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups[..groups.len().min(8)].join(" ")
}

/// A harness as people call it.
pub(crate) fn harness(name: &str) -> String {
    teamlamp_wire::words::harness(name).map_or_else(|| visible(name), str::to_owned)
}

/// A turn's sign and how it is drawn.
pub(crate) fn turn_sign(turn: Turn) -> (&'static str, Style) {
    match turn {
        Turn::Working => ("◉", Style::Working),
        Turn::WaitingApproval | Turn::WaitingInput => ("◆", Style::Waiting),
        Turn::Idle => ("○", Style::Quiet),
        Turn::Ended => ("–", Style::Quiet),
        Turn::Unknown => ("?", Style::Quiet),
    }
}

/// A turn in words.
pub(crate) fn turn(turn: Turn) -> &'static str {
    match turn {
        Turn::Working => "works",
        Turn::WaitingApproval => "waits for approval",
        Turn::WaitingInput => "asks a question",
        Turn::Idle => "idle",
        Turn::Ended => "ended",
        Turn::Unknown => "unknown",
    }
}

/// A machine's sign and how it is drawn.
pub(crate) fn machine_sign(connection: Connection) -> (&'static str, Style) {
    match connection {
        Connection::Online => ("■", Style::Up),
        Connection::Unlinked => ("◧", Style::Quiet),
        Connection::Offline => ("□", Style::Quiet),
    }
}

/// How a machine is, in words; `clock` tells a moment of today.
pub(crate) fn presence(machine: &Machine, clock: impl Fn(Millis) -> String) -> String {
    match (machine.connection, &machine.away, machine.last_seen_at) {
        (Connection::Online, ..) => "online".into(),
        (Connection::Unlinked, ..) => "no live link".into(),
        (Connection::Offline, _, None) => "starting".into(),
        (Connection::Offline, Some(away), _) => {
            let since = clock(away.since);
            match away.reason {
                AwayReason::Asleep => format!("asleep since {since}"),
                AwayReason::Shutdown => format!("quit at {since}"),
                AwayReason::Paused => format!("paused since {since}"),
            }
        }
        (Connection::Offline, None, Some(at)) => format!("offline since {}", clock(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_typed() {
        for (text, seconds) in [("90s", 90), ("30m", 1_800), ("2h", 7_200), ("7d", 604_800)] {
            assert_eq!(duration(text), Ok(seconds));
        }
        for bad in ["", "h", "2", "0m", "-1h", "1.5h", "2w", "99999999999d", "2é"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_machine_that_is_away_says_why_and_since_when() {
        let mut machine: Machine = serde_json::from_str(
            r#"{"id":"mach_1","name":"m","custodian_id":"prin_1","enrollment":"active","connection":"offline",
            "last_seen_at":null,"incarnation_id":null,"host_key_id":null,"revision":1,"away":null}"#,
        )
        .unwrap();
        let told = |machine: &Machine| presence(machine, |at| format!("t{at}"));
        assert_eq!(told(&machine), "starting");
        machine.last_seen_at = Some(7);
        assert_eq!(told(&machine), "offline since t7");
        machine.away = Some(teamlamp_wire::machine::Away { reason: AwayReason::Asleep, since: 9 });
        assert_eq!(told(&machine), "asleep since t9");
        machine.connection = Connection::Online;
        assert_eq!(told(&machine), "online");
    }
}
