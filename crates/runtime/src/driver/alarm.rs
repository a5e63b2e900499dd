//! One timer for all that a driver waits for.

use std::pin::Pin;

use steadfast_core::input::Input;
use steadfast_core::next_deadline;
use steadfast_protocol::record::Cause;
use tokio::time::{Duration, Instant, Sleep};

use super::{Driver, Haste, Stance};

/// A timer that may ring too early and never too late: who is woken looks what is due, and sets it
/// again. So a deadline that moves away costs nothing.
#[derive(Default)]
pub(super) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    set_to: Option<Instant>,
}

impl Alarm {
    /// Makes sure that it rings at this time at the latest.
    pub(super) fn set(&mut self, at: Instant) {
        if self.set_to.is_some_and(|set| set <= at) {
            return;
        }
        self.set_to = Some(at);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(at),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(at))),
        }
    }

    /// Waits until it rings; for ever while it is not set.
    pub(super) async fn rings(&mut self) {
        match &mut self.sleep {
            Some(sleep) if self.set_to.is_some() => {
                sleep.as_mut().await;
                self.set_to = None;
            }
            _ => std::future::pending().await,
        }
    }
}

impl Driver {
    /// Looks what is due.
    pub(super) fn alarm_rang(&mut self) {
        let now = self.now();
        let owning = matches!(self.stance, Stance::Owning { .. });
        if owning && next_deadline(self.journal.decided()).is_some_and(|at| at <= now) {
            let decided = self.journal.decide(&Input::TimerFired, Cause::Timer, now);
            // Time alone must change the state then; if it ever does not, the session must not spin.
            self.deadline_rests_until =
                (decided.events == 0).then(|| Instant::now() + self.host.options.futile_rest);
        }
    }

    /// Sets the alarm for whatever comes first.
    pub(super) fn set_alarm(&mut self) {
        if let Some(at) = self.alarm_at() {
            self.alarm.set(at);
        }
    }

    /// When something is due.
    pub(crate) fn alarm_at(&self) -> Option<Instant> {
        let mut at = self.dispatcher.rested_at();
        let mut add =
            |instant: Instant| at = Some(at.map_or(instant, |at: Instant| at.min(instant)));
        match self.stance {
            Stance::Owning { .. } => {
                if let Some(deadline) = next_deadline(self.journal.decided()) {
                    let wait_ms = deadline.0.saturating_sub(self.now().0);
                    let at = Instant::now() + Duration::from_millis(wait_ms);
                    add(self.deadline_rests_until.map_or(at, |rest| at.max(rest)));
                }
                if let Some(at) = self.handover_at() {
                    add(at);
                }
                // What is due soon rings by itself, above.
                if let Some(since) = self.quiet_since().filter(|_| !self.is_due_soon()) {
                    add(since + self.idle_after());
                }
            }
            // Once its time is over, all that runs was told to stop and ends by itself.
            Stance::Draining {
                haste: Haste::Drain { until },
                ..
            } if until > Instant::now() => add(until),
            Stance::Draining { .. } => {}
            Stance::Looking | Stance::Elsewhere | Stance::Releasing => {}
        }
        at
    }
}
