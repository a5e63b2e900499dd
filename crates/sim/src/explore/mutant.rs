//! Known bugs that can be put back, to prove that the search would find them.

use steadfast_core::event::{Event, Settlement};
use steadfast_core::id::Epoch;

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// The epoch never rises, so two owners give one id to two calls.
    IdWithoutEpoch,
    /// An owner starts work before its own `Activated` is committed.
    EffectBeforeActivated,
    /// An owner that meets a conflict takes the session back by itself.
    ConflictReactivates,
    /// The owner's door decides a command before mail that has waited longer.
    AdmissionOvertakesMail,
    /// A call in doubt is settled as if it never ran.
    DoubtSettledAsDeclined,
    /// A decided cancel does not hold back a call whose Record is committed after it.
    CancelLetsDecidedCallStart,
    /// An answer that comes late settles its call again.
    LateAnswerRewrites,
    /// Work runs ahead of a Record that is not even in flight.
    TwoStepsAhead,
    /// A `keyed` or `never` call runs ahead of its Record.
    NeverRunsAhead,
    /// A take-over runs a started `never` call again.
    NeverRunsAgain,
    /// After an unknown outcome the owner goes on as if the append had failed.
    UnknownTakenAsFailed,
    /// A repeated command is decided again.
    NoDedupe,
    /// A remote worker runs a `never` job without claiming it.
    JobWithoutClaim,
    /// A cancel says that a job never ran without claiming it.
    CancelWithoutClaim,
    /// A claim belongs to a worker, and stands for every delivery that it is given.
    ClaimOfWorker,
    /// An owner that lets go forgets to say when to look again.
    ReleaseLosesWakeUp,
    /// A tool that said «not done» refuses lower epochs only, so a late request of the same owner
    /// acts beside its repetition.
    FenceWithoutAttempt,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::IdWithoutEpoch,
        Self::EffectBeforeActivated,
        Self::ConflictReactivates,
        Self::AdmissionOvertakesMail,
        Self::DoubtSettledAsDeclined,
        Self::CancelLetsDecidedCallStart,
        Self::LateAnswerRewrites,
        Self::TwoStepsAhead,
        Self::NeverRunsAhead,
        Self::NeverRunsAgain,
        Self::UnknownTakenAsFailed,
        Self::NoDedupe,
        Self::JobWithoutClaim,
        Self::CancelWithoutClaim,
        Self::ClaimOfWorker,
        Self::ReleaseLosesWakeUp,
        Self::FenceWithoutAttempt,
    ];

    /// Changes a decided fact, for the bugs that live in the core.
    pub(super) fn distort(self, event: Event) -> Event {
        match (self, event) {
            (Self::IdWithoutEpoch, Event::Activated { node, policy, .. }) => Event::Activated {
                node,
                epoch: Epoch(1),
                policy,
            },
            (
                Self::DoubtSettledAsDeclined,
                Event::CallSettled {
                    call,
                    settlement: Settlement::InDoubt,
                    output,
                },
            ) => Event::CallSettled {
                call,
                settlement: Settlement::Superseded,
                output,
            },
            (Self::LateAnswerRewrites, Event::CallResolved { call, output }) => {
                Event::CallSettled {
                    call,
                    settlement: Settlement::Done,
                    output,
                }
            }
            (
                Self::NeverRunsAgain,
                Event::CallSettled {
                    call,
                    settlement: Settlement::InDoubt,
                    ..
                },
            ) => Event::CallStarted {
                call,
                attempt: 2,
                deadline: steadfast_core::id::Timestamp(u64::MAX),
            },
            (_, event) => event,
        }
    }
}
