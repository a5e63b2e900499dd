//! Running a group, and what follows when it fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use redb::Durability;
use steadfast_store::error::WriteError;

use super::{Room, Writer};
use crate::database;
use crate::engine::Health;
use crate::fault::Fault;
use crate::group::Group;
use crate::operation::{Operation, Promise, Rows};
use crate::stats::add;
use crate::table::{self, Number};

/// When the disk is full, operations up to this size are tried again without the larger ones:
/// what needs little room often finds it in the file.
const SMALL_BYTES_MAX: usize = 64 * 1024;

/// How long writes are refused after the disk was full: at first, and at most.
const FULL_WAIT_MIN: Duration = Duration::from_millis(250);
const FULL_WAIT_MAX: Duration = Duration::from_secs(8);

/// A group that was not committed in good order.
struct Failed {
    phase: Phase,
    kind: Kind,
    reason: String,
}

/// How far a group got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Certainly not committed.
    Running,
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
enum Committed {
    /// Nothing was changed.
    Untouched,
    /// Visible, not synced.
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
                self.room = Room::Enough;
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
    fn refusal(&self) -> Option<WriteError> {
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
                add(&self.shared.counters.groups, 1);
            }
            Committed::Kept => {
                self.unsynced_since = None;
                add(&self.shared.counters.groups, 1);
            }
        }
    }

    fn attempt(
        &mut self,
        operations: &mut [Operation],
        must_sync: bool,
    ) -> Result<Committed, Failed> {
        let mut phase = Phase::Running;
        self.shared.seen.forget();
        let result = catch_unwind(AssertUnwindSafe(|| {
            self.transact(operations, must_sync, &mut phase)
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
            phase,
            kind,
            reason,
        })
    }

    fn transact(
        &mut self,
        operations: &mut [Operation],
        must_sync: bool,
        phase: &mut Phase,
    ) -> Result<Committed, Fault> {
        let slot = self.shared.database();
        let Some(database) = slot.as_ref() else {
            return Err(Fault::NotOpen(self.shared.why_not_open()));
        };
        let mut transaction = database.begin_write()?;
        let mut changed = false;
        let mut sync = must_sync;
        let mut group = Group::new(&transaction, &self.shared);
        for operation in operations.iter_mut() {
            if operation.run(&mut group)? == Rows::Changed {
                changed = true;
                sync |= operation.promise == Promise::Kept && self.options.require_fsync;
            }
        }
        drop(group);
        if !changed && !must_sync {
            transaction.abort()?;
            return Ok(Committed::Untouched);
        }
        let groups = self.groups.saturating_add(1);
        let position = self.shared.position();
        let numbers = [(Number::Position, position), (Number::Groups, groups)];
        table::set_numbers(&transaction, &numbers)?;
        transaction.set_durability(if sync {
            Durability::Immediate
        } else {
            Durability::None
        })?;
        // With it, opening after a crash takes milliseconds whatever the size, but each commit
        // syncs twice. Without it, opening reads the whole file once: fast while it is small.
        let length_bytes = self.shared.seen.length_bytes();
        transaction.set_quick_repair(sync && length_bytes > self.options.check_bytes_max);
        *phase = Phase::Committing;
        transaction.commit()?;
        self.groups = groups;
        Ok(if sync {
            Committed::Kept
        } else {
            Committed::Seen
        })
    }

    fn recover(&mut self, operations: Vec<Operation>, failed: Failed) {
        match failed.kind {
            Kind::Full => self.recover_from_full_disk(operations, failed.phase),
            Kind::Corrupt if failed.phase == Phase::Running => self.narrow(operations, &failed),
            Kind::Panicked if failed.phase == Phase::Running => {
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
    fn recover_from_full_disk(&mut self, operations: Vec<Operation>, phase: Phase) {
        let tried = self.groups.saturating_add(1);
        if let Err(fault) = self.open_anew() {
            let reason = format!("it could not be opened anew after the disk was full: {fault}");
            self.give_up(
                operations,
                Failed {
                    phase,
                    kind: Kind::Broken,
                    reason,
                },
            );
            return;
        }
        if phase == Phase::Committing && self.groups >= tried {
            let reason = "the disk was full, and yet the write may have got through".into();
            settle(operations, &WriteError::Unknown(reason));
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

    fn open_anew(&mut self) -> Result<(), Fault> {
        let mut slot = self.shared.database_mut();
        drop(slot.take());
        let (database, numbers) =
            database::open(&self.source, &self.shared.seen, self.options.cache_bytes)?;
        *slot = Some(database);
        drop(slot);
        self.groups = numbers.groups;
        // What was given out in memory only is not given out again either.
        self.shared.position_past(numbers.position);
        self.unsynced_since = None;
        database::fill(&self.shared)
    }

    /// The end of this store: what can be said of each operation is said, the file is closed, and
    /// only opening it in a new process, or at least anew, goes on from what is on the disk.
    fn give_up(&mut self, operations: Vec<Operation>, failed: Failed) {
        tracing::error!(reason = failed.reason, "the store failed");
        let error = match failed.phase {
            Phase::Running => WriteError::Unavailable(failed.reason.clone()),
            Phase::Committing => WriteError::Unknown(failed.reason.clone()),
        };
        self.shared
            .health
            .send_replace(Health::Failed(failed.reason));
        drop(self.shared.database_mut().take());
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
