//! Which facts follow from an input. Pure and total: one file for each kind of input.
//!
//! ```text
//!  input --> its file in decide/ --> advance --> Decision { events, answer }
//!                 |                     |
//!                 +---- Draft: a copy of the session on which each fact is applied at once
//! ```

mod activate;
mod advance;
mod answer_calls;
mod approve;
mod call_finished;
mod calls;
mod cancel;
mod check_answered;
mod compact;
mod create;
mod delete;
mod due;
mod end_turn;
mod job_queued;
mod model_failed;
mod model_replied;
mod notice_delivered;
mod release;
mod repair;
mod report;
mod settle_call;
mod slot_ready;
mod submit;
mod tools_listed;
mod withdraw;

use crate::apply::apply;
use crate::command::{Command, CommandBody, Digest};
use crate::event::{Event, Rejection, Verdict};
use crate::id::{CommandId, Timestamp};
use crate::input::{Input, instant};
use crate::session::{Existence, Session};

/// What follows from an input.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// The facts, in order. None: nothing follows, nothing is written.
    pub events: Vec<Event>,
    /// The answer to a command.
    pub answer: Option<Answer>,
}

/// The answer to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// What was decided.
    pub verdict: Verdict,
    /// It was decided before: this is the first one's answer.
    pub repeated: bool,
}

/// Decides about one input. `clock` is the wall clock; time never goes back within a session.
pub fn decide(session: &Session, input: &Input, clock: Timestamp) -> Decision {
    decide_ahead(session, input, clock).0
}

/// The same, with the state in which the facts leave the session.
pub fn decide_ahead(session: &Session, input: &Input, clock: Timestamp) -> (Decision, Session) {
    let mut draft = Draft::new(session, instant(clock, session.at));
    let answer = match input {
        Input::Command { command, receipted } => {
            Some(command_answer(&mut draft, command, *receipted))
        }
        other => {
            facts(&mut draft, other);
            None
        }
    };
    // A refused or repeated command changes nothing, not even what is due: there may be no session.
    let changes_nothing = answer.is_some_and(|answer| {
        answer.repeated || matches!(answer.verdict, Verdict::Rejected { .. })
    });
    // Who lets go or repairs starts nothing any more.
    let goes_on = !matches!(input, Input::Release | Input::Repair(_));
    if !changes_nothing && goes_on {
        advance::advance(&mut draft);
    }
    let decision = Decision {
        events: draft.events,
        answer,
    };
    (decision, draft.session)
}

/// The facts that follow from the input itself, before the session goes on by itself.
fn facts(draft: &mut Draft, input: &Input) {
    match input {
        Input::Activate(activate) => activate::decide(draft, activate),
        Input::ModelReplied {
            effect,
            reply,
            triage,
            unfit,
        } => {
            model_replied::decide(draft, *effect, reply, triage, unfit.as_deref());
        }
        Input::ModelFailed { effect, failure } => model_failed::decide(draft, *effect, failure),
        Input::CompactionDone {
            effect,
            summary,
            usage,
        } => {
            compact::done(draft, *effect, summary, *usage);
        }
        Input::CallFinished {
            call,
            attempt,
            outcome,
        } => {
            call_finished::decide(draft, *call, *attempt, outcome);
        }
        Input::CheckAnswered {
            call,
            attempt,
            answer,
        } => {
            check_answered::decide(draft, *call, *attempt, answer);
        }
        Input::SlotReady { call } => slot_ready::decide(draft, *call),
        Input::JobQueued { call, attempt } => job_queued::decide(draft, *call, *attempt),
        Input::ToolsListed {
            effect,
            tools,
            note,
        } => tools_listed::decide(draft, *effect, tools, note.as_deref()),
        Input::NoticeDelivered { notice, withdrawn } => {
            notice_delivered::decide(draft, *notice, *withdrawn);
        }
        Input::NoticeDropped { notice, detail } => {
            notice_delivered::dropped(draft, *notice, detail);
        }
        Input::Release => release::decide(draft),
        Input::Repair(repair) => repair::decide(draft, repair),
        // What is due is looked at after every input; a command is answered by its own path.
        Input::TimerFired | Input::Command { .. } => {}
    }
}

/// A decision in the making: facts are applied as they are found, so each sees those before it.
pub(crate) struct Draft {
    pub(crate) session: Session,
    pub(crate) now: Timestamp,
    /// The state that the decision began with.
    before: Session,
    events: Vec<Event>,
}

impl Draft {
    fn new(session: &Session, now: Timestamp) -> Self {
        Self {
            session: session.clone(),
            now,
            before: session.clone(),
            events: Vec::new(),
        }
    }

    pub(crate) fn emit(&mut self, event: Event) {
        apply(&mut self.session, self.now, &event);
        self.events.push(event);
    }
}

/// A command under decision.
pub(crate) struct Asked<'a> {
    id: &'a CommandId,
    digest: Digest,
    receipted: bool,
}

impl Asked<'_> {
    /// Records the answer and gives it.
    fn settle(&self, draft: &mut Draft, verdict: Verdict) -> Answer {
        let (command, digest) = (self.id.clone(), self.digest);
        draft.emit(Event::CommandSettled {
            command,
            digest,
            verdict,
        });
        Answer {
            verdict,
            repeated: false,
        }
    }

    /// Refuses. Without a receipt nothing is written and the id stays free.
    fn refuse(&self, draft: &mut Draft, reason: Rejection) -> Answer {
        let verdict = Verdict::Rejected { reason };
        if self.receipted {
            return self.settle(draft, verdict);
        }
        Answer {
            verdict,
            repeated: false,
        }
    }
}

fn command_answer(draft: &mut Draft, command: &Command, receipted: bool) -> Answer {
    let asked = Asked {
        id: &command.id,
        digest: command.digest(),
        receipted,
    };
    if let Some(receipt) = draft.session.receipts.get(&command.id) {
        if receipt.digest == asked.digest {
            return Answer {
                verdict: receipt.verdict,
                repeated: true,
            };
        }
        // The id is taken, so this answer cannot be remembered under it.
        let verdict = Verdict::Rejected {
            reason: Rejection::CommandConflict,
        };
        return Answer {
            verdict,
            repeated: false,
        };
    }
    if is_forgotten(&command.id, draft.session.receipts.horizon()) {
        return asked.refuse(draft, Rejection::MessageTooOld);
    }
    if let Some(reason) = refused_by_existence(&draft.session, &command.body) {
        return asked.refuse(draft, reason);
    }
    match &command.body {
        CommandBody::Create { new } => create::create(draft, &asked, new),
        CommandBody::Fork { new, origin } => create::fork(draft, &asked, new, origin),
        CommandBody::Submit {
            content,
            options,
            new,
        } => submit::decide(draft, &asked, content, options, new.as_ref()),
        CommandBody::Withdraw { message } => withdraw::decide(draft, &asked, message),
        CommandBody::Cancel { turn } => cancel::decide(draft, &asked, *turn),
        CommandBody::Compact => compact::requested(draft, &asked),
        CommandBody::DecideApproval {
            approval,
            approved,
            reason,
            triage,
        } => {
            let answer = approve::Approval {
                id: *approval,
                approved: *approved,
                reason,
                triage,
            };
            approve::decide(draft, &asked, &answer)
        }
        CommandBody::SettleCall { call, output, by } => {
            settle_call::decide(draft, &asked, *call, output, *by)
        }
        CommandBody::AnswerCalls { answers } => answer_calls::decide(draft, &asked, answers),
        CommandBody::SkipCall { call } => settle_call::skip(draft, &asked, *call),
        CommandBody::RetryCall { call } => settle_call::retry(draft, &asked, *call),
        CommandBody::Delete => delete::decide(draft, &asked),
    }
}

/// Whether the kind of command fits a session that does not exist, or is being removed.
fn refused_by_existence(session: &Session, body: &CommandBody) -> Option<Rejection> {
    let makes_one = match body {
        CommandBody::Create { .. } | CommandBody::Fork { .. } => true,
        CommandBody::Submit { new, .. } => new.is_some(),
        CommandBody::Withdraw { .. }
        | CommandBody::Cancel { .. }
        | CommandBody::Compact
        | CommandBody::DecideApproval { .. }
        | CommandBody::SettleCall { .. }
        | CommandBody::AnswerCalls { .. }
        | CommandBody::SkipCall { .. }
        | CommandBody::RetryCall { .. }
        | CommandBody::Delete => false,
    };
    match (&session.existence, makes_one) {
        (Existence::Absent, false) => Some(Rejection::SessionNotFound),
        (Existence::Deleting(_), true) => Some(Rejection::SessionDeleting),
        (Existence::Deleting(_), false) => Some(Rejection::SessionNotFound),
        (Existence::Absent, true) | (Existence::Open(_), _) => None,
    }
}

/// Whether this id may have been answered and forgotten: a UUIDv7 made before the horizon.
fn is_forgotten(id: &CommandId, horizon: Timestamp) -> bool {
    horizon > Timestamp(0) && uuid_v7_time(id.as_str()).is_some_and(|made| made <= horizon)
}

/// The time in a UUIDv7 (RFC 9562: its first 48 bits are milliseconds since the Unix epoch).
fn uuid_v7_time(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let dashes = [8, 13, 18, 23]
        .iter()
        .all(|&at| bytes.get(at) == Some(&b'-'));
    if bytes.len() != 36 || !dashes || bytes.get(14) != Some(&b'7') {
        return None;
    }
    let digits: String = text.chars().filter(|&c| c != '-').collect();
    let all = u128::from_str_radix(&digits, 16).ok()?;
    u64::try_from(all >> 80).ok().map(Timestamp)
}
