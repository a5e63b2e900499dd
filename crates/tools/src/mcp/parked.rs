//! Calls that a server holds open while somebody is asked.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use rmcp::model::ElicitResult;
use rmcp::service::{RequestHandle, RoleClient};
use tokio::sync::{mpsc, oneshot};

use crate::mcp::handler::{Ask, Entered};

/// Calls of one server that are held open, at most: the oldest is given up for one more.
const PARKED_MAX: usize = 64;

/// A request that was sent and has no answer yet.
pub(super) struct Sent {
    pub(super) request: RequestHandle<RoleClient>,
    pub(super) entered: Entered,
    pub(super) asks: mpsc::Receiver<Ask>,
}

/// One whose server waits to be told something.
pub(super) struct Held {
    pub(super) sent: Sent,
    pub(super) answer: oneshot::Sender<ElicitResult>,
}

/// All of a server, by the key of their calls.
#[derive(Default)]
pub(super) struct Parked {
    calls: Mutex<VecDeque<(String, Held)>>,
}

impl Parked {
    /// Keeps a call; what is given back is given up for it.
    pub(super) fn put(&self, key: String, held: Held) -> Option<Held> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever closed the connection has ended these.
        calls.retain(|(_, held)| !held.answer.is_closed());
        calls.push_back((key, held));
        if calls.len() > PARKED_MAX {
            return calls.pop_front().map(|(_, held)| held);
        }
        None
    }

    /// Takes a call out.
    pub(super) fn take(&self, key: &str) -> Option<Held> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let position = calls.iter().position(|(of, _)| of == key)?;
        calls.remove(position).map(|(_, held)| held)
    }
}
