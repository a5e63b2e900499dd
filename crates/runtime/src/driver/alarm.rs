//! One timer for all that a driver waits for.

use std::pin::Pin;

use tokio::time::{Instant, Sleep};

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
