//! Reading sessions: their state, their log, their blobs, lists of them.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::content::BlobHash;
use steadfast_core::id::{CommandId, Seq, SessionId, SessionKey, TenantId};
use steadfast_core::session::Session;
use steadfast_protocol::DecodeError;
use steadfast_protocol::mail::{self, Mail};
use steadfast_protocol::record::{self, Record};
use steadfast_store::directory::{DirectoryEntry, DirectoryQuery};
use steadfast_store::error::ReadError;
use steadfast_store::log::ReadFrom;
use steadfast_store::mailbox::MailSeq;

use super::{LoadError, Sessions, repaired};
use crate::doors::Door;
use crate::open;
use crate::pack::Packer;
use crate::pack::receipts::BringError;
use crate::snapshot;

impl Sessions {
    /// The committed state of a session; of one that does not exist, an absent one.
    pub async fn load(&self, key: &SessionKey) -> Result<Arc<Session>, LoadError> {
        // Another's session, looked at here for a moment, is read from its log.
        if let Some(door) = self.owners_door(key)
            && let Some(session) = door.opened().await
            && let Some(session) = self.with_receipts(session).await?
        {
            self.shared.repaired.note(&session);
            return Ok(session);
        }
        // In a box: most calls do without, and it is many times as large as they are.
        Box::pin(self.load_anew(key)).await
    }

    /// A session with all its receipts, which its owner may not have brought yet. `None`: they cannot
    /// be read.
    async fn with_receipts(
        &self,
        session: Arc<Session>,
    ) -> Result<Option<Arc<Session>>, LoadError> {
        if session.receipts.away().is_empty() {
            return Ok(Some(session));
        }
        let brought = snapshot::bring_receipts(&self.shared.host.stores, &session);
        match Box::pin(brought).await {
            Ok(blocks) => {
                let mut session = Arc::unwrap_or_clone(session);
                session.receipts.put_back(blocks);
                Ok(Some(Arc::new(session)))
            }
            Err(BringError::Damaged(_)) => Ok(None),
            Err(BringError::Unavailable(detail)) => Err(LoadError::Unavailable(detail)),
        }
    }

    /// The same, and nothing that is committed is missing, also where an owner here was replaced by
    /// one elsewhere and has not heard of it.
    pub async fn load_newest(&self, key: &SessionKey) -> Result<Arc<Session>, LoadError> {
        let session = self.load(key).await?;
        let host = &self.shared.host;
        if host.members.are_alone() {
            return Ok(session);
        }
        let tail = host.stores.log.tail(key).await.map_err(read_error)?;
        if tail.last.is_none_or(|last| last.last_seq <= session.seq) {
            return Ok(session);
        }
        Box::pin(self.load_anew(key)).await
    }

    /// The state of a session as its log holds it.
    async fn load_anew(&self, key: &SessionKey) -> Result<Arc<Session>, LoadError> {
        let host = &self.shared.host;
        let opened = open::open_whole(&host.stores, key, host.options.read_batch_records).await?;
        // Whoever reads the session next shall not read as much again.
        let uncovered = opened.records_since_snapshot;
        if uncovered >= host.options.snapshot_records.saturating_mul(2)
            && opened.session.profile().is_some()
        {
            let mut packer = Packer::knowing(opened.receipt_runs);
            let (session, last, tail) = (&opened.session, opened.last_record, opened.tail);
            let written = snapshot::write(&host.stores, &mut packer, session, last, tail).await;
            if let Err(error) = written {
                tracing::warn!(session = %key, error, "snapshot not written");
            }
        }
        self.shared.repaired.note(&opened.session);
        Ok(Arc::new(opened.session))
    }

    /// What can be read in one piece of a quarantined session, and why no more; `None` when it is
    /// not quarantined.
    pub async fn readable(&self, key: &SessionKey) -> Result<Option<(Session, String)>, LoadError> {
        let host = &self.shared.host;
        let batch = host.options.read_batch_records;
        Ok(match open::damaged(&host.stores, key, batch).await? {
            Ok(_) => None,
            Err(damaged) => {
                let why = format!("{}: {}", damaged.code, damaged.detail);
                Some((damaged.good.session, why))
            }
        })
    }

    /// The door of a session that is owned here, or may be.
    fn owners_door(&self, key: &SessionKey) -> Option<Arc<Door>> {
        let door = self.shared.doors.find(key)?;
        door.may_own(self.node()).then_some(door)
    }

    /// The Records that hold the events after `after`, in order, at most `limit`. Fewer means that
    /// there are no more now. Parts of a repaired log that no longer count are passed over, for which
    /// the session must have been loaded once.
    pub async fn records(
        &self,
        key: &SessionKey,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Arc<Record>>, LoadError> {
        let lost = self.shared.repaired.of(key);
        let mut records = Vec::new();
        let mut from = repaired::beyond(&lost, after.next());
        while records.len() < limit {
            // Up to the next part that no longer counts, and then from beyond it.
            let gap = lost
                .iter()
                .find(|part| part.after >= from || part.after.next() == from);
            let until = gap.map_or(Seq(u64::MAX), |part| part.after);
            let before = Seq(from.0.saturating_sub(1));
            if from <= until {
                let wanted = limit - records.len();
                let mut read = self.records_until(key, before, until, wanted).await?;
                if let Some(last) = read.last() {
                    from = last.last_seq().next();
                    records.append(&mut read);
                    // Few may be given next to a row that cannot be read: there may be more.
                    match gap {
                        Some(_) => continue,
                        None => break,
                    }
                }
            }
            let Some(gap) = gap else { break };
            from = gap.before;
        }
        Ok(records)
    }

    /// The Records after `after` that end with `until` at the latest.
    async fn records_until(
        &self,
        key: &SessionKey,
        after: Seq,
        until: Seq,
        limit: usize,
    ) -> Result<Vec<Arc<Record>>, LoadError> {
        let door = self.owners_door(key);
        if let Some(door) = &door
            && let Some(mut records) = door.feed.records_after(after)
        {
            records.retain(|record| record.last_seq() <= until);
            records.truncate(limit);
            return Ok(records);
        }
        let from = ReadFrom::Seq(after.next());
        let log = &self.shared.host.stores.log;
        let stored = match log.read(key, from, limit).await {
            // The damaged row may be one that no longer counts.
            Err(ReadError::Corrupt(_)) if until < Seq(u64::MAX) => log.read(key, from, 1).await,
            read => read,
        };
        let stored = stored.map_err(read_error)?;
        let mut records = stored
            .iter()
            .take_while(|stored| stored.first_seq <= until)
            .map(|stored| record::decode(&stored.bytes).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()
            .map_err(decode_error)?;
        // Whoever saw an event finds it in the state too: a Record stands in the log a moment
        // before its owner has folded it.
        if let Some(committed) = door.and_then(|door| door.committed()) {
            records.retain(|record| record.last_seq() <= committed.seq);
        }
        Ok(records)
    }

    /// Whether a command of this id waits in the session's mailbox, not yet decided.
    pub async fn has_mail(&self, key: &SessionKey, id: &CommandId) -> Result<bool, LoadError> {
        let host = &self.shared.host;
        let limit = host.options.mail_batch_max;
        let mut cursor = MailSeq::default();
        loop {
            let letters = host.stores.mailbox.pending(key, cursor, limit).await;
            let letters = letters.map_err(read_error)?;
            for letter in &letters {
                // What cannot be read is the owner's to deal with.
                if let Ok(Mail::Command { command, .. }) = mail::decode(&letter.bytes)
                    && command.id == *id
                {
                    return Ok(true);
                }
            }
            match letters.last() {
                Some(last) if letters.len() == limit => cursor = last.seq,
                _ => return Ok(false),
            }
        }
    }

    /// A tenant's sessions as the directory shows them; it may be behind.
    pub async fn list(
        &self,
        tenant: &TenantId,
        query: DirectoryQuery,
    ) -> Result<Vec<(SessionId, DirectoryEntry)>, ReadError> {
        self.shared.host.stores.directory.list(tenant, query).await
    }

    /// The bytes of one of the session's blobs.
    pub async fn blob(&self, key: &SessionKey, hash: BlobHash) -> Result<Option<Bytes>, ReadError> {
        self.shared.host.stores.blobs.get(key, hash).await
    }

    /// Whether the store answers.
    pub async fn probe(&self) -> Result<(), LoadError> {
        let nodes = self.shared.host.stores.active.nodes().await;
        nodes.map(drop).map_err(read_error)
    }
}

pub(super) fn read_error(error: ReadError) -> LoadError {
    match error {
        ReadError::Unavailable(detail) => LoadError::Unavailable(detail),
        ReadError::Corrupt(detail) => LoadError::Quarantined(detail),
    }
}

pub(super) fn decode_error(error: DecodeError) -> LoadError {
    match error {
        DecodeError::Version { .. } => LoadError::NewerVersion(error.to_string()),
        DecodeError::Corrupt { .. } => LoadError::Quarantined(error.to_string()),
    }
}
