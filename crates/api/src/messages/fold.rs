//! The fold: events in, messages out. Pure; what stands in blobs stays a reference.

mod calls;
mod draft;
mod place;
#[cfg(test)]
pub(super) mod samples;

use std::cmp::Ordering::Less;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use imbl::Vector;
use serde_json::Value;
use steadfast_core::content::{Content, ReplyPart, Stored};
use steadfast_core::event::{Event, RecordedCall, TurnOutcome};
use steadfast_core::id::{CallId, Epoch, Seq, Timestamp, TurnId};
use steadfast_core::transcript::Item;

use super::view::{Role, State};
use crate::session_view::outcome as outcome_of;
use draft::stored_bytes;
pub(super) use draft::{Draft, DraftBody, DraftPart, DraftTool};
use place::{Place, Span};

/// The conversation so far. Cloning one that keeps no bodies is cheap.
#[derive(Clone)]
pub(crate) struct Fold {
    /// Bodies of the messages at these positions are kept.
    keep: Range<usize>,
    places: Vector<Place>,
    /// The messages that are kept, by position.
    drafts: BTreeMap<usize, Draft>,
    /// Messages that wait for their turn.
    pending: BTreeMap<TurnId, Arc<Pending>>,
}

struct Pending {
    message: String,
    content: Content,
    metadata: Value,
}

impl Fold {
    /// An empty conversation that keeps the bodies of the messages at these positions.
    pub(crate) fn keeping(keep: Range<usize>) -> Self {
        Self {
            keep,
            places: Vector::new(),
            drafts: BTreeMap::new(),
            pending: BTreeMap::new(),
        }
    }

    /// What must be read to see the messages at these positions; `None`: there are none.
    pub(crate) fn span(&self, range: &Range<usize>) -> Option<Span> {
        place::span(&self.places, range)
    }

    /// The conversation as it stood before a span, keeping the bodies of the messages at these
    /// positions: what comes before `start` is given to [`Fold::arrival`], what follows to
    /// [`Fold::event`].
    pub(crate) fn before(&self, span: &Span, keep: Range<usize>) -> Self {
        Self {
            keep,
            places: self.places.take(span.before),
            drafts: BTreeMap::new(),
            pending: BTreeMap::new(),
        }
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// About how many bytes the parts of each message have, in order.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.places.iter().map(|place| place.size_bytes).collect()
    }

    /// The messages that were kept, in order.
    pub(crate) fn into_kept(self) -> Vec<Draft> {
        self.drafts.into_values().collect()
    }

    /// Folds one event.
    pub(crate) fn event(&mut self, seq: Seq, at: Timestamp, epoch: Epoch, event: &Event) {
        match event {
            Event::TurnQueued { .. }
            | Event::TurnStarted { .. }
            | Event::MessageJoined { .. }
            | Event::TurnEnded { .. }
            | Event::TranscriptRewound { .. } => self.turn_event(seq, at, event),
            Event::ModelReplied {
                turn, parts, calls, ..
            } => self.replied(seq, at, epoch, *turn, parts, calls),
            Event::TranscriptCompacted { summary, .. } => {
                let summary = DraftBody::Summary(summary.clone());
                self.push(Role::System, None, seq, at, State::Completed);
                self.add_part(seq, summary);
            }
            Event::SessionDeleted => {
                self.places.clear();
                self.drafts.clear();
                self.pending.clear();
            }
            _ => self.call_event(seq, event),
        }
    }

    /// Notes a message that arrived before the part of the log that is folded.
    pub(crate) fn arrival(&mut self, seq: Seq, event: &Event) {
        if let Event::TurnQueued {
            message,
            content,
            options,
        } = event
        {
            let pending = Pending {
                message: message.to_string(),
                content: content.clone(),
                metadata: options.metadata.clone(),
            };
            self.pending.insert(TurnId(seq), Arc::new(pending));
        }
    }

    /// Adds an item of the transcript that the event `seq` copied from another session.
    pub(crate) fn copied(&mut self, seq: Seq, at: Timestamp, item: &Item) {
        super::packed::add(self, seq, at, item);
    }

    fn turn_event(&mut self, seq: Seq, at: Timestamp, event: &Event) {
        match event {
            Event::TurnQueued { .. } => self.arrival(seq, event),
            Event::TurnStarted { turn } => self.shown(seq, at, *turn, *turn),
            Event::MessageJoined { queued, into } => self.shown(seq, at, *queued, *into),
            Event::TurnEnded { turn, outcome } => {
                self.pending.remove(turn);
                self.ended(seq, *turn, outcome);
            }
            Event::TranscriptRewound { to, .. } => self.rewind(seq, *to),
            _ => {}
        }
    }

    /// A message that waited is part of the conversation from here on.
    fn shown(&mut self, seq: Seq, at: Timestamp, queued: TurnId, turn: TurnId) {
        let Some(pending) = self.pending.remove(&queued) else {
            return;
        };
        self.push(Role::User, Some(turn), seq, at, State::Running);
        if let Some(place) = self.places.back_mut() {
            place.from = queued.0;
        }
        if let Some(draft) = self.newest_draft() {
            draft.id.clone_from(&pending.message);
            draft.metadata.clone_from(&pending.metadata);
        }
        for part in &pending.content {
            self.add_part(seq, DraftBody::Content(part.clone()));
        }
    }

    fn ended(&mut self, seq: Seq, turn: TurnId, outcome: &TurnOutcome) {
        let (state, error) = outcome_of(outcome);
        // Turns are serial, so a turn's messages are the newest; a compaction may stand between.
        for index in (0..self.places.len()).rev() {
            let Some(place) = self.places.get_mut(index) else {
                return;
            };
            match place.turn {
                None => continue,
                Some(other) if other != turn => return,
                Some(_) => place.last = seq,
            }
            if let Some(draft) = self.drafts.get_mut(&index) {
                draft.state = state;
                draft.error.clone_from(&error);
            }
        }
    }

    fn replied(
        &mut self,
        seq: Seq,
        at: Timestamp,
        epoch: Epoch,
        turn: TurnId,
        parts: &[Stored<ReplyPart>],
        calls: &[RecordedCall],
    ) {
        self.assistant(seq, at, Some(turn), State::Running);
        let mut calls: BTreeMap<u16, DraftTool> = (0_u16..)
            .zip(calls)
            .map(|(index, call)| {
                let id = CallId {
                    epoch,
                    reply: seq,
                    index,
                };
                (index, calls::draft_tool(id, call))
            })
            .collect();
        for part in parts {
            match part {
                Stored::Inline(ReplyPart::Call { index, .. }) => {
                    if let Some(tool) = calls.remove(index) {
                        self.add_part(seq, DraftBody::Tool(Box::new(tool)));
                    }
                }
                _ => self.add_part(seq, DraftBody::Reply(part.clone())),
            }
        }
        // A reply need not say where among its parts a call stands.
        for tool in calls.into_values() {
            self.add_part(seq, DraftBody::Tool(Box::new(tool)));
        }
    }

    /// Goes on with the agent's message, or begins one after a user's.
    pub(super) fn assistant(
        &mut self,
        seq: Seq,
        at: Timestamp,
        turn: Option<TurnId>,
        state: State,
    ) {
        let goes_on = self
            .places
            .last()
            .is_some_and(|place| place.role == Role::Assistant && place.turn == turn);
        if !goes_on {
            self.push(Role::Assistant, turn, seq, at, state);
        }
    }

    fn rewind(&mut self, seq: Seq, to: Seq) {
        while self.places.back().is_some_and(|place| place.seq >= to) {
            self.places.pop_back();
            self.drafts.remove(&self.places.len());
        }
        if let Some(place) = self.places.back_mut() {
            place.last = seq;
        }
        if let Some(draft) = self.newest_draft() {
            draft.parts.retain(|part| part.seq < to);
        }
    }

    pub(super) fn push(
        &mut self,
        role: Role,
        turn: Option<TurnId>,
        seq: Seq,
        at: Timestamp,
        state: State,
    ) {
        let index = self.places.len();
        if self.keep.contains(&index) {
            let draft = Draft {
                id: match role {
                    Role::System => format!("system-{seq}"),
                    Role::User | Role::Assistant => format!("assistant-{seq}"),
                },
                index,
                role,
                turn,
                seq,
                at,
                state,
                error: None,
                parts: Vec::new(),
                metadata: Value::Null,
            };
            self.drafts.insert(index, draft);
        }
        self.places.push_back(Place {
            seq,
            from: seq,
            last: seq,
            turn,
            role,
            size_bytes: 0,
        });
    }

    pub(super) fn newest_draft(&mut self) -> Option<&mut Draft> {
        let newest = self.places.len().checked_sub(1)?;
        self.drafts.get_mut(&newest)
    }

    pub(super) fn add_part(&mut self, seq: Seq, body: DraftBody) {
        let Some(place) = self.places.back_mut() else {
            return;
        };
        place.size_bytes += body.size_bytes();
        place.last = seq;
        if let Some(draft) = self.newest_draft() {
            draft.parts.push(DraftPart { seq, body });
        }
    }

    /// Counts bytes that belong to a message of the open turn.
    fn weigh(&mut self, size_bytes: usize) {
        if let Some(place) = self.places.back_mut() {
            place.size_bytes += size_bytes;
        }
    }

    /// Notes that an event is about a call of the reply `reply`, wherever its message stands.
    fn touch(&mut self, seq: Seq, reply: Seq) {
        let after = self
            .places
            .binary_search_by(|place| place.seq.cmp(&reply).then(Less));
        let after = after.unwrap_or_else(|position| position);
        let index = after.checked_sub(1);
        if let Some(place) = index.and_then(|index| self.places.get_mut(index)) {
            place.last = seq;
        }
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::content::Usage;
    use steadfast_core::input::{Gate, Place};

    use super::samples::{folded, print, shown};
    use super::*;
    use crate::event_samples::{
        call, ended, queued, recorded, reply, settled, started, text_part, turn,
    };

    #[test]
    fn a_turn_is_a_message_and_an_answer() {
        insta::assert_snapshot!(shown(&[
            queued("m1", "weather?"),
            started(1),
            reply(
                1,
                vec![
                    text_part("let me see"),
                    Stored::Inline(ReplyPart::Call { index: 0, native: None }),
                    text_part("and"),
                ],
                vec![
                    recorded("get", Gate::Open, Place::Local),
                    recorded("ask", Gate::Open, Place::Client),
                ],
            ),
            Event::CallStarted { call: call(3, 0), attempt: 1, deadline: Timestamp(9) },
            settled(call(3, 0), "sunny"),
            reply(1, vec![text_part("sunny it is")], vec![]),
            ended(1),
        ]), @r#"
        0 m1 User turn 1 Completed
            weather?
        1 assistant-3 Assistant turn 1 Completed
            let me see
            get 1-3-0 Settled Some(Done) Some(Inline(Text { text: "sunny" })) approval None late None
            and
            ask 1-3-1 AwaitingResult None None approval None late None
            sunny it is
        "#);
    }

    #[test]
    fn a_message_that_joins_splits_the_answer() {
        insta::assert_snapshot!(shown(&[
            queued("m1", "one"),
            started(1),
            reply(1, vec![text_part("a")], vec![]),
            queued("m2", "two"),
            Event::MessageJoined { queued: turn(4), into: turn(1) },
            reply(1, vec![text_part("b")], vec![]),
            ended(1),
        ]), @"
        0 m1 User turn 1 Completed
            one
        1 assistant-3 Assistant turn 1 Completed
            a
        2 m2 User turn 1 Completed
            two
        3 assistant-6 Assistant turn 1 Completed
            b
        ");
    }

    #[test]
    fn a_rewind_takes_away_all_from_the_replaced_message_on() {
        insta::assert_snapshot!(shown(&[
            queued("m1", "one"),
            started(1),
            reply(1, vec![text_part("a")], vec![]),
            ended(1),
            queued("m2", "two"),
            started(5),
            reply(5, vec![text_part("b")], vec![]),
            ended(5),
            Event::TranscriptRewound { to: Seq(6), note: None },
            queued("m3", "three"),
            started(10),
            reply(10, vec![text_part("c")], vec![]),
            ended(10),
        ]), @"
        0 m1 User turn 1 Completed
            one
        1 assistant-3 Assistant turn 1 Completed
            a
        2 m3 User turn 10 Completed
            three
        3 assistant-12 Assistant turn 10 Completed
            c
        ");
    }

    #[test]
    fn a_message_that_is_withdrawn_is_not_shown() {
        let withdrawn = Event::TurnEnded {
            turn: turn(1),
            outcome: TurnOutcome::Cancelled,
        };
        assert_eq!(shown(&[queued("m1", "one"), withdrawn]), "");
    }

    #[test]
    fn a_compaction_is_shown_and_hides_nothing() {
        insta::assert_snapshot!(shown(&[
            queued("m1", "one"),
            started(1),
            reply(1, vec![text_part("a")], vec![]),
            ended(1),
            Event::TranscriptCompacted {
                number: 1,
                through: Seq(4),
                summary: Stored::Inline("it began".into()),
                usage: Usage::default(),
            },
            queued("m2", "two"),
            started(6),
            Event::TurnEnded {
                turn: turn(6),
                outcome: TurnOutcome::Failed { code: "budget".into(), message: "spent".into() },
            },
        ]), @"
        0 m1 User turn 1 Completed
            one
        1 assistant-3 Assistant turn 1 Completed
            a
        2 system-5 System turn - Completed
            summary: it began
        3 m2 User turn 6 Failed
            two
        ");
    }

    #[test]
    fn only_the_page_keeps_its_bodies() {
        let events: Vec<Event> = (0..4)
            .flat_map(|index| {
                let seq = index * 4 + 1;
                let text = format!("message {index}");
                [
                    queued(&format!("m{index}"), &text),
                    started(seq),
                    reply(seq, vec![text_part("answer")], vec![]),
                    ended(seq),
                ]
            })
            .collect();
        let fold = folded(2..4, &events);
        assert_eq!(fold.sizes().len(), 8);
        insta::assert_snapshot!(print(fold), @"
        2 m1 User turn 5 Completed
            message 1
        3 assistant-7 Assistant turn 5 Completed
            answer
        ");
    }
}
