//! Drives one session: turns inputs into Records, Records into state, state into running effects.
//!
//! ```text
//!            knocks (commands, mail, wake-ups)      outcomes of effects      deadlines
//!                         |                                 |                    |
//!                         v                                 v                    v
//!   Looking --owns--> decide --> Journal --append--> Log    (next wake-up of the loop)
//!      |                            |
//!      | nothing to do              +--committed--> answers, followers, Dispatcher
//!      v                                                        |
//!     gone <------ released, or ownership lost <----------------+ idle
//! ```
//!
//! The driver is plain async code over the ports: no actor library, no other clock than tokio's and
//! [`Clock`](steadfast_store::clock::Clock), no order that depends on the process. So tests and the simulator
//! run this very code on paused time. It owns all that it starts: dropping it ends everything.

mod activation;
mod alarm;
mod answers;
mod chores;
mod commands;
mod held;
mod landing;
mod letting_go;
mod mail;
mod opening;
mod outcome;
mod parking;
mod proof;
mod release;
mod remembering;

use std::collections::VecDeque;
use std::sync::Arc;

use steadfast_core::event::Event;
use steadfast_core::id::{Epoch, NodeId, Timestamp};
use steadfast_core::session::Existence;
use steadfast_protocol::record::Record;
use steadfast_store::log::Tail;
use steadfast_store::mailbox::Letter;
use tokio::time::Instant;

use crate::dispatch::{Dispatcher, Finished, Starts};
use crate::doors::{Knock, Seat};
use crate::host::Host;
use crate::journal::Journal;
use crate::open::{self, OpenError};
use crate::pack::Packer;
use alarm::Alarm;
use chores::{Chore, Chores};
use commands::Waiter;
use landing::{Landing, Round};
use letting_go::Going;
use mail::Mailroom;
use proof::Proof;

pub(crate) use parking::Start;

/// How the driver of a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing had to be done: the session was not taken over.
    NotNeeded,
    /// It stays in memory, idle: its next actor goes on from here.
    Parked,
    /// It was let go.
    Released,
    /// It met another owner and yields.
    Lost,
    /// Another node owned it already.
    Elsewhere(NodeId),
    /// It could not be read.
    NotOpened(OpenError),
    /// The store did not take its Records; whether the last one stands is for the next owner to see.
    GaveUp(String),
    /// The store had no room for its last Record, which certainly does not stand.
    NoRoom(String),
}

/// What a driver is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stance {
    /// It has read the session and does not own it.
    Looking,
    /// It has read the session, and another node owns it.
    Elsewhere,
    /// It owns the session, or is about to.
    Owning {
        /// Generation of this ownership.
        epoch: Epoch,
    },
    /// The same, but it starts nothing and lets go as soon as nothing runs.
    Draining {
        /// Generation of this ownership.
        epoch: Epoch,
        /// How hard.
        haste: Haste,
    },
    /// It decided to let go.
    Releasing,
}

/// How an owner comes to its safe point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Haste {
    /// What runs may end: the session goes to a node that drives.
    Handover,
    /// Models are not waited for, and calls only until then: the node stops.
    Drain {
        /// Then calls are cut off.
        until: Instant,
    },
}

/// All that can wake a driver.
enum WakeUp {
    Appended(Round),
    Finished(Box<Finished>),
    Knocked(Option<Knock>),
    ChoreDone(Chore),
    AlarmRang,
}

/// The driver of one session.
pub(crate) struct Driver {
    host: Arc<Host>,
    pub(crate) seat: Seat,
    stance: Stance,
    /// Who owns the session elsewhere.
    owner: Option<NodeId>,
    /// Since when it is owned here.
    owned_since: Option<Instant>,
    journal: Journal,
    landing: Option<Box<Landing>>,
    /// Version of this owner's entry in the index of owned sessions, once it is written.
    claim: Option<u64>,
    dispatcher: Dispatcher,
    waiters: VecDeque<Waiter>,
    proof: Proof,
    mailroom: Mailroom,
    chores: Chores,
    packer: Packer,
    /// Records that no snapshot is known to cover.
    records_since_snapshot: u64,
    /// As many of them start the next snapshot.
    snapshot_due: u64,
    /// What stands before a deletion and may be purged.
    purge_through: Option<Tail>,
    alarm: Alarm,
    idle_since: Option<Instant>,
    /// Whether it may go, when the node stops.
    going: Going,
    /// A deadline came and nothing followed: not looked at before this.
    deadline_rests_until: Option<Instant>,
    inbox_open: bool,
}

/// Drives a session until nobody needs it here any more.
pub(crate) async fn drive(host: Arc<Host>, start: Start) -> End {
    // What is done seldom is in a box of its own: what a driver has while it waits, it has for as
    // long as its session is at work.
    let opened = match start {
        Start::New(seat) => Box::pin(opening::open(host, seat)).await,
        Start::Parked(driver) => Ok((driver, Vec::new())),
    };
    let (end, taken_over, mut seat) = match opened {
        Ok((mut driver, mut letters)) => {
            let end = loop {
                match driver.run(std::mem::take(&mut letters)).await {
                    End::Parked => match driver.park() {
                        Ok(()) => return End::Parked,
                        Err(knocked) => driver = knocked,
                    },
                    end => break end,
                }
            };
            driver.refuse_all(&end).await;
            // Whether the log says that this owner has it.
            (end, driver.has_taken_over(), driver.seat)
        }
        Err((end, seat)) => (end, false, seat),
    };
    match &end {
        End::NotNeeded
        | End::Parked
        | End::Released
        | End::Lost
        | End::Elsewhere(_)
        | End::NotOpened(_) => seat.leave(),
        // The index still names the session, and it rests before it is opened again.
        End::GaveUp(_) => {}
        End::NoRoom(_) if !taken_over => seat.leave(),
        End::NoRoom(_) => {}
    }
    end
}

impl Driver {
    fn new(host: Arc<Host>, seat: Seat, opened: open::Opened, owner: Option<NodeId>) -> Self {
        let key = seat.key.clone();
        let journal = Journal::new(opened.session, opened.tail, opened.last_record);
        seat.show(journal.committed());
        Self {
            dispatcher: Dispatcher::new(Arc::clone(&host), key, Arc::clone(&seat.feed)),
            seat,
            stance: match owner {
                Some(_) => Stance::Elsewhere,
                None => Stance::Looking,
            },
            owner,
            owned_since: None,
            journal,
            landing: None,
            claim: None,
            waiters: VecDeque::new(),
            proof: Proof::default(),
            mailroom: Mailroom::default(),
            chores: Chores::new(),
            packer: Packer::knowing(opened.receipt_runs),
            snapshot_due: host.options.snapshot_records,
            records_since_snapshot: opened.records_since_snapshot,
            purge_through: opened.purge_through,
            alarm: Alarm::default(),
            idle_since: None,
            going: Going::default(),
            deadline_rests_until: None,
            inbox_open: true,
            host,
        }
    }

    /// Mail comes first: what was receipted before is never overtaken.
    async fn run(&mut self, letters: Vec<Letter>) -> End {
        if !letters.is_empty() {
            Box::pin(self.first_letters(letters)).await;
        }
        loop {
            if let Some(end) = self.advance() {
                return end;
            }
            if self.may_park() {
                return End::Parked;
            }
            let wake_up = self.next().await;
            if let Some(end) = self.handle(wake_up).await {
                return end;
            }
        }
    }

    async fn next(&mut self) -> WakeUp {
        let takes_commands = self.takes_commands();
        tokio::select! { biased;
            round = landing::next(&mut self.landing) => WakeUp::Appended(round),
            finished = self.dispatcher.next() => WakeUp::Finished(Box::new(finished)),
            chore = self.chores.next() => WakeUp::ChoreDone(chore),
            knock = self.seat.inbox.recv(), if takes_commands => WakeUp::Knocked(knock),
            () = self.alarm.rings() => WakeUp::AlarmRang,
        }
    }

    /// Whether questions are looked at now; others wait, or are for the next owner.
    fn takes_commands(&self) -> bool {
        let lets_go = match self.stance {
            Stance::Looking | Stance::Elsewhere => false,
            Stance::Owning { .. } | Stance::Draining { .. } => self.is_gone(),
            Stance::Releasing => true,
        };
        let mail_first = self.mailroom.stands_first();
        self.inbox_open && !lets_go && !mail_first && self.journal.has_room()
    }

    /// Whether the log says that this owner has the session.
    fn has_taken_over(&self) -> bool {
        match self.stance {
            Stance::Looking | Stance::Elsewhere => false,
            Stance::Owning { epoch } | Stance::Draining { epoch, .. } => {
                self.journal.committed().epoch == epoch
            }
            Stance::Releasing => true,
        }
    }

    /// The session's time.
    fn now(&self) -> Timestamp {
        self.journal.now(self.host.now())
    }

    /// Whether this owner's generation is over when the log has this one.
    fn is_superseded(&self, by: Epoch) -> bool {
        match self.stance {
            Stance::Looking | Stance::Elsewhere => false,
            Stance::Owning { epoch } | Stance::Draining { epoch, .. } => epoch < by,
            Stance::Releasing => self.journal.decided().epoch < by,
        }
    }

    /// Whether the owned session was deleted, or never came to be.
    fn is_gone(&self) -> bool {
        matches!(self.journal.decided().existence, Existence::Absent)
    }

    async fn handle(&mut self, wake_up: WakeUp) -> Option<End> {
        match wake_up {
            WakeUp::Appended(round) => return self.appended(round).await,
            WakeUp::Finished(finished) => self.finished(*finished),
            WakeUp::Knocked(Some(Knock::Superseded { epoch })) if self.is_superseded(epoch) => {
                tracing::info!(session = %self.seat.key, "session was lost to another owner");
                return Some(End::Lost);
            }
            WakeUp::Knocked(Some(knock)) => Box::pin(self.knocked(knock)).await,
            WakeUp::Knocked(None) => self.inbox_open = false,
            WakeUp::ChoreDone(Chore::TailRead(tail)) => return self.tail_read(tail),
            WakeUp::ChoreDone(Chore::ReceiptsRead(read)) => return self.receipts_read(read),
            WakeUp::ChoreDone(chore) => Box::pin(self.chore_done(chore)).await,
            WakeUp::AlarmRang => self.alarm_rang(),
        }
        None
    }

    /// Does all that the states allow now: closes the next Record, starts and aborts effects, lets
    /// go.
    fn advance(&mut self) -> Option<End> {
        self.hand_over_if_due();
        match self.stance {
            Stance::Looking => {
                if let Some(detail) = self.mailroom.newer_release() {
                    return Some(End::NotOpened(OpenError::NewerVersion(detail)));
                }
                // Nobody asks for anything: there is no reason to own the session.
                let asked = self.inbox_open && !self.seat.inbox.is_empty();
                return (!asked && self.chores.is_empty()).then_some(End::NotNeeded);
            }
            Stance::Elsewhere => {
                let asked = self.inbox_open && !self.seat.inbox.is_empty();
                let owner = self.owner.clone().filter(|_| !asked);
                return owner.map(End::Elsewhere);
            }
            Stance::Owning { epoch } => {
                self.dispatcher
                    .reconcile(&self.journal, self.starts(epoch, Starts::All));
            }
            Stance::Draining { epoch, haste } => self.come_to_rest(epoch, haste),
            Stance::Releasing => {}
        }
        self.release_if_idle();
        if let Err(detail) = self.depart() {
            return Some(End::GaveUp(detail));
        }
        self.set_alarm();
        None
    }

    /// A new owner starts nothing before its own take-over is committed.
    fn starts(&self, epoch: Epoch, then: Starts) -> Starts {
        if self.journal.committed().epoch == epoch {
            then
        } else {
            Starts::Nothing
        }
    }

    /// Hands the next Record to the log, if there is one and none is in flight.
    fn depart(&mut self) -> Result<(), String> {
        if self.landing.is_some() {
            return Ok(());
        }
        // Its size was bounded before it was decided; if that failed, the session must not spin.
        let departure = self
            .journal
            .depart(&self.host.node, self.host.options.record_bytes_max)
            .map_err(|error| error.to_string())?;
        if departure.is_some() {
            self.proof.departs();
        }
        self.landing = departure
            .map(|departure| Landing::begin(&self.host, &self.seat.key, departure, self.claim))
            .map(Box::new);
        Ok(())
    }

    /// A Record is committed: who waits for it is told, and what it asks for may run.
    fn landed(&mut self, tail: Tail, fence: Tail, bytes: usize) {
        let Some(record) = self.journal.land(tail) else {
            return;
        };
        self.records_since_snapshot += 1;
        self.seat.show(self.journal.committed());
        self.seat.takes_over(!self.has_taken_over());
        self.note(&record, fence);
        self.seat.feed.commit(record, bytes);
        self.proven_by_commit();
        self.answer_committed();
        self.keep_house();
    }

    /// What of a Record matters beside the state.
    fn note(&mut self, record: &Record, fence: Tail) {
        for event in record.entries.iter().flat_map(|entry| &entry.events) {
            match event {
                Event::ModelReplied { turn, step, .. } => self.seat.feed.close_step(*turn, *step),
                Event::SessionDeleted if fence != Tail::EMPTY => {
                    self.purge_through = Some(fence);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_bytes<A, B, F: Future>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_driver_that_waits_is_small() {
        let bytes = future_bytes(drive) + size_of::<Driver>();
        assert!(bytes <= 4 * 1024, "{bytes} bytes");
    }

    #[test]
    fn a_driver_that_is_parked_is_smaller() {
        let bytes = size_of::<Driver>();
        assert!(bytes <= 1_280, "{bytes} bytes");
    }
}
