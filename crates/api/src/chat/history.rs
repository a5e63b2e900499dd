//! A session's conversation as the client keeps it: each turn told by the same fold as its stream.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};
use steadfast_core::content::{CallInput, ReplyPart, Stored};
use steadfast_core::event::Event;
use steadfast_core::id::{Epoch, Seq, SessionKey, Timestamp, TurnId};
use steadfast_core::transcript::{Item, ItemBody};

use super::chunk::{Chunk, harmless};
use super::content;
use super::fold::{Fold, Turn, outcome};
use super::inline::{self, Budget};
use super::message::Message;
use crate::backend::Backend;
use crate::error::Problem;
use crate::messages::load;

/// Turns kept, the newest.
const TURNS_MAX: usize = 100;
/// Records read at once.
const RECORDS_MAX: usize = 64;

/// The newest part of a conversation.
#[derive(Debug, Default)]
pub(crate) struct History {
    turns: VecDeque<Told>,
    /// Messages that wait for their turn.
    pending: BTreeMap<TurnId, (Timestamp, Event)>,
    /// Older turns were left out.
    pub(crate) has_earlier: bool,
}

#[derive(Debug)]
struct Told {
    /// Number of the event that put it here.
    seq: Seq,
    user: Option<Value>,
    /// `None`: it was copied from another session.
    fold: Option<Fold>,
    answer: Message,
}

impl History {
    /// Reads it up to an event.
    pub(crate) async fn read(
        backend: &Backend,
        key: &SessionKey,
        until: Seq,
    ) -> Result<Self, Problem> {
        let mut history = Self::default();
        let mut blobs = Budget::default();
        let mut cursor = Seq(0);
        while cursor < until {
            let records = backend.records(key, cursor, RECORDS_MAX).await?;
            if records.is_empty() {
                break;
            }
            for record in records {
                let mut seq = record.first_seq;
                for entry in &record.entries {
                    for event in &entry.events {
                        if seq > cursor && seq <= until {
                            history.copy(backend, key, seq, event).await?;
                            let inlined = blobs.inlined(backend, key, event).await?;
                            let event = inlined.as_ref().unwrap_or(event);
                            history.event(seq, entry.at, record.epoch, event);
                        }
                        seq = seq.next();
                    }
                }
                cursor = cursor.max(record.last_seq());
            }
        }
        Ok(history)
    }

    /// The messages, oldest first.
    pub(crate) fn into_messages(self) -> Vec<Value> {
        let mut messages = Vec::new();
        for mut told in self.turns {
            if let Some(fold) = &mut told.fold {
                fold.caught_up();
                if fold.waits_for_people() {
                    fold.pause();
                }
                fold.take()
                    .into_iter()
                    .for_each(|chunk| told.answer.take(chunk));
            }
            messages.extend(told.user);
            messages.extend(told.answer.into_json());
        }
        // Those that wait come last, in the order in which they came.
        messages.extend(self.pending.values().filter_map(|(_, event)| user(event)));
        messages
    }

    fn event(&mut self, seq: Seq, at: Timestamp, epoch: Epoch, event: &Event) {
        match event {
            Event::TurnQueued { .. } => {
                self.pending.insert(TurnId(seq), (at, event.clone()));
            }
            Event::TurnStarted { turn } => self.started(seq, *turn),
            Event::MessageJoined { queued, .. } => {
                self.pending.remove(queued);
            }
            Event::TurnEnded { turn, .. } => {
                self.pending.remove(turn);
            }
            Event::TranscriptRewound { to, .. } => {
                while self.turns.back().is_some_and(|told| told.seq >= *to) {
                    self.turns.pop_back();
                }
            }
            Event::SessionDeleted => *self = Self::default(),
            _ => {}
        }
        for told in &mut self.turns {
            let open = told.fold.as_mut().filter(|fold| !fold.has_ended());
            if let Some(fold) = open {
                fold.event(seq, at, epoch, event);
                fold.take()
                    .into_iter()
                    .for_each(|chunk| told.answer.take(chunk));
            }
        }
    }

    fn started(&mut self, seq: Seq, turn: TurnId) {
        let queued = self.pending.remove(&turn);
        let mut fold = Fold::new(Turn::Known(turn), 0);
        // What may join it waits already.
        for (later, (at, event)) in self.pending.range(turn..) {
            fold.event(later.0, *at, Epoch(0), event);
        }
        self.push(Told {
            seq,
            user: queued.and_then(|(_, event)| user(&event)),
            fold: Some(fold),
            answer: Message::default(),
        });
    }

    fn push(&mut self, told: Told) {
        self.turns.push_back(told);
        if self.turns.len() > TURNS_MAX {
            self.turns.pop_front();
            self.has_earlier = true;
        }
    }

    async fn copy(
        &mut self,
        backend: &Backend,
        key: &SessionKey,
        seq: Seq,
        event: &Event,
    ) -> Result<(), Problem> {
        let Event::TranscriptForked { origin } = event else {
            return Ok(());
        };
        for packed in &origin.transcript {
            let items: Vec<Item> = load::read(backend, key, packed.blob).await?;
            for item in items.iter().filter(|item| item.seq <= packed.last_seq) {
                self.copied(seq, item);
            }
        }
        Ok(())
    }

    /// Adds an item of another session's transcript, as far as it can be told without its events.
    fn copied(&mut self, seq: Seq, item: &Item) {
        match &item.body {
            ItemBody::User {
                message, content, ..
            } => self.push(Told {
                seq,
                user: Some(json!({
                    "id": message, "role": "user", "parts": content::shown(content),
                })),
                fold: None,
                answer: Message::default(),
            }),
            ItemBody::Reply { parts, calls, .. } => {
                self.tell(Chunk::Start {
                    message_id: format!("copied-{}", item.seq),
                    message_metadata: Value::Null,
                });
                self.tell(Chunk::StartStep);
                for part in parts.iter().filter_map(Stored::inline) {
                    if let ReplyPart::Text { text, .. } = part {
                        let (id, delta) = (String::new(), text.clone());
                        self.tell(Chunk::TextStart { id: id.clone() });
                        self.tell(Chunk::TextDelta {
                            id: id.clone(),
                            delta,
                        });
                        self.tell(Chunk::TextEnd { id });
                    }
                }
                for call in calls {
                    self.tell(Chunk::ToolInputAvailable {
                        tool_call_id: format!("copied-{}", call.id),
                        tool_name: call.tool.clone(),
                        input: match &*call.input {
                            Stored::Inline(CallInput::Json(value)) => harmless(value.clone()),
                            Stored::Inline(CallInput::Malformed { text, .. }) => json!(text),
                            blob @ Stored::Blob(_) => inline::missing(blob),
                        },
                        tool_metadata: Value::Null,
                        provider_executed: false,
                    });
                }
            }
            ItemBody::Results { results, .. } => {
                for result in results {
                    let id = format!("copied-{}", result.id);
                    let chunk = match outcome(&result.output) {
                        Ok(output) => Chunk::ToolOutputAvailable {
                            tool_call_id: id,
                            output,
                            preliminary: false,
                            provider_executed: false,
                        },
                        Err(error_text) => Chunk::ToolOutputError {
                            tool_call_id: id,
                            error_text,
                        },
                    };
                    self.tell(chunk);
                }
            }
            ItemBody::Summary { .. } | ItemBody::Note { .. } | ItemBody::Packed { .. } => {}
        }
    }

    fn tell(&mut self, chunk: Chunk) {
        if let Some(told) = self.turns.back_mut() {
            told.answer.take(chunk);
        }
    }
}

/// The user's message of a `TurnQueued`.
fn user(event: &Event) -> Option<Value> {
    let Event::TurnQueued {
        message,
        content,
        options,
    } = event
    else {
        return None;
    };
    let mut user = json!({"id": message, "role": "user", "parts": content::shown(content)});
    if let (Some(user), false) = (user.as_object_mut(), options.metadata.is_null()) {
        user.insert("metadata".into(), options.metadata.clone());
    }
    Some(user)
}
