//! Bugs of what surrounds the core, put back as ports that make them.
//!
//! ```text
//!   runtime --> mistakes of a node --> faults --> mistakes of the store --> watch --> memory
//! ```

mod claims;
mod index;
mod log;
mod mailbox;
mod membership;
mod timers;

use std::sync::Arc;

use steadfast_store::{Stores, ToolQueue};

use super::setup::Mistake;
use super::world::World;

/// Puts the run's mistake into the store itself.
pub(super) fn of_the_store(stores: &mut Stores, world: &World) {
    let Some(mistake) = world.setup.mistake else {
        return;
    };
    match mistake {
        Mistake::LostMail
        | Mistake::MailRemovedWhenRead
        | Mistake::MailRemovedAtDelivery
        | Mistake::ReleaseLosesWakeUp => {
            stores.mailbox = Arc::new(mailbox::MistakenMailbox {
                inner: Arc::clone(&stores.mailbox),
                mistake,
                world: world.clone(),
            });
        }
        Mistake::IndexForgets | Mistake::EntryRemovedByName => {
            let inner = Arc::clone(&stores.active);
            stores.active = Arc::new(index::MistakenIndex::new(inner, mistake));
        }
        Mistake::TimersAsleep | Mistake::OldTimerReplacesNewer => {
            let inner = Arc::clone(&stores.timers);
            stores.timers = Arc::new(timers::MistakenTimers::new(inner, mistake));
        }
        Mistake::JobRunsWithoutClaim => {
            stores.tool_queue = stores.tool_queue.take().map(|queue| ToolQueue {
                claims: Arc::new(claims::NoClaims),
                ..queue
            });
        }
        Mistake::StaleReadTaken => {
            let inner = Arc::clone(&stores.log);
            stores.log = Arc::new(log::StaleLog::new(inner, world.clone()));
        }
        Mistake::AppendWithoutFence
        | Mistake::RecordWithoutSizeCap
        | Mistake::AckWithoutRecord
        | Mistake::ReadOutOfOrder
        | Mistake::UnknownToldAsFailed
        | Mistake::IndexWrittenLate
        | Mistake::SuspectsDuringElection
        | Mistake::LettingGoCutsCalls => {}
    }
}

/// Puts the run's mistake between a node and its connection.
pub(super) fn of_a_node(stores: &mut Stores, world: &World) {
    match world.setup.mistake {
        Some(mistake @ Mistake::IndexWrittenLate) => {
            let inner = Arc::clone(&stores.active);
            stores.active = Arc::new(index::MistakenIndex::new(inner, mistake));
        }
        Some(Mistake::SuspectsDuringElection) => {
            let inner = Arc::clone(&stores.membership);
            stores.membership = Arc::new(membership::HopefulMembership::new(inner));
            let inner = Arc::clone(&stores.node_doors);
            stores.node_doors = Arc::new(membership::UnaskedDoors { inner });
        }
        _ => {}
    }
}
