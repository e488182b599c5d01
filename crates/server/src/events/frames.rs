//! Frames as JSON text, put together around an event's own ready JSON.

use crate::store::events::Stored;
use teamlamp_wire::frame::Frame;

/// `event`; a cursor needs no escaping.
pub fn event(event: &Stored, cursor: &str) -> String {
    format!(r#"{{"type":"event","sequence":{},"cursor":"{cursor}","data":{}}}"#, event.sequence, event.json)
}

/// `snapshot_item`.
pub fn snapshot_item(event: &Stored) -> String {
    format!(r#"{{"type":"snapshot_item","sequence":{},"data":{}}}"#, event.sequence, event.json)
}

/// Any other frame.
pub fn other(frame: &Frame) -> String {
    serde_json::to_string(frame).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_frames_of_the_wire() {
        let json = r#"{"id":"evt_1","org":"team_1","at":1,"actor":{"principal_id":null,"kind":"system","name":"T"},
            "kind":"team.created","resource":{"kind":"team","id":"team_1"},"data":{}}"#;
        let stored = Stored {
            sequence: 7,
            kind: "team.created".into(),
            source_id: None,
            only_for: None,
            json: json.into(),
        };
        let data = stored.event().unwrap();
        let read = |text: &str| serde_json::from_str::<Frame>(text).unwrap();
        let expected = Frame::Event { sequence: 7, cursor: "abc".into(), data: data.clone() };
        assert_eq!(read(&event(&stored, "abc")), expected);
        assert_eq!(read(&snapshot_item(&stored)), Frame::SnapshotItem { sequence: 7, data });
        assert_eq!(read(&other(&Frame::SnapshotBegin)), Frame::SnapshotBegin);
    }
}
