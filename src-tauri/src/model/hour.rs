//! A session's last hour as points, from which the window draws its strip: pure, in the order of time.

use teamlamp_wire::Millis;
use teamlamp_wire::session::Turn;
use teamlamp_wire::window::{HOUR_MS, HOUR_POINTS_MAX, TurnPoint};

/// Adds a session's present turn to its points, which stay in the order of time whatever the clock that
/// said `at`. A turn that is the last one already adds nothing.
pub(crate) fn note(points: &mut Vec<TurnPoint>, turn: Turn, at: Millis) {
    match points.last() {
        Some(last) if last.turn == turn => {}
        last => points.push(TurnPoint { at: last.map_or(at, |l| l.at.max(at)), turn }),
    }
}

/// Puts points of the past before those that are there already.
pub(crate) fn prepend(points: &mut Vec<TurnPoint>, mut past: Vec<TurnPoint>) {
    if let Some(first) = points.first().copied() {
        past.retain(|point| point.at < first.at);
        if past.last().is_some_and(|last| last.turn == first.turn) {
            points.remove(0);
        }
    }
    points.splice(0..0, past);
}

/// Drops what the strip does not show: all but the last point of before the hour, and the oldest where
/// there are too many.
pub(crate) fn trim(points: &mut Vec<TurnPoint>, now: Millis) {
    let begin = now - HOUR_MS;
    let older = points.iter().take_while(|point| point.at <= begin).count().saturating_sub(1);
    points.drain(..older.max(points.len().saturating_sub(HOUR_POINTS_MAX)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(points: &[TurnPoint]) -> Vec<(i64, Turn)> {
        points.iter().map(|p| (p.at, p.turn)).collect()
    }

    #[test]
    fn a_turn_is_noted_once_and_never_out_of_order() {
        let mut points = Vec::new();
        for (turn, moment) in [(Turn::Idle, 10), (Turn::Working, 20), (Turn::Working, 25), (Turn::Idle, 15)] {
            note(&mut points, turn, moment);
        }
        assert_eq!(at(&points), [(10, Turn::Idle), (20, Turn::Working), (20, Turn::Idle)]);
    }

    #[test]
    fn the_past_goes_before_and_tells_nothing_twice() {
        let point = |at, turn| TurnPoint { at, turn };
        let mut points = vec![point(500, Turn::Working), point(900, Turn::Idle)];
        prepend(&mut points, vec![point(100, Turn::Idle), point(400, Turn::Working), point(900, Turn::Idle)]);
        assert_eq!(at(&points), [(100, Turn::Idle), (400, Turn::Working), (900, Turn::Idle)]);
    }

    #[test]
    fn the_turn_that_the_hour_began_with_stays_and_older_ones_go() {
        let mut points = Vec::new();
        note(&mut points, Turn::Idle, 1_000);
        note(&mut points, Turn::Working, 2_000);
        note(&mut points, Turn::Idle, HOUR_MS);
        trim(&mut points, HOUR_MS + 5_000);
        assert_eq!(at(&points), [(2_000, Turn::Working), (HOUR_MS, Turn::Idle)]);
    }

    #[test]
    fn a_restless_session_has_no_more_points_than_the_window_takes() {
        let mut points = Vec::new();
        for n in 0..500 {
            note(&mut points, if n % 2 == 0 { Turn::Working } else { Turn::Idle }, n);
        }
        trim(&mut points, 1_000);
        assert_eq!((points.len(), points.last().map(|p| p.at)), (HOUR_POINTS_MAX, Some(499)));
    }
}
