//! The way of an owned session to the point at which it can be let go.
//!
//! Nothing new is started. When the node stops, a model is not waited for longer than until it is
//! the session's turn to go: the next owner asks again.
//! A running call of this process may end, whatever its rule; once the node's grace is over it is
//! cut off: what may be repeated is run again under its key, the rest is in doubt.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use steadfast_core::id::Epoch;
use steadfast_core::input::{CallOutcome, Input, ReplayRule};
use tokio::time::Instant;

use super::chores::Chore;
use super::{Driver, Haste, Stance};
use crate::dispatch::Starts;
use crate::handover::Turn;

/// How far a session is on its way out of a node that stops.
#[derive(Default)]
pub(super) enum Going {
    /// It did not ask whether it may go.
    #[default]
    Unasked,
    /// It waits for its turn.
    Asked,
    /// It may go, and this is held until another node has it.
    Now(Turn),
}

impl Driver {
    /// The node lets go of its sessions.
    pub(super) fn drain(&mut self) {
        let until = Instant::now() + self.host.options.drain_grace;
        let haste = Haste::Drain { until };
        match self.stance {
            // What stands at the door is refused.
            Stance::Looking | Stance::Elsewhere => self.inbox_open = false,
            Stance::Owning { epoch } | Stance::Draining { epoch, .. } => {
                self.stance = Stance::Draining { epoch, haste };
            }
            Stance::Releasing => {}
        }
    }

    /// When a session is handed over to a node that drives, if this one does not.
    pub(super) fn handover_at(&self) -> Option<Instant> {
        let options = &self.host.options;
        let since = self.owned_since.filter(|_| !options.drives)?;
        since.checked_add(options.handover_after)
    }

    pub(super) fn hand_over_if_due(&mut self) {
        if let Stance::Owning { epoch } = self.stance
            && self.handover_at().is_some_and(|at| at <= Instant::now())
        {
            let haste = Haste::Handover;
            self.stance = Stance::Draining { epoch, haste };
        }
    }

    /// The client whose request began the turn went away: there is no reason to keep it here, unless
    /// this node drives.
    pub(super) fn client_left(&mut self) {
        if let Stance::Owning { epoch } = self.stance
            && !self.host.options.drives
        {
            let haste = Haste::Handover;
            self.stance = Stance::Draining { epoch, haste };
        }
    }

    /// Starts nothing but what the log says was started, and stops what is not waited for.
    pub(super) fn come_to_rest(&mut self, epoch: Epoch, haste: Haste) {
        let started = self.starts(epoch, Starts::StartedCalls);
        self.dispatcher.cancel_notices();
        match haste {
            Haste::Handover => self.dispatcher.reconcile(&self.journal, started),
            Haste::Drain { until } if Instant::now() < until => {
                self.dispatcher.reconcile(&self.journal, started);
                match self.going {
                    // It takes nobody's turn while it waits for a tool.
                    Going::Unasked if !self.dispatcher.runs_calls() => self.ask_to_go(),
                    Going::Unasked | Going::Asked => {}
                    Going::Now(_) => self.dispatcher.cancel_models(),
                }
            }
            Haste::Drain { .. } => {
                self.dispatcher.reconcile(&self.journal, Starts::Nothing);
                self.dispatcher.cancel_all();
            }
        }
    }

    fn ask_to_go(&mut self) {
        let host = Arc::clone(&self.host);
        self.chores
            .spawn(async move { Chore::MayGo(host.handover.turn().await) });
        self.going = Going::Asked;
    }

    /// Whether it may go now. Once the node's time is over, nobody waits for a turn.
    pub(super) fn may_go(&self, haste: Haste) -> bool {
        match haste {
            Haste::Handover => true,
            Haste::Drain { until } => {
                matches!(self.going, Going::Now(_)) || Instant::now() >= until
            }
        }
    }

    /// Counts a call that was cut off.
    pub(super) fn count_cut(&self, input: &Input) {
        let Stance::Draining {
            haste: Haste::Drain { until },
            ..
        } = self.stance
        else {
            return;
        };
        if let Input::CallFinished {
            call,
            outcome: CallOutcome::Unknown { .. },
            ..
        } = input
            && Instant::now() >= until
            && let Some(call) = self.journal.decided().call(*call)
        {
            let count = match call.triage.rule {
                ReplayRule::Safe | ReplayRule::Keyed => &self.host.cut.repeated,
                ReplayRule::Never => &self.host.cut.in_doubt,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
