//! Letting a session go: for idleness, a drain, or because it was deleted.
//!
//! The order matters. `Released` is committed first; then the timer or the wake-up is set; then the
//! index forgets the session. A crash in between leaves the session in the index, where it is found.

use std::sync::Arc;

use steadfast_core::effect::Wake;
use steadfast_core::input::Input;
use steadfast_core::next_deadline;
use steadfast_core::session::{Existence, Ownership, Session};
use steadfast_protocol::mail::{self, Mail};
use steadfast_protocol::record::Cause;
use steadfast_store::mailbox::{Lane, SendError};
use tokio::time::Instant;

use super::chores::Chore;
use super::letting_go::Going;
use super::{Driver, End, Stance};
use crate::directory;
use crate::handover::News;

impl Driver {
    /// Decides to let go, when there is nothing to do here or the node wants to.
    pub(super) fn release_if_idle(&mut self) {
        let settled =
            self.journal.is_settled() && self.waiters.is_empty() && self.mailroom.held.is_none();
        // What was deleted answers nothing any more: who stands at its door is for the next owner.
        let quiet = settled && (self.is_gone() || self.seat.inbox.is_empty());
        let due = match self.stance {
            Stance::Owning { .. } => {
                let idle = settled && self.chores.is_empty() && self.dispatcher.is_idle();
                if idle && self.idle_since.is_none() {
                    self.slim();
                    self.idle_since = Some(Instant::now());
                } else if !idle {
                    self.idle_since = None;
                }
                let waited = self
                    .quiet_since()
                    .is_some_and(|since| since.elapsed() >= self.idle_after());
                // What was deleted goes at once, before somebody makes it again.
                idle && (self.is_gone() || (waited && quiet && !self.is_due_soon()))
            }
            Stance::Draining { haste, .. } => {
                quiet && self.dispatcher.is_quiet() && self.may_go(haste)
            }
            Stance::Looking | Stance::Elsewhere | Stance::Releasing => false,
        };
        if due {
            self.release();
        }
    }

    /// Whether something is due so soon that the session stays in memory for it.
    pub(super) fn is_due_soon(&self) -> bool {
        let session = self.journal.decided();
        next_deadline(session)
            .is_some_and(|at| self.host.options.is_due_soon(session, at, self.now()))
    }

    /// Since when it is idle and no worker elsewhere said how far it is: followers are told here.
    pub(super) fn quiet_since(&self) -> Option<Instant> {
        let idle = self.idle_since?;
        Some(
            self.dispatcher
                .progressed_at()
                .map_or(idle, |at| at.max(idle)),
        )
    }

    /// Drops what an idle session can do without: it may stay in memory for long, and among many.
    fn slim(&mut self) {
        self.seat.feed.forget_records();
        self.dispatcher.slim();
    }

    fn release(&mut self) {
        // Questions that come now are for the next owner.
        self.seat.inbox.close();
        self.journal
            .decide(&Input::Release, Cause::Release, self.host.now());
        self.stance = Stance::Releasing;
        self.idle_since = None;
    }

    /// Once `Released` is committed: all that makes sure that the session is found again.
    pub(super) async fn finish_release(&mut self) -> End {
        let session = Arc::clone(self.journal.committed());
        let turn = match std::mem::take(&mut self.going) {
            Going::Now(turn) => Some(turn),
            Going::Unasked | Going::Asked => None,
        };
        // Without news nobody is waited for, and the turn ends here.
        let going = match turn {
            Some(turn) => {
                let news = self.news_of_next_owner(&session).await;
                news.map(|news| (turn, news))
            }
            None => None,
        };
        let found_again = self.set_wake(&session).await;
        match session.existence {
            Existence::Absent => self.bury().await,
            Existence::Open(_) | Existence::Deleting(_) => self.put_away(&session).await,
        }
        match found_again {
            Ok(()) => self.unclaim().await,
            // The index keeps the session until a sweep has set its timer.
            Err(error) => {
                tracing::warn!(session = %self.seat.key, error, "wake-up not set, the sweep will");
            }
        }
        if let Some((turn, news)) = going {
            let (host, key) = (&self.host, &self.seat.key);
            let (log, released) = (host.stores.log.as_ref(), self.journal.tail());
            host.handover
                .see_taken(turn, log, key, released, news)
                .await;
        }
        End::Released
    }

    /// Listens for the next owner, before anybody is told that the session needs one.
    async fn news_of_next_owner(&mut self, session: &Session) -> Option<News> {
        if !self.needs_owner_soon(session) || self.host.members.are_alone() {
            return None;
        }
        let news = self.host.stores.log.follow(&session.key).await;
        news.inspect_err(|error| {
            tracing::debug!(session = %session.key, %error, "next owner not listened for");
        })
        .ok()
    }

    /// Whether a session that was let go is to be taken by somebody at once.
    fn needs_owner_soon(&self, session: &Session) -> bool {
        match session.ownership {
            Ownership::Released { wake: Wake::Now } => true,
            Ownership::Released { wake: Wake::At(at) } => {
                self.host.options.is_due_soon(session, at, session.at)
            }
            Ownership::Released { wake: Wake::Never }
            | Ownership::Owned { .. }
            | Ownership::Never => false,
        }
    }

    async fn set_wake(&mut self, session: &Session) -> Result<(), String> {
        let stores = &self.host.stores;
        let Ownership::Released { wake } = session.ownership else {
            return Err("the session is not released".into());
        };
        match wake {
            Wake::Never => Ok(()),
            Wake::At(at) if !self.needs_owner_soon(session) => {
                let set = stores.timers.set(&session.key, session.epoch, at).await;
                set.map_err(|error| error.to_string())
            }
            Wake::Now | Wake::At(_) => {
                let letter = mail::encode(&Mail::WakeUp { dead_owner: None });
                let letter = letter.map_err(|error| error.to_string())?;
                let (lane, id) = (Lane::Control, format!("wake-{}", session.epoch));
                match stores
                    .mailbox
                    .send(&session.key, lane, &id, letter.into())
                    .await
                {
                    // Whoever takes what fills it, wakes the session.
                    Ok(_) | Err(SendError::Full) => Ok(()),
                    Err(SendError::Write(error)) => Err(error.to_string()),
                }
            }
        }
    }

    /// Snapshot and directory, for who opens or lists it next.
    async fn put_away(&mut self, session: &Session) {
        self.snapshot_for_next().await;
        if let Some(entry) = directory::entry(session)
            && !self.shows(&entry)
        {
            directory::put(&self.host, &session.key, entry).await;
        }
    }

    async fn unclaim(&mut self) {
        let Some(version) = self.claim else {
            return;
        };
        let (index, node) = (&self.host.stores.active, &self.host.node);
        if let Err(error) = index.remove(node, &self.seat.key, version).await {
            tracing::warn!(session = %self.seat.key, %error, "index entry left to the sweep");
        }
    }

    /// The session was deleted: what it leaves goes, only the Record that says so stays.
    async fn bury(&mut self) {
        let (stores, key) = (&self.host.stores, &self.seat.key);
        let purged = match self.purge_through {
            Some(through) => stores.log.purge(key, through).await,
            None => Ok(()),
        };
        let blobs = stores.blobs.remove_all(key).await;
        let snapshot = stores.snapshots.remove(key).await;
        let listed = stores.directory.remove(key).await;
        for (what, done) in [
            ("log", purged),
            ("blobs", blobs),
            ("snapshot", snapshot),
            ("directory", listed),
        ] {
            if let Err(error) = done {
                tracing::error!(session = %key, what, %error, "deleted session not all removed");
            }
        }
    }

    /// A deletion whose purge was cut off by a crash is finished by the next owner.
    pub(super) fn purge_deleted(&mut self) {
        let Some(through) = self.purge_through else {
            return;
        };
        let (log, key) = (Arc::clone(&self.host.stores.log), self.seat.key.clone());
        self.chores.spawn(async move {
            let purged = log.purge(&key, through).await;
            Chore::Done("purge", purged.map_err(|error| error.to_string()))
        });
    }
}
