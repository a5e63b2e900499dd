//! Parking: an idle session stays in memory as it is, without an actor.

use std::sync::Arc;

use steadfast_core::id::SessionKey;
use tokio::time::Instant;

use super::alarm::Alarm;
use super::{Driver, Stance};
use crate::doors::Seat;

/// What an actor takes over.
pub(crate) enum Start {
    /// A session that was not in memory.
    New(Seat),
    /// One that was parked.
    Parked(Box<Driver>),
}

impl Start {
    pub(crate) fn key(&self) -> &SessionKey {
        match self {
            Self::New(seat) => &seat.key,
            Self::Parked(driver) => &driver.seat.key,
        }
    }
}

impl From<Box<Driver>> for Start {
    fn from(driver: Box<Driver>) -> Self {
        Self::Parked(driver)
    }
}

impl Driver {
    /// Whether nothing is under way here, and nothing is due: what comes next is a knock, or a time.
    /// A node that does not drive keeps its sessions for a short time only, and at work.
    pub(super) fn may_park(&self) -> bool {
        matches!(self.stance, Stance::Owning { .. })
            && self.idle_since.is_some()
            && self.takes_commands()
            && self.seat.inbox.is_empty()
            && self.mailroom.is_idle()
            && self.host.options.drives
            && !self.seat.doors.is_closed()
            && self.alarm_at().is_none_or(|at| at > Instant::now())
    }

    /// Leaves the session to its door, if nobody has knocked by now.
    pub(super) fn park(mut self: Box<Self>) -> Result<(), Box<Self>> {
        // With them goes what would wake the actor that ends now.
        self.alarm = Alarm::default();
        self.chores.forget_waker();
        self.dispatcher.forget_waker();
        self.waiters.shrink_to_fit();
        let doors = Arc::clone(&self.seat.doors);
        doors.park(self)
    }
}
