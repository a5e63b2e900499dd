//! What the outside is told of turns: posted with the facts that it is about, delivered later.

use std::collections::BTreeSet;

use super::Draft;
use crate::call::CallState;
use crate::child::ParentCall;
use crate::event::{Event, Notice, TurnOutcome, TurnReport, WaitKind, WaitingCall};
use crate::id::{CallId, MessageId, Seq, TurnId};
use crate::input::ReportKind;
use crate::limits::{CALLS_PER_REPORT_MAX, REPORTS_KEPT_MAX};
use crate::session::{Existence, Turn};
use crate::transcript::ItemBody;

/// Posts what the facts of this decision are to those who listen.
pub(super) fn post(draft: &mut Draft) {
    if draft.events.is_empty() {
        return;
    }
    answer_parents(draft);
    if !matches!(draft.session.existence, Existence::Open(_)) {
        return;
    }
    let reports = &draft.session.policy.reports;
    let (ends, waiting) = (
        reports.contains(&ReportKind::Ended),
        reports.contains(&ReportKind::Waiting),
    );
    if ends {
        post_ends(draft);
    }
    if waiting {
        post_wait(draft);
    }
}

/// Answers the calls of other sessions that asked for the turns which ended, also of a session that
/// is being removed.
fn answer_parents(draft: &mut Draft) {
    for (turn, outcome) in ended(draft) {
        let Some(parent) = parent_of(draft, turn) else {
            continue;
        };
        let items = draft.session.transcript.items.iter().rev();
        let mut items = items.filter(|item| match &item.body {
            ItemBody::Reply { turn: of, .. } | ItemBody::Results { turn: of, .. } => *of == turn,
            ItemBody::User { .. }
            | ItemBody::Note { .. }
            | ItemBody::Summary { .. }
            | ItemBody::Packed { .. } => false,
        });
        let last_item = items.next().map(|item| item.seq);
        let number = draft.session.notices + 1;
        let notice = Notice::AnswerCall {
            parent,
            turn,
            outcome,
            last_item,
        };
        draft.emit(Event::NoticePosted { number, notice });
    }
}

/// The call that asked for a turn which this decision ended.
fn parent_of(draft: &Draft, turn: TurnId) -> Option<ParentCall> {
    let before = &draft.before;
    let open = before.turn.iter().map(|open| (open.id, &*open.options));
    let queued = before.queue.iter().map(|one| (one.turn, &*one.options));
    let first = draft.session.seq.0 + 1 - draft.events.len() as u64;
    let new = (first..)
        .zip(&draft.events)
        .filter_map(|(seq, event)| match event {
            Event::TurnQueued { options, .. } => Some((TurnId(Seq(seq)), options)),
            _ => None,
        });
    let mut all = open.chain(queued).chain(new);
    all.find(|(id, _)| *id == turn)?
        .1
        .parent
        .as_deref()
        .cloned()
}

fn post_ends(draft: &mut Draft) {
    for (turn, outcome) in ended(draft) {
        if let Some(message) = message_of(draft, turn) {
            post_one(draft, turn, message, TurnReport::Ended { outcome });
        }
    }
}

fn post_wait(draft: &mut Draft) {
    let Some((turn, calls)) = draft.session.turn.as_ref().and_then(waits) else {
        return;
    };
    let known = draft.before.turn.as_ref();
    let known = known.filter(|before| before.id == turn.id);
    let known: BTreeSet<(CallId, WaitKind)> = known
        .and_then(waits)
        .into_iter()
        .flat_map(|(_, calls)| calls)
        .map(|call| (call.call, call.kind))
        .collect();
    let is_news = |call: &WaitingCall| !known.contains(&(call.call, call.kind));
    if calls.iter().any(is_news) {
        let (id, message) = (turn.id, turn.message.clone());
        let count = u32::try_from(calls.len()).unwrap_or(u32::MAX);
        let calls = calls.into_iter().take(CALLS_PER_REPORT_MAX).collect();
        post_one(draft, id, message, TurnReport::Waiting { count, calls });
    }
}

fn ended(draft: &Draft) -> Vec<(TurnId, TurnOutcome)> {
    let ended = draft.events.iter().filter_map(|event| match event {
        Event::TurnEnded { turn, outcome } => Some((*turn, outcome.clone())),
        _ => None,
    });
    ended.collect()
}

/// The message of a turn that this decision ended.
fn message_of(draft: &Draft, turn: TurnId) -> Option<MessageId> {
    let before = &draft.before;
    let open = before.turn.iter().map(|open| (open.id, &open.message));
    let queued = before.queue.iter().map(|one| (one.turn, &one.message));
    let last = draft.session.last_turn.iter();
    let last = last.map(|last| (last.id, &last.message));
    let mut all = open.chain(queued).chain(last);
    all.find(|(id, _)| *id == turn)
        .map(|(_, message)| message.clone())
}

/// The open calls of a turn, if somebody outside owes something to each of them.
fn waits(turn: &Turn) -> Option<(&Turn, Vec<WaitingCall>)> {
    let mut calls = Vec::new();
    for call in turn.calls.iter().filter(|call| !call.is_settled()) {
        let kind = match call.state {
            CallState::AwaitingApproval { .. } => WaitKind::Approval,
            CallState::AwaitingClient => WaitKind::ClientResult,
            CallState::AwaitingInput => WaitKind::Input,
            CallState::InDoubt { .. } => WaitKind::InDoubt,
            CallState::Proposed
            | CallState::AwaitingSlot
            | CallState::Started { .. }
            | CallState::Queued { .. }
            | CallState::Backoff { .. }
            | CallState::Checking { .. }
            | CallState::Settled { .. } => return None,
        };
        calls.push(WaitingCall {
            call: call.id,
            tool: call.tool.clone(),
            kind,
        });
    }
    (!calls.is_empty()).then_some((turn, calls))
}

fn post_one(draft: &mut Draft, turn: TurnId, message: MessageId, report: TurnReport) {
    let reports = draft.session.outbox.iter();
    let reports: Vec<u64> = reports
        .filter(|(_, notice)| matches!(notice, Notice::ReportTurn { .. }))
        .map(|(number, _)| *number)
        .collect();
    if reports.len() >= REPORTS_KEPT_MAX
        && let Some(&number) = reports.first()
    {
        let detail = format!("{REPORTS_KEPT_MAX} newer ones wait too");
        draft.emit(Event::NoticeDropped { number, detail });
    }
    let number = draft.session.notices + 1;
    let notice = Notice::ReportTurn {
        turn,
        message,
        at: draft.now,
        report,
    };
    draft.emit(Event::NoticePosted { number, notice });
}
