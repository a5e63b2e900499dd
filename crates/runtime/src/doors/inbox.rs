//! How a knock reaches who hears it: a driver at work, or one that is parked and wakes for it.
//!
//! All that is put into a driver's inbox is put there under the door's lock, and a driver is parked
//! under it, too: so a parked driver has missed nothing, and nothing is lost between the two.

use std::sync::{Arc, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::lot::Ticket;
use super::{Door, Doors, Knock};
use crate::driver::Driver;

/// Who hears a knock.
pub(super) enum Hearing {
    /// A driver at work.
    Driver(mpsc::Sender<Knock>),
    /// A driver without an actor.
    Parked {
        driver: Box<Driver>,
        /// When something is due for it.
        ticket: Option<Ticket>,
    },
}

/// What became of a knock.
enum Given {
    Heard,
    /// It must be given to an actor.
    Woken(Box<Driver>),
    Full(Knock, mpsc::Sender<Knock>),
    Leaving,
}

/// Why a knock was not heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unheard {
    /// The owner takes no questions any more.
    Leaving,
    /// The owner was parked and could not be given an actor.
    NotWoken(String),
}

/// What knocked at a driver's door and was not looked at. A parked driver has none.
pub(crate) struct Inbox(Option<mpsc::Receiver<Knock>>);

impl Inbox {
    pub(super) fn new(bound: usize) -> (mpsc::Sender<Knock>, Self) {
        let (sender, receiver) = mpsc::channel(bound.max(1));
        (sender, Self(Some(receiver)))
    }

    /// The next one; `None` once it is closed and all was taken.
    pub(crate) async fn recv(&mut self) -> Option<Knock> {
        self.0.as_mut()?.recv().await
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, mpsc::Receiver::len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes no more.
    pub(crate) fn close(&mut self) {
        if let Some(receiver) = &mut self.0 {
            receiver.close();
        }
    }
}

impl Door {
    fn hearing(&self) -> MutexGuard<'_, Hearing> {
        // Changed by single assignments: a panic elsewhere means nothing here.
        self.hearing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Knocks where nobody sits yet; one that finds no room is dropped.
    pub(crate) fn hint(&self, knock: Knock) -> bool {
        match &*self.hearing() {
            Hearing::Driver(sender) => sender.try_send(knock).is_ok(),
            Hearing::Parked { .. } => false,
        }
    }
}

impl Doors {
    /// Asks an owner something; waits while too many others do.
    pub(crate) async fn knock(&self, door: &Arc<Door>, knock: Knock) -> Result<(), Unheard> {
        let (mut knock, mut place) = (knock, None);
        loop {
            let full;
            (knock, full) = match self.give(door, knock, place.take()) {
                Given::Heard => return Ok(()),
                Given::Woken(driver) => return self.employ(driver).await,
                Given::Full(knock, full) => (knock, full),
                Given::Leaving => return Err(Unheard::Leaving),
            };
            // In the order in which they came. Whose driver is gone or parked looks again.
            place = full.reserve_owned().await.ok();
        }
    }

    fn give(&self, door: &Door, knock: Knock, place: Option<mpsc::OwnedPermit<Knock>>) -> Given {
        let mut hearing = door.hearing();
        if let Some(driver) = self.wake(&mut hearing) {
            let Hearing::Driver(sender) = &*hearing else {
                return Given::Leaving;
            };
            // An inbox that was made just now has room.
            return match sender.try_send(knock) {
                Ok(()) => Given::Woken(driver),
                Err(_) => Given::Leaving,
            };
        }
        let Hearing::Driver(sender) = &*hearing else {
            return Given::Leaving;
        };
        match place.filter(|place| place.same_channel_as_sender(sender)) {
            Some(place) => {
                place.send(knock);
                Given::Heard
            }
            None => match sender.try_send(knock) {
                Ok(()) => Given::Heard,
                Err(TrySendError::Full(knock)) => Given::Full(knock, sender.clone()),
                Err(TrySendError::Closed(_)) => Given::Leaving,
            },
        }
    }

    /// Takes a parked driver out, with an inbox of its own.
    fn wake(&self, hearing: &mut Hearing) -> Option<Box<Driver>> {
        if matches!(hearing, Hearing::Driver(_)) {
            return None;
        }
        let (sender, inbox) = Inbox::new(self.host.options.door_commands_max);
        match std::mem::replace(hearing, Hearing::Driver(sender)) {
            Hearing::Driver(_) => None,
            Hearing::Parked { mut driver, ticket } => {
                if let Some(ticket) = ticket {
                    self.lot.forget(ticket);
                }
                driver.seat.inbox = inbox;
                Some(driver)
            }
        }
    }

    async fn employ(&self, driver: Box<Driver>) -> Result<(), Unheard> {
        let employed = self.spawn(driver.into()).await;
        employed.map_err(|error| Unheard::NotWoken(error.to_string()))
    }

    /// Parks a driver that waits for a knock, or for a time, and for nothing else: from now on it
    /// has no actor. Gives it back if somebody has just knocked, or the node goes away.
    pub(crate) fn park(&self, driver: Box<Driver>) -> Result<(), Box<Driver>> {
        let door = Arc::clone(&driver.seat.door);
        let mut hearing = door.hearing();
        if self.is_closed() || !driver.seat.inbox.is_empty() {
            return Err(driver);
        }
        let mut driver = driver;
        driver.seat.inbox = Inbox(None);
        let due = driver.alarm_at();
        let ticket = due.map(|at| self.lot.add(at, Arc::clone(&door)));
        *hearing = Hearing::Parked { driver, ticket };
        Ok(())
    }

    /// Gives an actor to parked drivers for whom something is due, each in its time.
    pub(crate) async fn wake_the_due(&self) {
        loop {
            let door = self.lot.due().await;
            let driver = self.wake(&mut door.hearing());
            if let Some(driver) = driver
                && let Err(error) = self.employ(driver).await
            {
                tracing::error!(?error, "parked session without an actor");
            }
        }
    }

    /// Drops all parked drivers, as a crash does.
    pub(crate) fn abandon_parked(&self) {
        for door in self.all() {
            // Outside the lock, and with nobody who hears.
            let driver = self.wake(&mut door.hearing());
            drop(driver);
        }
    }
}
