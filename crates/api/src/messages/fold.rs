//! The fold: events in, messages out. Pure; what stands in blobs stays a reference.

mod calls;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use serde_json::Value;
use steadfast_core::content::{
    CallInput, CallOutput, Content, ContentPart, ReplyPart, Stored, ToolOutput,
};
use steadfast_core::event::{Event, RecordedCall, Settlement, TurnOutcome};
use steadfast_core::id::{CallId, Epoch, Seq, Timestamp, TurnId};
use steadfast_core::input::Place;
use steadfast_core::transcript::Item;

use super::view::{Failure, Role, ShownApproval, State, ToolState};
use crate::session_view::outcome as outcome_of;

/// The conversation so far.
pub(crate) struct Fold {
    /// Bodies of the messages at these positions are kept.
    keep: Range<usize>,
    places: Vec<PlaceOf>,
    /// Messages that wait for their turn.
    pending: BTreeMap<TurnId, Pending>,
}

/// A message's place in the conversation, and the message if it is kept.
struct PlaceOf {
    seq: Seq,
    turn: Option<TurnId>,
    role: Role,
    /// About how many bytes its parts have.
    size_bytes: usize,
    draft: Option<Draft>,
}

struct Pending {
    message: String,
    content: Content,
    metadata: Value,
}

/// A message whose blobs are not loaded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    pub(super) id: String,
    /// Position in the conversation, from 0.
    pub(super) index: usize,
    pub(super) role: Role,
    pub(super) turn: Option<TurnId>,
    pub(super) seq: Seq,
    pub(super) at: Timestamp,
    pub(super) state: State,
    pub(super) error: Option<Failure>,
    pub(super) parts: Vec<DraftPart>,
    pub(super) metadata: Value,
}

/// A part with the event that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DraftPart {
    pub(super) seq: Seq,
    pub(super) body: DraftBody,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum DraftBody {
    Content(Stored<ContentPart>),
    Reply(Stored<ReplyPart>),
    Tool(Box<DraftTool>),
    Summary(Stored<String>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct DraftTool {
    pub(super) id: CallId,
    /// It stands in a copied transcript: its id is another session's, and no event is about it.
    pub(super) copied: bool,
    pub(super) tool: String,
    pub(super) input: Stored<CallInput>,
    pub(super) place: Place,
    pub(super) state: ToolState,
    pub(super) settlement: Option<Settlement>,
    pub(super) output: Option<CallOutput>,
    pub(super) late_output: Option<Stored<ToolOutput>>,
    pub(super) approval: Option<ShownApproval>,
}

impl Fold {
    /// An empty conversation that keeps the bodies of the messages at these positions.
    pub(crate) fn keeping(keep: Range<usize>) -> Self {
        Self {
            keep,
            places: Vec::new(),
            pending: BTreeMap::new(),
        }
    }

    /// About how many bytes the parts of each message have, in order.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.places.iter().map(|place| place.size_bytes).collect()
    }

    /// The messages that were kept, in order.
    pub(crate) fn into_kept(self) -> Vec<Draft> {
        self.places
            .into_iter()
            .filter_map(|place| place.draft)
            .collect()
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
                self.pending.clear();
            }
            _ => self.call_event(event),
        }
    }

    /// Adds an item of the transcript that the event `seq` copied from another session.
    pub(crate) fn copied(&mut self, seq: Seq, at: Timestamp, item: &Item) {
        super::packed::add(self, seq, at, item);
    }

    fn turn_event(&mut self, seq: Seq, at: Timestamp, event: &Event) {
        match event {
            Event::TurnQueued {
                message,
                content,
                options,
            } => {
                let pending = Pending {
                    message: message.to_string(),
                    content: content.clone(),
                    metadata: options.metadata.clone(),
                };
                self.pending.insert(TurnId(seq), pending);
            }
            Event::TurnStarted { turn } => self.shown(seq, at, *turn, *turn),
            Event::MessageJoined { queued, into } => self.shown(seq, at, *queued, *into),
            Event::TurnEnded { turn, outcome } => {
                self.pending.remove(turn);
                self.ended(*turn, outcome);
            }
            Event::TranscriptRewound { to, .. } => self.rewind(*to),
            _ => {}
        }
    }

    /// A message that waited is part of the conversation from here on.
    fn shown(&mut self, seq: Seq, at: Timestamp, queued: TurnId, turn: TurnId) {
        let Some(pending) = self.pending.remove(&queued) else {
            return;
        };
        self.push(Role::User, Some(turn), seq, at, State::Running);
        if let Some(draft) = self.newest_draft() {
            draft.id = pending.message;
            draft.metadata = pending.metadata;
        }
        for part in pending.content {
            self.add_part(seq, DraftBody::Content(part));
        }
    }

    fn ended(&mut self, turn: TurnId, outcome: &TurnOutcome) {
        let (state, error) = outcome_of(outcome);
        // Turns are serial, so a turn's messages are the newest; a compaction may stand between.
        let newest = self.places.iter_mut().rev();
        for place in newest.take_while(|place| place.turn.is_none_or(|other| other == turn)) {
            if let Some(draft) = place
                .draft
                .as_mut()
                .filter(|draft| draft.turn == Some(turn))
            {
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

    fn rewind(&mut self, to: Seq) {
        while self.places.last().is_some_and(|place| place.seq >= to) {
            self.places.pop();
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
        let draft = self.keep.contains(&index).then(|| Draft {
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
        });
        self.places.push(PlaceOf {
            seq,
            turn,
            role,
            size_bytes: 0,
            draft,
        });
    }

    pub(super) fn newest_draft(&mut self) -> Option<&mut Draft> {
        self.places.last_mut()?.draft.as_mut()
    }

    pub(super) fn add_part(&mut self, seq: Seq, body: DraftBody) {
        let Some(place) = self.places.last_mut() else {
            return;
        };
        place.size_bytes += body.size_bytes();
        if let Some(draft) = &mut place.draft {
            draft.parts.push(DraftPart { seq, body });
        }
    }

    /// Counts bytes that belong to a message of the open turn.
    fn weigh(&mut self, size_bytes: usize) {
        if let Some(place) = self.places.last_mut() {
            place.size_bytes += size_bytes;
        }
    }
}

impl DraftBody {
    /// About how many bytes it has as JSON.
    fn size_bytes(&self) -> usize {
        match self {
            Self::Content(part) => stored_bytes(part),
            Self::Reply(part) => stored_bytes(part),
            Self::Tool(tool) => stored_bytes(&tool.input),
            Self::Summary(text) => stored_bytes(text),
        }
    }
}

/// About how many bytes a value has as JSON; what is a blob counts when it is loaded.
fn stored_bytes<T: Serialize>(stored: &Stored<T>) -> usize {
    /// Names, brackets and the like.
    const FRAME_BYTES: usize = 64;
    let value = stored.inline().map(serde_json::to_string);
    value.and_then(Result::ok).map_or(0, |text| text.len()) + FRAME_BYTES
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use serde_json::json;
    use steadfast_core::command::{Digest, ForkOrigin, MessageOptions, PackedItems};
    use steadfast_core::content::{BlobHash, Finish, Usage};
    use steadfast_core::id::{ApprovalId, CommandId, SessionId, SessionKey, TenantId};
    use steadfast_core::input::{CallTriage, Gate, InDoubtPolicy, ReplayRule};
    use steadfast_core::transcript::{CallResult, ItemBody, TranscriptCall};

    use super::*;

    fn queued(id: &str, text: &str) -> Event {
        Event::TurnQueued {
            message: CommandId::new(id).unwrap(),
            content: vec![Stored::Inline(ContentPart::Text { text: text.into() })],
            options: MessageOptions::default(),
        }
    }

    fn turn(seq: u64) -> TurnId {
        TurnId(Seq(seq))
    }

    fn started(seq: u64) -> Event {
        Event::TurnStarted { turn: turn(seq) }
    }

    fn ended(seq: u64) -> Event {
        Event::TurnEnded {
            turn: turn(seq),
            outcome: TurnOutcome::Completed {
                finish: Finish::Stop,
            },
        }
    }

    fn text_part(text: &str) -> Stored<ReplyPart> {
        Stored::Inline(ReplyPart::Text {
            text: text.into(),
            native: None,
        })
    }

    fn reply(of: u64, parts: Vec<Stored<ReplyPart>>, calls: Vec<RecordedCall>) -> Event {
        Event::ModelReplied {
            turn: turn(of),
            step: 1,
            wire: "w".into(),
            model: "m".into(),
            parts,
            calls,
            finish: Finish::Stop,
            usage: Usage::default(),
        }
    }

    fn recorded(tool: &str, gate: Gate, place: Place) -> RecordedCall {
        RecordedCall {
            provider_call_id: "p".into(),
            tool: tool.into(),
            input: Stored::Inline(CallInput::Json(json!({"q": 1}))),
            triage: CallTriage {
                gate,
                rule: ReplayRule::Safe,
                place,
                in_doubt: InDoubtPolicy::TellModel,
                has_check: false,
                exclusive: false,
                deadline_ms: 1,
                attempts_max: 1,
                slot: false,
            },
        }
    }

    fn call(reply: u64, index: u16) -> CallId {
        CallId {
            epoch: Epoch(1),
            reply: Seq(reply),
            index,
        }
    }

    fn settled(call: CallId, text: &str) -> Event {
        Event::CallSettled {
            call,
            settlement: Settlement::Done,
            output: ToolOutput::text(text).into(),
        }
    }

    fn folded(keep: Range<usize>, events: &[Event]) -> Fold {
        let mut fold = Fold::keeping(keep);
        for (seq, event) in (1..).zip(events) {
            fold.event(Seq(seq), Timestamp(seq), Epoch(1), event);
        }
        fold
    }

    fn shown(events: &[Event]) -> String {
        print(folded(0..usize::MAX, events))
    }

    fn print(fold: Fold) -> String {
        let mut out = String::new();
        for draft in fold.into_kept() {
            let turn = draft.turn.map_or("-".into(), |turn| turn.to_string());
            let (index, id) = (draft.index, &draft.id);
            let (role, state) = (draft.role, draft.state);
            writeln!(out, "{index} {id} {role:?} turn {turn} {state:?}").unwrap();
            for part in &draft.parts {
                match &part.body {
                    DraftBody::Content(Stored::Inline(ContentPart::Text { text }))
                    | DraftBody::Reply(Stored::Inline(ReplyPart::Text { text, .. })) => {
                        writeln!(out, "    {text}").unwrap();
                    }
                    DraftBody::Summary(Stored::Inline(text)) => {
                        writeln!(out, "    summary: {text}").unwrap();
                    }
                    DraftBody::Tool(tool) => {
                        let output = tool.output.as_ref().map(|output| &output.output);
                        let approved = tool.approval.as_ref().map(|approval| approval.approved);
                        writeln!(
                            out,
                            "    {} {} {:?} {:?} {output:?} approval {approved:?} late {:?}",
                            tool.tool, tool.id, tool.state, tool.settlement, tool.late_output
                        )
                        .unwrap();
                    }
                    other => writeln!(out, "    {other:?}").unwrap(),
                }
            }
        }
        out
    }

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
    fn an_approval_is_shown_with_its_call() {
        let asked = || {
            vec![
                queued("m1", "refund"),
                started(1),
                reply(
                    1,
                    vec![],
                    vec![recorded(
                        "refund",
                        Gate::Approval {
                            expires_in_ms: None,
                        },
                        Place::Local,
                    )],
                ),
                Event::ApprovalRequested {
                    approval: ApprovalId(call(3, 0)),
                    input_digest: Digest(0),
                    expires_at: None,
                },
            ]
        };
        insta::assert_snapshot!(shown(&asked()), @"
        0 m1 User turn 1 Running
            refund
        1 assistant-3 Assistant turn 1 Running
            refund 1-3-0 AwaitingApproval None None approval Some(None) late None
        ");
        let mut decided = asked();
        decided.push(Event::ApprovalDecided {
            approval: ApprovalId(call(3, 0)),
            approved: true,
            reason: Some("fine".into()),
            triage: None,
        });
        insta::assert_snapshot!(shown(&decided), @"
        0 m1 User turn 1 Running
            refund
        1 assistant-3 Assistant turn 1 Running
            refund 1-3-0 Pending None None approval Some(Some(true)) late None
        ");
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

    /// A question, a call of the other session and its result.
    fn copied_items() -> [Item; 3] {
        let item = |seq, body| Item {
            seq: Seq(seq),
            tokens: 0,
            body,
        };
        [
            item(
                2,
                ItemBody::User {
                    turn: turn(1),
                    message: CommandId::new("old").unwrap(),
                    content: vec![Stored::Inline(ContentPart::Text { text: "hi".into() })].into(),
                },
            ),
            item(
                3,
                ItemBody::Reply {
                    turn: turn(1),
                    step: 1,
                    wire: "w".into(),
                    model: "m".into(),
                    parts: vec![],
                    calls: vec![TranscriptCall {
                        id: call(4, 0),
                        provider_call_id: "p".into(),
                        tool: "get".into(),
                        input: Stored::Inline(CallInput::Json(Value::Null)).into(),
                    }],
                },
            ),
            item(
                5,
                ItemBody::Results {
                    turn: turn(1),
                    results: vec![CallResult {
                        id: call(4, 0),
                        provider_call_id: "p".into(),
                        tool: "get".into(),
                        settlement: Settlement::Done,
                        output: ToolOutput::text("old result").into(),
                    }],
                },
            ),
        ]
    }

    fn forked() -> Event {
        Event::TranscriptForked {
            origin: ForkOrigin {
                from: SessionKey {
                    tenant: TenantId::new("t").unwrap(),
                    session: SessionId::new("s").unwrap(),
                },
                at_seq: Seq(6),
                transcript: vec![PackedItems {
                    blob: steadfast_core::content::BlobRef {
                        hash: BlobHash::of(b""),
                        size_bytes: 0,
                    },
                    items: 3,
                    first_seq: Seq(2),
                    last_seq: Seq(5),
                    tokens: 0,
                }],
            },
        }
    }

    #[test]
    fn a_copied_transcript_keeps_its_calls_apart_from_new_ones() {
        let mut fold = Fold::keeping(0..2);
        for item in &copied_items() {
            fold.copied(Seq(1), Timestamp(1), item);
        }
        let events = [
            forked(),
            queued("m1", "again"),
            started(2),
            reply(2, vec![], vec![recorded("get", Gate::Open, Place::Local)]),
            settled(call(4, 0), "new result, of a call that is not on this page"),
        ];
        for (seq, event) in (1..).zip(&events) {
            fold.event(Seq(seq), Timestamp(seq), Epoch(1), event);
        }
        insta::assert_snapshot!(print(fold), @r#"
        0 old User turn - Completed
            hi
        1 assistant-1-1 Assistant turn - Completed
            get 1-4-0 Settled Some(Done) Some(Inline(Text { text: "old result" })) approval None late None
        "#);
    }
}
