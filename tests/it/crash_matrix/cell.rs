//! The cells: where the process dies, under which rule, with which durability, on which wire.

use std::fmt;

use serde_json::{Value, json};
use steadfast_tests::crash_log::{CrashPoint, Moment};
use steadfast_tests::ledger::Check;
use steadfast_tests::provider_events::Wire;

/// Where the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    /// The message is durable, nothing of it runs.
    AcceptedNotStarted,
    /// The provider works on the first reply.
    ModelCallOpen,
    /// The first reply is whole and not yet durable.
    ReplyNotRecorded,
    /// The reply with its call is durable, its writer does not know.
    CallRecordedNotStarted,
    /// The tool has the request and had its effect.
    CallRunningDone,
    /// The tool has the request and had no effect.
    CallRunningUndone,
    /// The tool answered, the answer is not durable.
    CallFinishedNotRecorded,
    /// Of three calls one has its result, one runs, one runs too.
    SomeCallsFinished,
    /// All results are durable, the second model call was not yet made.
    BetweenSteps,
    /// Half of the last reply was shown.
    LastReplyStreaming,
    /// The last reply is whole and not yet durable.
    LastReplyNotRecorded,
    /// A person is asked.
    WaitingForApproval,
    /// The person's yes is durable, its writer does not know.
    ApprovedNotStarted,
    /// The client is asked for a result.
    WaitingForClient,
    /// A model call failed and waits for its next attempt.
    ModelBackoff,
    /// A cancel is durable, its client does not know.
    CancelRecorded,
    /// A cancel is decided and not durable.
    CancelNotRecorded,
    /// A summary of the history is being made.
    Compaction,
    /// The tool has the request, another message waits for its turn.
    QueuedBehind,
}

/// What the tool's rule and check say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Safe,
    Keyed,
    Never,
    NeverCheckDone,
    NeverCheckNotDone,
    NeverCheckUnknown,
}

/// Which effects may run ahead of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    On,
    Strict,
}

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) point: Point,
    pub(super) rule: Rule,
    pub(super) durability: Durability,
    pub(super) wire: Wire,
}

const POINTS: [Point; 19] = [
    Point::AcceptedNotStarted,
    Point::ModelCallOpen,
    Point::ReplyNotRecorded,
    Point::CallRecordedNotStarted,
    Point::CallRunningDone,
    Point::CallRunningUndone,
    Point::CallFinishedNotRecorded,
    Point::SomeCallsFinished,
    Point::BetweenSteps,
    Point::LastReplyStreaming,
    Point::LastReplyNotRecorded,
    Point::WaitingForApproval,
    Point::ApprovedNotStarted,
    Point::WaitingForClient,
    Point::ModelBackoff,
    Point::CancelRecorded,
    Point::CancelNotRecorded,
    Point::Compaction,
    Point::QueuedBehind,
];

const RULES: [Rule; 6] = [
    Rule::Safe,
    Rule::Keyed,
    Rule::Never,
    Rule::NeverCheckDone,
    Rule::NeverCheckNotDone,
    Rule::NeverCheckUnknown,
];

impl Cell {
    /// All cells.
    pub(super) fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for point in POINTS {
            for rule in RULES {
                for durability in [Durability::On, Durability::Strict] {
                    for wire in [Wire::Anthropic, Wire::OpenAiChat] {
                        cells.push(Self {
                            point,
                            rule,
                            durability,
                            wire,
                        });
                    }
                }
            }
        }
        cells
    }

    /// Whether a model or `safe` call may have been started for a Record that was then lost.
    pub(super) fn runs_ahead(self) -> bool {
        self.rule == Rule::Safe && self.durability == Durability::On
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}/{:?}/{:?}/{:?}",
            self.point, self.rule, self.durability, self.wire
        )
    }
}

impl Point {
    /// The append at which the process ends itself; `None`: it is killed from outside.
    pub(super) fn crash_point(self) -> Option<CrashPoint> {
        let (moment, event, nth) = match self {
            Self::AcceptedNotStarted => (Moment::After, "turn_queued", 1),
            Self::ReplyNotRecorded => (Moment::Before, "model_replied", 1),
            Self::CallRecordedNotStarted => (Moment::After, "model_replied", 1),
            Self::CallFinishedNotRecorded => (Moment::Before, "call_settled", 1),
            Self::BetweenSteps => (Moment::After, "call_settled", 1),
            Self::LastReplyNotRecorded => (Moment::Before, "model_replied", 2),
            Self::ApprovedNotStarted => (Moment::After, "approval_decided", 1),
            Self::CancelRecorded => (Moment::After, "turn_ended", 1),
            Self::CancelNotRecorded => (Moment::Before, "turn_ended", 1),
            Self::ModelCallOpen
            | Self::CallRunningDone
            | Self::CallRunningUndone
            | Self::SomeCallsFinished
            | Self::LastReplyStreaming
            | Self::WaitingForApproval
            | Self::WaitingForClient
            | Self::ModelBackoff
            | Self::Compaction
            | Self::QueuedBehind => return None,
        };
        Some(CrashPoint {
            moment,
            event: event.to_owned(),
            nth,
        })
    }

    /// Whether the tool's outcome is lost: an attempt of it may have begun.
    pub(super) fn loses_an_outcome(self) -> bool {
        match self {
            Self::CallRecordedNotStarted
            | Self::CallRunningDone
            | Self::CallRunningUndone
            | Self::CallFinishedNotRecorded
            | Self::SomeCallsFinished
            | Self::ApprovedNotStarted
            | Self::CancelNotRecorded
            | Self::QueuedBehind => true,
            Self::AcceptedNotStarted
            | Self::ModelCallOpen
            | Self::ReplyNotRecorded
            | Self::BetweenSteps
            | Self::LastReplyStreaming
            | Self::LastReplyNotRecorded
            | Self::WaitingForApproval
            | Self::WaitingForClient
            | Self::ModelBackoff
            | Self::CancelRecorded
            | Self::Compaction => false,
        }
    }
}

impl Rule {
    /// As the configuration spells it.
    pub(super) fn replay(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Keyed => "keyed",
            Self::Never
            | Self::NeverCheckDone
            | Self::NeverCheckNotDone
            | Self::NeverCheckUnknown => "never",
        }
    }

    /// What the tool's check says, if it has one.
    pub(super) fn check(self) -> Option<Check> {
        match self {
            Self::Safe | Self::Keyed | Self::Never => None,
            Self::NeverCheckDone => Some(Check::Done(checked_result())),
            Self::NeverCheckNotDone => Some(Check::NotDone),
            Self::NeverCheckUnknown => Some(Check::Unknown),
        }
    }

    /// What becomes of a call whose outcome was lost.
    pub(super) fn recovery(self) -> Recovery {
        match self {
            Self::Safe | Self::Keyed | Self::NeverCheckNotDone => Recovery::RunAgain,
            Self::NeverCheckDone => Recovery::Checked,
            Self::Never | Self::NeverCheckUnknown => Recovery::InDoubt,
        }
    }
}

/// What becomes of a call whose outcome was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    /// It runs again, under the same key.
    RunAgain,
    /// Its result comes from the check.
    Checked,
    /// It is not run again, and the model is told that nobody knows.
    InDoubt,
}

/// Words in the result that a check gives, and in no other.
pub(super) const CHECKED: &str = "found in the books";

fn checked_result() -> Value {
    json!({ "ok": true, "by": CHECKED })
}

impl Durability {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Strict => "strict",
        }
    }
}
