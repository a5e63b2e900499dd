//! An operator ends the quarantine of a session whose log cannot be read to its end.
//!
//! ```text
//!   counts            no longer counts, kept                    goes on
//!   1 2 3 ... after | (unreadable) 7 8 9, another's 7 8 ... | before, above all numbers given out
//! ```
//!
//! Whatever may have run there is not run again. What was promised there is kept as far as it can
//! still be read: answers to commands, ends of turns, results of calls. What cannot be read ends
//! as failed or in doubt, never as if it had not happened.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, advance};
use crate::call::Call;
use crate::content::CallOutput;
use crate::event::{Event, LostCall, Notice, RecordedCall, Settlement, TurnOutcome, Verdict};
use crate::id::{CallId, CommandId, MessageId, TurnId};
use crate::input::{LostEvent, Repair};
use crate::limits::IN_DOUBT_KEPT_MAX;
use crate::session::Existence;
use crate::{texts, wake};

/// Why a turn failed of which nobody knows how it went on.
const LOG_DAMAGED: &str = "log_damaged";

pub(super) fn decide(draft: &mut Draft, repair: &Repair) {
    let lost = Lost::read(&repair.lost);
    draft.emit(Event::LogRepaired {
        after: repair.after,
        code: repair.code.clone(),
        detail: texts::cut(&repair.detail, crate::limits::DETAIL_BYTES_MAX),
        calls: lost.calls_in_doubt(),
    });
    let policy = draft.session.policy.clone();
    draft.emit(Event::Activated {
        node: repair.node.clone(),
        epoch: repair.epoch,
        policy,
    });
    end_turns(draft, &lost);
    keep_answers(draft, &lost);
    for notice in lost.notices.values() {
        let number = draft.session.notices + 1;
        let notice = Notice::clone(notice);
        draft.emit(Event::NoticePosted { number, notice });
    }
    keep_existence(draft, &lost);
    // No turn is left to go on; a deletion whose outbox is empty is finished here.
    advance::advance(draft);
    draft.emit(Event::CommandSettled {
        command: repair.command.clone(),
        digest: repair.digest,
        verdict: Verdict::Done,
    });
    let wake = wake(&draft.session);
    draft.emit(Event::Released { wake });
}

/// Ends what was open: it may have gone on in the part that no longer counts.
fn end_turns(draft: &mut Draft, lost: &Lost<'_>) {
    if let Some(turn) = draft.session.turn.clone() {
        for call in turn.calls.iter().filter(|call| !call.is_settled()) {
            draft.emit(lost.settled(call));
        }
        if let Some(compaction) = &draft.session.compaction {
            draft.emit(Event::CompactionFailed {
                number: compaction.number,
                attempt: compaction.attempt,
                code: LOG_DAMAGED.into(),
                message: "the log is damaged".into(),
                retry_at: None,
            });
        }
        let outcome = lost.outcome(turn.id);
        draft.emit(Event::TurnEnded {
            turn: turn.id,
            outcome,
        });
    }
    for queued in draft.session.queue.clone() {
        let turn = queued.turn;
        let outcome = lost.outcome(turn);
        draft.emit(Event::TurnEnded { turn, outcome });
    }
}

/// A command that was answered there gets the same answer when it is sent again, and runs nothing.
fn keep_answers(draft: &mut Draft, lost: &Lost<'_>) {
    for answer in &lost.answers {
        if draft.session.receipts.get(answer.command).is_some() {
            continue;
        }
        draft.emit(answer.event.clone());
        if let Verdict::Accepted { turn } = answer.verdict {
            draft.emit(Event::MessageLost {
                message: MessageId::clone(answer.command),
                turn,
                outcome: lost.outcome(turn),
            });
        }
    }
}

/// A session that was made or removed there stays so.
fn keep_existence(draft: &mut Draft, lost: &Lost<'_>) {
    for event in &lost.existence {
        let fits = match (event, &draft.session.existence) {
            (Event::SessionCreated { .. }, existence) => matches!(existence, Existence::Absent),
            (Event::DeletionStarted, existence) => matches!(existence, Existence::Open(_)),
            (_, existence) => !matches!(existence, Existence::Absent),
        };
        if fits {
            draft.emit(Event::clone(event));
        }
    }
}

/// What the part that no longer counts still tells.
#[derive(Default)]
struct Lost<'a> {
    answers: Vec<Answered<'a>>,
    ends: BTreeMap<TurnId, &'a TurnOutcome>,
    joined: BTreeMap<TurnId, TurnId>,
    asked: BTreeMap<CallId, &'a str>,
    results: BTreeMap<CallId, (Settlement, &'a CallOutput)>,
    resolved: BTreeSet<CallId>,
    notices: BTreeMap<u64, &'a Notice>,
    existence: Vec<&'a Event>,
}

struct Answered<'a> {
    command: &'a CommandId,
    verdict: Verdict,
    event: &'a Event,
}

impl<'a> Lost<'a> {
    fn read(events: &'a [LostEvent]) -> Self {
        let mut lost = Self::default();
        for event in events {
            lost.see(event);
        }
        lost
    }

    fn replied(&mut self, lost: &LostEvent, calls: &'a [RecordedCall]) {
        for (index, call) in (0_u16..).zip(calls) {
            let id = CallId {
                epoch: lost.epoch,
                reply: lost.seq,
                index,
            };
            self.asked.insert(id, call.tool.as_str());
        }
    }

    fn see(&mut self, lost: &'a LostEvent) {
        match &lost.event {
            event @ Event::CommandSettled {
                command, verdict, ..
            } => self.answers.push(Answered {
                command,
                verdict: *verdict,
                event,
            }),
            Event::MessageJoined { queued, into } => {
                self.joined.insert(*queued, *into);
            }
            Event::TurnEnded { turn, outcome } => {
                self.ends.insert(*turn, outcome);
            }
            Event::ModelReplied { calls, .. } => self.replied(lost, calls),
            Event::CallSettled {
                call,
                settlement,
                output,
            } => {
                self.results.insert(*call, (*settlement, output));
            }
            Event::CallResolved { call, .. } => {
                self.resolved.insert(*call);
            }
            Event::NoticePosted { number, notice } => {
                self.notices.insert(*number, notice);
            }
            Event::NoticeDelivered { number } | Event::NoticeDropped { number, .. } => {
                self.notices.remove(number);
            }
            event @ (Event::SessionCreated { .. }
            | Event::DeletionStarted
            | Event::SessionDeleted) => self.existence.push(event),
            Event::LogRepaired { .. }
            | Event::MessageLost { .. }
            | Event::Activated { .. }
            | Event::Released { .. }
            | Event::TranscriptForked { .. }
            | Event::TurnQueued { .. }
            | Event::TurnStarted { .. }
            | Event::TurnCrashed { .. }
            | Event::HoldLifted { .. }
            | Event::StepStarted { .. }
            | Event::ModelCallFailed { .. }
            | Event::ModelCallRetried { .. }
            | Event::AnswerRefused { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalDecided { .. }
            | Event::CallStarted { .. }
            | Event::JobQueued { .. }
            | Event::CallRuleTightened { .. }
            | Event::CallRetryScheduled { .. }
            | Event::InputRequested { .. }
            | Event::InputGiven { .. }
            | Event::ToolsOffered { .. }
            | Event::CheckRequested { .. }
            | Event::CallDoubted { .. }
            | Event::CompactionStarted { .. }
            | Event::CompactionFailed { .. }
            | Event::CompactionRetried { .. }
            | Event::TranscriptCompacted { .. }
            | Event::TranscriptRewound { .. } => {}
        }
    }

    /// How a turn ended there, or joined one that did.
    fn outcome(&self, turn: TurnId) -> TurnOutcome {
        let turn = self.joined.get(&turn).copied().unwrap_or(turn);
        let read = self.ends.get(&turn).map(|outcome| (*outcome).clone());
        read.unwrap_or_else(|| TurnOutcome::Failed {
            code: LOG_DAMAGED.into(),
            message: "the log that tells how it went on is damaged; it may have run in part".into(),
        })
    }

    /// How an open call ended there. It may have started, even if what can be read says nothing.
    fn settled(&self, call: &Call) -> Event {
        let (settlement, output) = match self.results.get(&call.id) {
            Some((settlement, output)) => (*settlement, (*output).clone()),
            None => {
                let settlement = Settlement::InDoubt;
                let detail = "the log is damaged";
                let output = texts::without_outcome(settlement, call.triage.rule, detail);
                (settlement, output)
            }
        };
        Event::CallSettled {
            call: call.id,
            settlement,
            output,
        }
    }

    /// Calls that were asked for there and may have happened: the newest that are remembered.
    fn calls_in_doubt(&self) -> Vec<LostCall> {
        let is_in_doubt = |id: &CallId| match self.results.get(id) {
            None | Some((Settlement::InDoubt | Settlement::Unknown, _)) => true,
            Some((Settlement::Cancelled, _)) => true,
            Some((
                Settlement::Done
                | Settlement::Refused
                | Settlement::Denied
                | Settlement::Expired
                | Settlement::Superseded
                | Settlement::Unreachable
                | Settlement::ToolGone,
                _,
            )) => false,
        };
        let open = self
            .asked
            .iter()
            .filter(|(id, _)| is_in_doubt(id) && !self.resolved.contains(id));
        let mut calls: Vec<LostCall> = open
            .map(|(id, tool)| LostCall {
                call: *id,
                tool: (*tool).to_owned(),
            })
            .collect();
        let too_many = calls.len().saturating_sub(IN_DOUBT_KEPT_MAX);
        calls.drain(..too_many);
        calls
    }
}
