//! Running a group, and what follows when it fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use steadfast_store::error::WriteError;

use super::{Room, Writer};
use crate::database::{self, Opened};
use crate::engine::Health;
use crate::fault::Fault;
use crate::operation::Operation;
use crate::stats::add;
use crate::view::Base;

/// When the disk is full, operations up to this size are tried again without the larger ones:
/// what needs little room often finds it in the file.
const SMALL_BYTES_MAX: usize = 64 * 1024;

/// How long writes are refused after the disk was full: at first, and at most.
const FULL_WAIT_MIN: Duration = Duration::from_millis(250);
const FULL_WAIT_MAX: Duration = Duration::from_secs(8);

/// A group that was not committed in good order.
pub(super) struct Failed {
    stage: Stage,
    kind: Kind,
    pub(super) reason: String,
}

/// How far a group got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Certainly not committed.
    Running,
    /// Nor now: a row of the journal is being moved into its table.
    Moving,
    /// Nor now: a large row is being written into its table.
    Straight,
    /// Nor now: what was moved is being removed from the journal.
    Clearing,
    /// Perhaps committed.
    Committing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The disk is full, and nothing else is wrong.
    Full,
    /// A page that some operation needs cannot be right.
    Corrupt,
    /// The database panicked, as it does on some damaged pages.
    Panicked,
    /// The file cannot be trusted to take any more.
    Broken,
}

/// What a committed group came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Committed {
    /// Nothing was changed.
    Untouched,
    /// Visible, in memory.
    Seen,
    /// Synced.
    Kept,
}

impl Writer {
    /// Runs a group and answers each of its operations.
    pub(super) fn execute(&mut self, mut operations: Vec<Operation>) {
        if operations.is_empty() {
            return;
        }
        if let Some(error) = self.refusal() {
            settle(operations, &error);
            return;
        }
        let must_sync = self
            .unsynced_since
            .is_some_and(|since| since.elapsed() >= self.options.sync_delay());
        match self.attempt(&mut operations, must_sync) {
            Ok(committed) => {
                self.note(committed);
                add(&self.shared.counters.operations, operations.len());
                for operation in &operations {
                    if let Some(news) = operation.news() {
                        self.shared.tell(news);
                    }
                }
                for operation in operations {
                    operation.settle(Ok(()));
                }
            }
            Err(failed) => self.recover(operations, failed),
        }
    }

    /// Syncs what was acknowledged without.
    pub(super) fn sync(&mut self) {
        if self.unsynced_since.is_none() || self.refusal().is_some() {
            return;
        }
        match self.attempt(&mut [], true) {
            Ok(committed) => self.note(committed),
            Err(failed) => self.recover(Vec::new(), failed),
        }
    }

    /// Why nothing can be written now.
    pub(super) fn refusal(&self) -> Option<WriteError> {
        if *self.shared.health.borrow() != Health::Working {
            return Some(WriteError::Unavailable(self.shared.why_not_open()));
        }
        match self.room {
            Room::Full { until, .. } if Instant::now() < until => Some(disk_full()),
            Room::Full { .. } | Room::Enough => None,
        }
    }

    fn note(&mut self, committed: Committed) {
        match committed {
            Committed::Untouched => {}
            Committed::Seen => {
                self.unsynced_since.get_or_insert_with(Instant::now);
            }
            Committed::Kept => {
                self.unsynced_since = None;
                self.room = Room::Enough;
                add(&self.shared.counters.groups, 1);
            }
        }
    }

    pub(super) fn attempt(
        &mut self,
        operations: &mut [Operation],
        must_sync: bool,
    ) -> Result<Committed, Failed> {
        let mut stage = Stage::Running;
        self.shared.seen.forget();
        let result = catch_unwind(AssertUnwindSafe(|| {
            self.transact(operations, must_sync, &mut stage)
        }));
        let (kind, reason) = match result {
            Ok(Ok(committed)) => return Ok(committed),
            Ok(Err(_)) if self.shared.seen.only_full() => (Kind::Full, "the disk is full".into()),
            Ok(Err(fault @ (Fault::Corrupt(_) | Fault::Database(redb::Error::Corrupted(_))))) => {
                (Kind::Corrupt, fault.to_string())
            }
            Ok(Err(fault)) => (Kind::Broken, fault.to_string()),
            Err(_) => (Kind::Panicked, "the database panicked".into()),
        };
        Err(Failed {
            stage,
            kind,
            reason,
        })
    }

    fn recover(&mut self, operations: Vec<Operation>, failed: Failed) {
        match failed.kind {
            Kind::Full => self.recover_from_full_disk(operations, failed.stage),
            Kind::Corrupt | Kind::Panicked
                if matches!(failed.stage, Stage::Moving | Stage::Straight) =>
            {
                self.recover_from_stuck_row(operations, failed);
            }
            // It is no operation's page that is damaged.
            Kind::Corrupt | Kind::Panicked if operations.is_empty() => {
                self.give_up(operations, failed);
            }
            Kind::Corrupt if failed.stage == Stage::Running => self.narrow(operations, &failed),
            Kind::Panicked if failed.stage == Stage::Running => {
                // What the panic left must be seen to work before anything rests on it.
                match self.attempt(&mut [], true) {
                    Ok(committed) => {
                        self.note(committed);
                        self.narrow(operations, &failed);
                    }
                    Err(_) => self.give_up(operations, failed),
                }
            }
            Kind::Corrupt | Kind::Panicked | Kind::Broken => self.give_up(operations, failed),
        }
    }

    /// The group is tried again with the row that its table did not take in the journal.
    fn recover_from_stuck_row(&mut self, operations: Vec<Operation>, failed: Failed) {
        let is_bearable = match failed.stage {
            // Once, for all large rows of the group: one of them would find no end of pages.
            Stage::Straight => std::mem::replace(&mut self.goes_straight, false),
            _ => self.pass_over_stuck_row(),
        };
        if !is_bearable {
            self.give_up(operations, failed);
            return;
        }
        if failed.kind == Kind::Panicked {
            // What the panic left must be seen to work before anything rests on it.
            match self.attempt(&mut [], true) {
                Ok(committed) => self.note(committed),
                Err(_) => return self.give_up(operations, failed),
            }
            // That commit made large rows go straight again.
            self.goes_straight = failed.stage != Stage::Straight;
        }
        self.execute(operations);
    }

    /// Finds the operations that need the damaged page: the others must not fail with them.
    fn narrow(&mut self, mut operations: Vec<Operation>, failed: &Failed) {
        if operations.len() <= 1 {
            settle(
                operations,
                &Fault::Corrupt(failed.reason.clone()).into_write_error(),
            );
            return;
        }
        let second = operations.split_off(operations.len() / 2);
        self.execute(operations);
        self.execute(second);
    }

    /// Opens the file anew, which is how the database gets over a failed write. Nothing that was
    /// synced is touched by that.
    fn recover_from_full_disk(&mut self, operations: Vec<Operation>, stage: Stage) {
        let tried = self.groups.saturating_add(1);
        let was_moving = self.view.moving.is_some();
        if let Err(fault) = self.open_anew(stage) {
            let reason = format!("it could not be opened anew after the disk was full: {fault}");
            self.give_up(
                operations,
                Failed {
                    stage,
                    kind: Kind::Broken,
                    reason,
                },
            );
            return;
        }
        if stage == Stage::Committing && self.groups >= tried {
            let reason = "the disk was full, and yet the write may have got through".into();
            settle(operations, &WriteError::Unknown(reason));
            return;
        }
        if was_moving && self.may_hold_more() {
            self.execute(operations);
            return;
        }
        let all = operations.len();
        let (small, large): (Vec<_>, Vec<_>) = operations
            .into_iter()
            .partition(|operation| operation.size_bytes <= SMALL_BYTES_MAX);
        settle(large, &disk_full());
        if small.len() < all {
            self.execute(small);
            return;
        }
        let wait = match self.room {
            Room::Enough => FULL_WAIT_MIN,
            Room::Full { wait, .. } => (wait * 2).min(FULL_WAIT_MAX),
        };
        tracing::warn!(
            wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            "the disk is full: writes are refused, reads go on"
        );
        let until = Instant::now() + wait;
        self.room = Room::Full { until, wait };
        settle(small, &disk_full());
    }

    fn open_anew(&mut self, stage: Stage) -> Result<(), Fault> {
        let tried = self.groups.saturating_add(1);
        // Readers wait here until the file is open again.
        let mut shown = self.shared.view_mut();
        drop(shown.take());
        self.view.base = Arc::new(Base::none());
        drop(self.database.take());
        let Opened {
            database,
            numbers,
            mut view,
            journaled_groups,
        } = database::open(&self.source, &self.shared.seen, self.options.cache_bytes)?;
        let is_landed = stage == Stage::Committing && numbers.groups >= tried;
        if !is_landed {
            // Acknowledged, and not in the file: it goes on waiting.
            view.waiting = Arc::clone(&self.view.waiting);
        }
        *shown = Some(Arc::new(view.clone()));
        drop(shown);
        self.unsynced_since = (!view.waiting.is_empty()).then(Instant::now);
        self.database = Some(Arc::new(database));
        self.view = view;
        self.format = numbers.format;
        self.groups = numbers.groups;
        self.journaled_groups = journaled_groups;
        self.forget_moving();
        self.tails.forget();
        // What was given out in memory only is not given out again either.
        self.shared.position_past(numbers.position);
        database::fill(&self.shared, &self.view)
    }

    /// The end of this store: what can be said of each operation is said, the file is closed, and
    /// only opening it in a new process, or at least anew, goes on from what is on the disk.
    fn give_up(&mut self, operations: Vec<Operation>, failed: Failed) {
        tracing::error!(reason = failed.reason, "the store failed");
        let error = match failed.stage {
            Stage::Running | Stage::Moving | Stage::Straight | Stage::Clearing => {
                WriteError::Unavailable(failed.reason.clone())
            }
            Stage::Committing => WriteError::Unknown(failed.reason.clone()),
        };
        self.shared
            .health
            .send_replace(Health::Failed(failed.reason));
        self.shared.show(None);
        self.view.base = Arc::new(Base::none());
        drop(self.database.take());
        // Nothing is left to sync, so nothing is waited for.
        self.unsynced_since = None;
        settle(operations, &error);
    }
}

fn settle(operations: Vec<Operation>, error: &WriteError) {
    for operation in operations {
        operation.settle(Err(error.clone()));
    }
}

fn disk_full() -> WriteError {
    WriteError::Full("the disk is full".into())
}
