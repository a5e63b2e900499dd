//! Forking: a new session that begins with a copy of another's transcript.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::Vector;
use steadfast_core::command::{Command, CommandBody, ForkOrigin, NewSession};
use steadfast_core::content::{BlobHash, CallOutput, Stored};
use steadfast_core::id::{CommandId, Seq, SessionKey};
use steadfast_core::receipt::Progress;
use steadfast_core::session::{Profile, Session};
use steadfast_core::transcript::{Item, ItemBody};
use thiserror::Error;

use super::{Admission, AdmitError, LoadError, Sessions};
use crate::{open, pack};

/// Why a session was not forked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ForkError {
    /// There is no such session.
    #[error("the session to fork does not exist")]
    SourceNotFound,
    /// It has no such event, or a turn is open there.
    #[error("event {0} is not the end of a turn")]
    NotAtTurnEnd(Seq),
    /// It could not be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The new session was not made.
    #[error(transparent)]
    Admit(#[from] AdmitError),
}

impl Sessions {
    /// Makes the session `to` with the transcript of `from` as of the end of a turn: the event `at`,
    /// or the last turn that ended. Files beside the transcript are copied first, so the same again
    /// is harmless.
    pub async fn fork(
        &self,
        from: &SessionKey,
        at: Option<Seq>,
        to: &SessionKey,
        id: CommandId,
    ) -> Result<Admission, ForkError> {
        if self.is_draining() {
            return Err(AdmitError::Draining.into());
        }
        let source = self.load(from).await?;
        let profile = source.profile().ok_or(ForkError::SourceNotFound)?;
        let new = new_session(profile);
        let at_seq = at.unwrap_or_else(|| last_turn_end(&source));
        let source = self.as_of(&source, at_seq).await?;
        let items = self.unpacked(&source).await?;
        self.copy_blobs(&items, from, to).await?;
        let origin = ForkOrigin {
            from: from.clone(),
            at_seq,
            transcript: self.write_packed(&items, to).await?,
        };
        let body = CommandBody::Fork { new, origin };
        Ok(self.admit(to, Command { id, body }).await?)
    }

    /// The state as of an event, between turns.
    async fn as_of(&self, newest: &Session, at: Seq) -> Result<Session, ForkError> {
        let session = if at == newest.seq {
            newest.clone()
        } else {
            let host = &self.shared.host;
            let batch = host.options.read_batch_records;
            let as_of = open::as_of(&host.stores, &newest.key, at, batch).await;
            as_of.map_err(LoadError::from)?
        };
        if session.seq == at && session.turn.is_none() && session.profile().is_some() {
            Ok(session)
        } else {
            Err(ForkError::NotAtTurnEnd(at))
        }
    }

    async fn unpacked(&self, session: &Session) -> Result<Vector<Arc<Item>>, ForkError> {
        let stores = &self.shared.host.stores;
        let mut items = Vector::new();
        for item in &session.transcript.items {
            match &item.body {
                ItemBody::Packed { packed } => {
                    let inner = pack::unpack(session, packed, stores).await;
                    items.extend(inner.map_err(LoadError::from)?);
                }
                _ => items.push_back(Arc::clone(item)),
            }
        }
        Ok(items)
    }

    async fn copy_blobs(
        &self,
        items: &Vector<Arc<Item>>,
        from: &SessionKey,
        to: &SessionKey,
    ) -> Result<(), ForkError> {
        let mut hashes = BTreeSet::new();
        for item in items {
            blobs_of(&item.body, &mut hashes);
        }
        let blobs = &self.shared.host.stores.blobs;
        for hash in hashes {
            let bytes = blobs
                .get(from, hash)
                .await
                .map_err(super::read::read_error)?;
            let bytes =
                bytes.ok_or_else(|| LoadError::Quarantined(format!("blob {hash} is gone")))?;
            let put = blobs.put(to, bytes).await;
            put.map_err(AdmitError::from)?;
        }
        Ok(())
    }

    async fn write_packed(
        &self,
        items: &Vector<Arc<Item>>,
        to: &SessionKey,
    ) -> Result<Vec<steadfast_core::command::PackedItems>, ForkError> {
        let packing = pack::pack_all(items);
        let (packed, blobs) =
            packing.ok_or_else(|| LoadError::Quarantined("its transcript is not JSON".into()))?;
        for blob in blobs {
            let put = self.shared.host.stores.blobs.put(to, blob).await;
            put.map_err(AdmitError::from)?;
        }
        Ok(packed)
    }
}

fn new_session(profile: &Profile) -> NewSession {
    NewSession {
        agent: profile.agent.clone(),
        metadata: Arc::unwrap_or_clone(Arc::clone(&profile.metadata)),
        tags: profile.tags.to_vec(),
    }
}

/// The newest event at which no turn is open.
fn last_turn_end(session: &Session) -> Seq {
    if session.turn.is_none() {
        return session.seq;
    }
    let ended = session.last_turn.as_ref();
    let receipt = ended.and_then(|turn| session.receipts.get(&turn.message));
    match receipt.and_then(|receipt| receipt.progress) {
        Some(Progress::Ended { seq, .. }) => seq,
        Some(Progress::Queued | Progress::Running { .. }) | None => Seq(0),
    }
}

fn blobs_of(body: &ItemBody, hashes: &mut BTreeSet<BlobHash>) {
    fn add<T>(stored: &Stored<T>, hashes: &mut BTreeSet<BlobHash>) {
        if let Stored::Blob(blob) = stored {
            hashes.insert(blob.hash);
        }
    }
    match body {
        ItemBody::User { content, .. } => content.iter().for_each(|part| add(part, hashes)),
        ItemBody::Reply { parts, calls, .. } => {
            parts.iter().for_each(|part| add(part, hashes));
            calls.iter().for_each(|call| add(&call.input, hashes));
        }
        ItemBody::Results { results, .. } => {
            for result in results {
                let CallOutput { output, .. } = &result.output;
                add(output, hashes);
            }
        }
        ItemBody::Summary { summary } => add(summary, hashes),
        ItemBody::Note { .. } | ItemBody::Packed { .. } => {}
    }
}
