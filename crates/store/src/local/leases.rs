//! Leases of nodes that are all in this process.

use std::sync::Mutex;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use steadfast_core::id::NodeId;
use tokio::sync::mpsc;

use super::lock;
use crate::error::{ReadError, WriteError};
use crate::membership::{LeaseSignal, Membership};

/// Signals that wait for one watcher, at most; one that is slower is told of an interruption.
const SIGNALS_MAX: usize = 1_024;

/// The leases behind [`Membership`]: signs of life are passed on, and nothing is kept.
#[derive(Debug)]
pub struct LocalMembership {
    alone: bool,
    watchers: Mutex<Vec<Watcher>>,
}

#[derive(Debug)]
struct Watcher {
    queue: mpsc::Sender<LeaseSignal>,
    missed: bool,
}

impl LocalMembership {
    /// Of a store that one process has at a time.
    pub fn alone() -> Self {
        Self::new(true)
    }

    /// Of a store that several nodes of this process share.
    pub fn shared() -> Self {
        Self::new(false)
    }

    fn new(alone: bool) -> Self {
        Self {
            alone,
            watchers: Mutex::default(),
        }
    }

    fn signal(&self, signal: &LeaseSignal) {
        let mut watchers = lock(&self.watchers);
        watchers.retain(|watcher| !watcher.queue.is_closed());
        for watcher in watchers.iter_mut() {
            watcher.offer(signal);
        }
    }
}

impl Watcher {
    /// The last place is for the news that something was missed.
    fn offer(&mut self, signal: &LeaseSignal) {
        if self.missed && self.queue.capacity() < SIGNALS_MAX / 2 {
            return;
        }
        self.missed = self.queue.capacity() <= 1;
        let signal = if self.missed {
            LeaseSignal::Interrupted
        } else {
            signal.clone()
        };
        // Who left needs no signal; who is full was told before.
        let _gone = self.queue.try_send(signal);
    }
}

#[async_trait]
impl Membership for LocalMembership {
    fn is_alone(&self) -> bool {
        self.alone
    }

    async fn renew(&self, node: &NodeId) -> Result<(), WriteError> {
        self.signal(&LeaseSignal::Renewed(node.clone()));
        Ok(())
    }

    async fn end(&self, node: &NodeId) -> Result<(), WriteError> {
        self.signal(&LeaseSignal::Ended(node.clone()));
        Ok(())
    }

    async fn watch(&self) -> Result<BoxStream<'static, LeaseSignal>, ReadError> {
        let (queue, receiver) = mpsc::channel(SIGNALS_MAX);
        let watcher = Watcher {
            queue,
            missed: false,
        };
        lock(&self.watchers).push(watcher);
        let signals = stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        });
        Ok(signals.boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_watcher_is_told_that_it_missed_something() {
        let leases = LocalMembership::shared();
        let mut watch = leases.watch().await.unwrap();
        let node = NodeId::new("n").unwrap();
        for _ in 0..2 * SIGNALS_MAX {
            leases.renew(&node).await.unwrap();
        }
        let mut heard = Vec::new();
        for _ in 0..SIGNALS_MAX {
            heard.push(watch.next().await.unwrap());
        }
        assert_eq!(heard.last(), Some(&LeaseSignal::Interrupted));
        leases.renew(&node).await.unwrap();
        assert_eq!(watch.next().await, Some(LeaseSignal::Renewed(node)));
    }
}
