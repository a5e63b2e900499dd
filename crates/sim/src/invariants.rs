//! What must be true of every session at every time: one file for each promise.

mod answers_agree;
mod calls_settle_once;
mod commands_answered_once;
mod denied_never_ran;
mod doubt_has_a_cause;
mod effect_after_event;
mod epochs_rise;
mod history;
mod limits;
mod living_owner_stays;
mod mail_not_overtaken;
mod model_gets_results;
mod never_acts_once;
mod nothing_after_the_end;
mod nothing_stuck;
mod outcome_is_the_tools;
mod records_gapless;
mod turns_serial;

pub use history::History;
pub use outcome_is_the_tools::OPERATOR_SAYS;

use std::collections::BTreeMap;

use steadfast_core::content::CallOutput;
use steadfast_core::event::{Event, Verdict};
use steadfast_core::id::{CallId, CommandId};
use steadfast_core::session::Session;
use steadfast_harness::request::ModelRequest;
use steadfast_protocol::record::{Record, RecordHash};
use steadfast_tools::worker::Job;

/// Something that happened to one session.
#[derive(Debug, Clone, Copy)]
pub enum Seen<'a> {
    /// A Record was committed on top of `before`.
    Record {
        /// The state before it.
        before: &'a Session,
        /// The Record.
        record: &'a Record,
        /// Its size.
        bytes: usize,
        /// Hash of the Record before it.
        prev: RecordHash,
    },
    /// One of its facts, on top of `before`.
    Event {
        /// The state before it.
        before: &'a Session,
        /// The fact.
        event: &'a Event,
    },
    /// A tool was started; `log` is what is committed, `begun` what some owner has sent to the log.
    ToolStarted {
        /// What it was told.
        job: &'a Job,
        /// The committed state.
        log: &'a Session,
        /// Facts of Records that were sent, committed or not.
        begun: &'a [Event],
    },
    /// A tool had its effect outside, for the `times`th time.
    ToolActed {
        /// The call.
        call: CallId,
        /// Whether it may be repeated.
        repeatable: bool,
        /// How often by now.
        times: u32,
    },
    /// A tool answered.
    ToolAnswered {
        /// The call.
        call: CallId,
        /// Its answer; `None`: it gave no outcome.
        output: Option<&'a CallOutput>,
    },
    /// A model was asked.
    ModelAsked {
        /// What.
        request: &'a ModelRequest,
    },
    /// A client sent a command.
    Sent {
        /// Which.
        command: &'a CommandId,
    },
    /// A client holds a receipt of the mailbox.
    Receipted {
        /// For which command.
        command: &'a CommandId,
    },
    /// A client was answered.
    Answered {
        /// Which command.
        command: &'a CommandId,
        /// What.
        verdict: Verdict,
    },
    /// The owner died, or was cut off.
    OwnerFailed,
    /// Another node took the session over from an owner that is alive and can be reached.
    LivingOwnerReplaced,
    /// Everything works again and had time to settle.
    Settled {
        /// The committed state.
        log: &'a Session,
    },
}

/// One promise, watched over one session.
pub trait Invariant: Send {
    /// For people.
    fn name(&self) -> &'static str;

    /// Takes what happened; says how it breaks the promise.
    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String>;
}

/// All promises, watched over one session.
pub struct Watch {
    invariants: Vec<Box<dyn Invariant>>,
}

impl Watch {
    /// Watches a session from its beginning.
    pub fn new() -> Self {
        Self {
            invariants: vec![
                Box::<records_gapless::RecordsGapless>::default(),
                Box::<epochs_rise::EpochsRise>::default(),
                Box::<living_owner_stays::LivingOwnerStays>::default(),
                Box::<turns_serial::TurnsSerial>::default(),
                Box::<calls_settle_once::CallsSettleOnce>::default(),
                Box::<commands_answered_once::CommandsAnsweredOnce>::default(),
                Box::<answers_agree::AnswersAgree>::default(),
                Box::<mail_not_overtaken::MailNotOvertaken>::default(),
                Box::<effect_after_event::EffectAfterEvent>::default(),
                Box::<nothing_after_the_end::NothingAfterTheEnd>::default(),
                Box::<never_acts_once::NeverActsOnce>::default(),
                Box::<outcome_is_the_tools::OutcomeIsTheTools>::default(),
                Box::<denied_never_ran::DeniedNeverRan>::default(),
                Box::<doubt_has_a_cause::DoubtHasACause>::default(),
                Box::<model_gets_results::ModelGetsResults>::default(),
                Box::<limits::Limits>::default(),
                Box::<nothing_stuck::NothingStuck>::default(),
            ],
        }
    }

    /// Takes what happened; gives the promises that it breaks.
    pub fn observe(&mut self, seen: &Seen<'_>) -> Vec<String> {
        let broken = self.invariants.iter_mut().filter_map(|invariant| {
            let how = invariant.observe(seen).err()?;
            Some(format!("{}: {how}", invariant.name()))
        });
        broken.collect()
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

/// Counts; says when something happens a second time.
#[derive(Debug)]
struct Once<T>(BTreeMap<T, ()>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord + std::fmt::Debug + Clone> Once<T> {
    fn see(&mut self, what: &T, said: &str) -> Result<(), String> {
        match self.0.insert(what.clone(), ()) {
            None => Ok(()),
            Some(()) => Err(format!("{what:?} {said} twice")),
        }
    }
}
