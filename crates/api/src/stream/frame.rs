//! Frames as they stand on the wire, as server-sent events.

use std::io::Write;

use bytes::Bytes;
use serde::Serialize;
use steadfast_core::event::Event;
use steadfast_core::id::{Epoch, Seq, Timestamp, TurnId};
use steadfast_protocol::live::Delta;
use steadfast_protocol::record::Record;

use crate::error::Problem;

/// A comment: keeps a quiet connection open.
pub(crate) const COMMENT: Bytes = Bytes::from_static(b": still here\n\n");

/// First bytes of a stream: how long a client waits before it comes back.
pub(crate) const OPENING: Bytes = Bytes::from_static(b"retry: 1000\n\n");

/// The committed events of one Record.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) first_seq: Seq,
    pub(crate) last_seq: Seq,
    /// Whether the session is being removed from here on.
    pub(crate) ends_session: bool,
    bytes: Bytes,
    /// Where each event begins.
    starts: Vec<usize>,
}

impl Committed {
    /// Encodes a Record.
    pub(crate) fn of(record: &Record) -> Result<Self, serde_json::Error> {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        let mut seq = record.first_seq;
        let mut ends_session = false;
        for entry in &record.entries {
            for event in &entry.events {
                starts.push(bytes.len());
                write_event(&mut bytes, seq, entry.at, record.epoch, event)?;
                ends_session |= matches!(event, Event::DeletionStarted | Event::SessionDeleted);
                seq = seq.next();
            }
        }
        Ok(Self {
            first_seq: record.first_seq,
            last_seq: Seq(seq.0.saturating_sub(1)),
            ends_session,
            bytes: bytes.into(),
            starts,
        })
    }

    /// How many bytes it holds.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The events after `cursor`; `None`: there is none.
    pub(crate) fn after(&self, cursor: Seq) -> Option<Bytes> {
        let skipped = cursor.next().0.saturating_sub(self.first_seq.0);
        let start = *self.starts.get(usize::try_from(skipped).ok()?)?;
        Some(self.bytes.slice(start..))
    }
}

fn write_event(
    out: &mut Vec<u8>,
    seq: Seq,
    at: Timestamp,
    epoch: Epoch,
    event: &Event,
) -> Result<(), serde_json::Error> {
    let data = event_json(seq, at, epoch, event)?;
    let name = event_name(&data.event);
    // Writing to memory cannot fail.
    let _ = write!(out, "id: {seq}\nevent: {name}\ndata: {}", data.head);
    out.extend_from_slice(data.event.get(1..).unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\n\n");
    Ok(())
}

struct EventJson {
    /// The fields that every event has, from the opening brace to a comma.
    head: String,
    /// The event as an object of its own.
    event: String,
}

fn event_json(
    seq: Seq,
    at: Timestamp,
    epoch: Epoch,
    event: &Event,
) -> Result<EventJson, serde_json::Error> {
    let head = match event {
        // It says its epoch itself.
        Event::Activated { .. } => format!(r#"{{"seq":{seq},"at":{at},"#),
        _ => format!(r#"{{"seq":{seq},"at":{at},"epoch":{epoch},"#),
    };
    Ok(EventJson {
        head,
        event: serde_json::to_string(event)?,
    })
}

/// The tag of an event, which is the first field of its object.
fn event_name(json: &str) -> &str {
    json.strip_prefix(r#"{"type":""#)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or("message")
}

/// One event as a JSON object, as in the stream, and how many bytes it has there.
pub(crate) fn event_value(
    seq: Seq,
    at: Timestamp,
    epoch: Epoch,
    event: &Event,
) -> Result<(serde_json::Value, usize), serde_json::Error> {
    let data = event_json(seq, at, epoch, event)?;
    let rest = data.event.get(1..).unwrap_or_default();
    let text = format!("{}{rest}", data.head);
    Ok((serde_json::from_str(&text)?, text.len()))
}

/// A piece of the open step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct LivePiece<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) turn: TurnId,
    pub(crate) step: u32,
    pub(crate) attempt: u32,
    /// Number of the first frame in this piece, when it holds several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_n: Option<u64>,
    pub(crate) n: u64,
    pub(crate) delta: &'a Delta,
}

impl LivePiece<'_> {
    /// Its frame.
    pub(crate) fn frame(&self) -> Result<Bytes, serde_json::Error> {
        let data = serde_json::to_string(self)?;
        Ok(format!("event: delta\ndata: {data}\n\n").into())
    }
}

/// All committed up to `seq` was given; what follows of the open step begins at its start.
pub(crate) fn caught_up(seq: Seq) -> Bytes {
    format!("event: caught_up\ndata: {{\"seq\":{seq}}}\n\n").into()
}

/// Last frame of a stream that cannot go on.
pub(crate) fn error(problem: &Problem) -> Bytes {
    let data = serde_json::to_string(&problem.body()).unwrap_or_default();
    format!("event: error\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use steadfast_core::effect::Wake;
    use steadfast_core::id::NodeId;
    use steadfast_core::input::Policy;
    use steadfast_protocol::record::{Cause, Entry, RecordHash};

    use super::*;

    fn record() -> Record {
        let entry = |at, events| Entry {
            cause: Cause::Timer,
            at: Timestamp(at),
            events,
        };
        let turn = TurnId(Seq(4));
        Record {
            first_seq: Seq(5),
            epoch: Epoch(2),
            prev: RecordHash::default(),
            entries: vec![
                entry(
                    1_000,
                    vec![
                        Event::Activated {
                            node: NodeId::new("n1").unwrap(),
                            epoch: Epoch(2),
                            policy: Policy::default(),
                        },
                        Event::TurnStarted { turn },
                    ],
                ),
                entry(2_000, vec![Event::Released { wake: Wake::Never }]),
            ],
        }
    }

    fn text(bytes: &Bytes) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn each_event_is_one_frame_with_its_number() {
        let committed = Committed::of(&record()).unwrap();
        assert_eq!((committed.first_seq, committed.last_seq), (Seq(5), Seq(7)));
        assert!(!committed.ends_session);
        insta::assert_snapshot!(text(&committed.after(Seq(0)).unwrap()), @r#"
        id: 5
        event: activated
        data: {"seq":5,"at":1000,"type":"activated","node":"n1","epoch":2,"policy":{"durability":"on","steps_max":100,"model_attempts_max":5,"queue_max":64,"turn_calls_max":null,"turn_tokens_max":null,"session_tokens_max":null,"turn_wall_ms_max":null,"compact_at_tokens":null}}

        id: 6
        event: turn_started
        data: {"seq":6,"at":1000,"epoch":2,"type":"turn_started","turn":4}

        id: 7
        event: released
        data: {"seq":7,"at":2000,"epoch":2,"type":"released","wake":"never"}
        "#);
    }

    #[test]
    fn a_cursor_cuts_between_events() {
        let committed = Committed::of(&record()).unwrap();
        let all = committed.after(Seq(4)).unwrap();
        assert!(text(&all).starts_with("id: 5\n"));
        assert!(text(&committed.after(Seq(5)).unwrap()).starts_with("id: 6\n"));
        insta::assert_snapshot!(text(&committed.after(Seq(6)).unwrap()), @r#"
        id: 7
        event: released
        data: {"seq":7,"at":2000,"epoch":2,"type":"released","wake":"never"}
        "#);
        assert_eq!(committed.after(Seq(7)), None);
        assert_eq!(committed.after(Seq(u64::MAX)), None);
    }

    #[test]
    fn values_equal_what_the_stream_says() {
        let record = record();
        let event = &record.entries[0].events[0];
        let (value, size_bytes) = event_value(Seq(5), Timestamp(1_000), Epoch(2), event).unwrap();
        let committed = Committed::of(&record).unwrap();
        let frames = committed.after(Seq(0)).unwrap();
        let data = text(&frames).lines().nth(2).unwrap();
        let sent: serde_json::Value =
            serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(sent, value);
        assert_eq!(data.len(), "data: ".len() + size_bytes);
    }
}
