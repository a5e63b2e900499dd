//! Repair: a session whose log cannot be read to its end goes on after what can be read.
//!
//! ```text
//!   rows   | good ... good | bad, another's, readable again ... | LogRepaired ... Released
//!   counts |      yes      |   no; kept as it is                |  yes; above all numbers
//! ```
//!
//! One Record, appended under the fence of the log's last row: whoever writes meanwhile wins, and
//! whoever believed to own the session has lost it. Nothing is removed from the log.

use std::sync::Arc;

use steadfast_core::command::Digest;
use steadfast_core::event::Event;
use steadfast_core::id::{CommandId, Epoch, Seq, SessionKey};
use steadfast_core::input::{Input, LostEvent, Repair, instant};
use steadfast_core::limits::RECORD_BYTES_MAX;
use steadfast_core::session::{Existence, Ownership, Session};
use steadfast_core::{apply, decide, effect::Wake};
use steadfast_protocol::EncodeError;
use steadfast_protocol::record::{self, Cause, Entry, Record, RecordHash};
use steadfast_store::error::WriteError;
use steadfast_store::log::{Append, AppendError, TailInfo};
use thiserror::Error;

use super::{AdmitError, LoadError, Sessions};
use crate::directory;
use crate::open::{self, Damaged, OpenError};
use crate::rows::Rows;

/// Where the end of a log was lost, nobody knows how many numbers were given out there: so many are
/// passed over, always.
const SEQ_MARGIN: u64 = 1_000_000;
/// The same for epochs.
const EPOCH_MARGIN: u64 = 1_000;
/// A number above this was never given out: it is damage itself.
const NUMBER_MAX: u64 = 1 << 52;
/// The Record of a repair, at most: it may take more than others, and is read by all.
const REPAIR_BYTES_MAX: usize = 3 * RECORD_BYTES_MAX;

/// A session that goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// Its state; [`Existence::Absent`] when not even its beginning could be read.
    pub session: Arc<Session>,
    /// Number of the last event before the part that no longer counts.
    pub after: Seq,
    /// Number of the event that says so.
    pub before: Seq,
    /// Whether this very call did it; `false` for a repetition.
    pub first: bool,
}

/// Why a session was not repaired.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RepairError {
    /// Its log can be read: there is nothing to repair.
    #[error("the session is not quarantined")]
    NotQuarantined,
    /// Somebody wrote to the log meanwhile: look again.
    #[error("the session changed meanwhile")]
    Changed,
    /// The store cannot even say where the log ends: the file itself must be repaired.
    #[error("the end of the log cannot be read: {0}")]
    BeyondRepair(String),
    /// It could not be read, and not for damage.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// What it takes could not be written.
    #[error(transparent)]
    Admit(#[from] AdmitError),
}

impl Sessions {
    /// Ends the quarantine of a session. What cannot be read in one piece no longer counts and stays
    /// in the log; what of it can still be read is kept: answers to commands, ends of turns, results
    /// of calls. All else that was open fails or is in doubt, and nothing is run again.
    pub async fn repair(&self, key: &SessionKey, id: CommandId) -> Result<Repaired, RepairError> {
        if self.is_draining() {
            return Err(AdmitError::Draining.into());
        }
        let host = &self.shared.host;
        let batch = host.options.read_batch_records;
        let damaged = match open::damaged(&host.stores, key, batch).await {
            Ok(Ok(opened)) => return self.repeated(opened.session, &id),
            Ok(Err(damaged)) => damaged,
            Err(OpenError::Quarantined { detail, .. }) => {
                return Err(RepairError::BeyondRepair(detail));
            }
            Err(error) => return Err(LoadError::from(error).into()),
        };
        let stray_snapshot = damaged.stray_snapshot.is_some();
        let record = self.repairing(key, id, damaged).await?;
        self.append_repair(key, &record).await?;
        tracing::warn!(
            session = %key, after = %record.after, before = %record.record.first_seq,
            "session repaired: a part of its log no longer counts"
        );
        let repaired = Repaired {
            after: record.after,
            before: record.record.first_seq,
            session: Arc::new(record.session),
            first: true,
        };
        self.after_repair(&repaired.session, stray_snapshot).await;
        Ok(repaired)
    }

    /// The same command again gets the first one's answer.
    fn repeated(&self, session: Session, id: &CommandId) -> Result<Repaired, RepairError> {
        let receipt = session.receipts.get(id);
        let is_same = receipt.is_some_and(|receipt| receipt.digest == digest());
        match session.lost.last().copied() {
            Some(lost) if is_same => Ok(Repaired {
                session: Arc::new(session),
                after: lost.after,
                before: lost.before,
                first: false,
            }),
            _ => Err(RepairError::NotQuarantined),
        }
    }

    /// The Record that repairs, and the state after it.
    async fn repairing(
        &self,
        key: &SessionKey,
        id: CommandId,
        damaged: Damaged,
    ) -> Result<Repairing, RepairError> {
        let host = &self.shared.host;
        let Damaged { good, tail, .. } = &damaged;
        let link = good.link();
        let (mut read, mut given_out) = (Vec::new(), GivenOut::default());
        given_out.see(good.session.seq, good.session.epoch);
        given_out.see(link.last_seq, link.epoch);
        if let Some(last) = &tail.last {
            given_out.see(last.last_seq, last.epoch);
        }
        if let Some((seq, epoch)) = damaged.stray_snapshot {
            given_out.see(seq, epoch);
        }
        let mut rows = Rows::after(good.tail, tail.tail);
        while let Some(row) = rows
            .next(&host.stores, key)
            .await
            .map_err(LoadError::from)?
        {
            given_out.see(row.first_seq, Epoch(0));
            if let Ok(record) = record::decode(&row.bytes) {
                given_out.see(record.last_seq(), record.epoch);
                read.push((RecordHash::of(&row.bytes), record));
            }
        }
        let lost = lost_events(read);
        let mut base = good.session.clone();
        base.seq = Seq(given_out.seq.0 + SEQ_MARGIN);
        let clock = host.now();
        let epoch_min = match host.options.epoch_from_clock {
            true => Epoch(clock.0 / 1_000),
            false => Epoch(0),
        };
        let mut repair = Repair {
            command: id.clone(),
            digest: digest(),
            node: host.node.clone(),
            epoch: Epoch(given_out.epoch.0 + EPOCH_MARGIN).max(epoch_min),
            after: link.last_seq,
            code: damaged.code.to_owned(),
            detail: damaged.detail.clone(),
            lost,
        };
        loop {
            let made = make(&base, &repair, link.record, clock);
            let fits = match &made.encoded {
                Ok(bytes) => bytes.len() <= REPAIR_BYTES_MAX,
                Err(_) => false,
            };
            if fits || repair.lost.is_empty() {
                let encoded = made.encoded.map_err(|error| {
                    RepairError::BeyondRepair(format!("the repair cannot be written: {error}"))
                })?;
                return Ok(Repairing {
                    append: append_of(&made.record, encoded, host),
                    expected: tail.tail,
                    after: repair.after,
                    record: made.record,
                    session: made.session,
                });
            }
            let oldest = repair.lost.len().div_ceil(2);
            repair.lost.drain(..oldest);
            repair.detail = format!(
                "{}; of what could still be read, only the newest {} events are kept",
                damaged.detail,
                repair.lost.len()
            );
        }
    }

    async fn append_repair(&self, key: &SessionKey, made: &Repairing) -> Result<(), RepairError> {
        let log = &self.shared.host.stores.log;
        let appended = log.append(key, made.expected, made.append.clone()).await;
        let detail = match appended {
            Ok(_) => return Ok(()),
            Err(AppendError::Conflict) => return Err(RepairError::Changed),
            Err(AppendError::Write(WriteError::Unknown(detail))) => detail,
            Err(AppendError::Write(error)) => return Err(AdmitError::from(error).into()),
        };
        match log.tail(key).await {
            Ok(TailInfo {
                last: Some(last), ..
            }) if last.hash == made.append.hash => Ok(()),
            _ => Err(AdmitError::OutcomeUnknown(detail).into()),
        }
    }

    /// What follows is for speed and lists: the log alone says that the session goes on.
    async fn after_repair(&self, session: &Session, stray_snapshot: bool) {
        self.shared.repaired.note(session);
        let (host, key) = (&self.shared.host, &session.key);
        if stray_snapshot && let Err(error) = host.stores.snapshots.remove(key).await {
            tracing::warn!(session = %key, %error, "snapshot not removed");
        }
        match directory::entry(session) {
            Some(entry) => {
                directory::put(host, key, entry).await;
            }
            None => {
                if let Err(error) = host.stores.directory.remove(key).await {
                    tracing::warn!(session = %key, %error, "directory entry not removed");
                }
            }
        }
        let needs_owner = matches!(session.ownership, Ownership::Released { wake } if wake != Wake::Never)
            && !matches!(session.existence, Existence::Absent);
        if needs_owner && let Err(error) = self.wake(key, None).await {
            tracing::warn!(session = %key, ?error, "repaired session not woken");
        }
    }
}

/// A Record on its way, and what it makes.
struct Repairing {
    append: Append,
    expected: steadfast_store::log::Tail,
    after: Seq,
    record: Record,
    session: Session,
}

struct Made {
    record: Record,
    encoded: Result<Vec<u8>, EncodeError>,
    session: Session,
}

/// The highest numbers that anything remembers.
#[derive(Default)]
struct GivenOut {
    seq: Seq,
    epoch: Epoch,
}

impl GivenOut {
    fn see(&mut self, seq: Seq, epoch: Epoch) {
        if seq.0 <= NUMBER_MAX {
            self.seq = self.seq.max(seq);
        }
        if epoch.0 <= NUMBER_MAX {
            self.epoch = self.epoch.max(epoch);
        }
    }
}

fn digest() -> Digest {
    Digest::of(b"repair: unquarantine")
}

/// What Records that no longer count still tell. One that its successor does not vouch for was
/// changed, or belongs to another history: of it is kept only what makes things doubtful.
fn lost_events(read: Vec<(RecordHash, Record)>) -> Vec<LostEvent> {
    let mut next: Option<(Seq, RecordHash)> = None;
    let mut lost = Vec::new();
    for (hash, record) in read.into_iter().rev() {
        let denied = next
            .is_some_and(|(first_seq, prev)| first_seq == record.last_seq().next() && prev != hash);
        next = Some((record.first_seq, record.prev));
        let mut events = events_of(record);
        if denied {
            events.retain(|lost| makes_doubtful(&lost.event));
        }
        lost.push(events);
    }
    lost.into_iter().rev().flatten().collect()
}

/// Whether an event only says that something may have been done.
fn makes_doubtful(event: &Event) -> bool {
    matches!(
        event,
        Event::CommandSettled { .. } | Event::ModelReplied { .. } | Event::NoticePosted { .. }
    )
}

fn events_of(record: Record) -> Vec<LostEvent> {
    let (epoch, first) = (record.epoch, record.first_seq.0);
    let events = record.entries.into_iter().flat_map(|entry| entry.events);
    let numbered = (first..).zip(events);
    numbered
        .map(|(seq, event)| LostEvent {
            epoch,
            seq: Seq(seq),
            event,
        })
        .collect()
}

fn make(
    base: &Session,
    repair: &Repair,
    prev: RecordHash,
    clock: steadfast_core::id::Timestamp,
) -> Made {
    let at = instant(clock, base.at);
    let events = decide(base, &Input::Repair(Box::new(repair.clone())), clock).events;
    let mut session = base.clone();
    for event in &events {
        apply(&mut session, at, event);
    }
    let cause = Cause::Command {
        id: repair.command.clone(),
    };
    let record = Record {
        first_seq: base.seq.next(),
        epoch: repair.epoch,
        prev,
        entries: vec![Entry { cause, at, events }],
    };
    Made {
        encoded: record::encode(&record),
        record,
        session,
    }
}

fn append_of(record: &Record, bytes: Vec<u8>, host: &crate::host::Host) -> Append {
    Append {
        hash: RecordHash::of(&bytes),
        bytes: bytes.into(),
        first_seq: record.first_seq,
        last_seq: record.last_seq(),
        epoch: record.epoch,
        node: host.node.clone(),
    }
}
