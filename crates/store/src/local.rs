//! Parts of stores whose clients are all in this process: who is woken, when, in what order.
//!
//! They hold nothing durable. A store fills them from what it keeps when it opens, and tells them
//! of each change after it is durable.

mod leases;
mod live;
mod mail_queue;
mod node_doors;
mod signals;
mod timer_queue;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use leases::LocalMembership;
pub use live::LocalLive;
pub use mail_queue::MailQueue;
pub use node_doors::LocalNodeDoors;
pub use signals::Signals;
pub use timer_queue::TimerQueue;

/// Locks; a panic elsewhere never leaves the guarded values half changed, so poison means nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
