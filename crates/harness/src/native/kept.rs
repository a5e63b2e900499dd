//! What was built of a session's history for its last request, so that the next one adds to it.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use imbl::Vector;
use steadfast_core::content::{ContentPart, FileSource};
use steadfast_core::id::SessionKey;
use steadfast_core::transcript::Item;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::guard::{InvalidRequest, Proof};
use super::history::CallNames;
use super::load::{self, LoadedItem};
use super::{BlobSource, BuildError};
use crate::request::{History, ModelRequest, RequestItem};

/// Room is given in pieces of so many bytes.
const PIECE_BYTES: usize = 1024;
/// A history of so many bytes is built anew in no time: it holds no blob.
const SMALL_BYTES: usize = 16 * 1024;

/// Memory for the histories of all sessions of a process. When it is full, no more are kept: they
/// are built anew for each request.
#[derive(Debug, Clone)]
pub struct Room(Arc<Semaphore>);

impl Room {
    /// Room for about so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let pieces = (bytes_max / PIECE_BYTES).min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(pieces)))
    }

    fn reserve(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let pieces = u32::try_from(bytes / PIECE_BYTES + 1).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(pieces).ok()
    }
}

/// The history of one session's last request.
#[derive(Debug)]
pub struct KeptHistory {
    room: Room,
    slot: Mutex<Option<Box<(Built, OwnedSemaphorePermit)>>>,
}

impl KeptHistory {
    /// Nothing yet.
    pub fn new(room: Room) -> Self {
        Self {
            room,
            slot: Mutex::default(),
        }
    }

    /// Takes what was kept, if these items begin with the items that it was built from.
    pub(super) fn take(&self, items: &Vector<Arc<Item>>) -> Built {
        let kept = self.slot().take();
        kept.map(|kept| kept.0)
            .filter(|built| built.begins(items))
            .unwrap_or_default()
    }

    pub(super) fn put(&self, built: Built) {
        let mut slot = self.slot();
        // What a request that ran beside this one kept is given back first.
        slot.take();
        *slot = self
            .room
            .reserve(built.bytes())
            .map(|permit| Box::new((built, permit)));
    }

    /// Gives back what would be built anew in no time, of a session that asks nothing for now.
    pub fn forget_small(&self) {
        let mut slot = self.slot();
        if slot
            .as_ref()
            .is_some_and(|kept| kept.0.bytes() < SMALL_BYTES)
        {
            *slot = None;
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Box<(Built, OwnedSemaphorePermit)>>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A history in the making: items loaded, named and proven.
#[derive(Debug, Default)]
pub(super) struct Built {
    from: Vector<Arc<Item>>,
    history: History,
    names: CallNames,
    proof: Proof,
    /// Why the items cannot be asked about, if so.
    invalid: Option<InvalidRequest>,
    file_bytes: usize,
}

impl Built {
    /// Whether a transcript goes on from these items.
    ///
    /// A transcript grows at its end, is cut at its end, or has a beginning replaced by one item; and
    /// a packed run among its items may be replaced by just what it holds. So it has the same
    /// beginning as before if the first and the last item of that stand where they stood.
    fn begins(&self, items: &Vector<Arc<Item>>) -> bool {
        let same = |position: Option<usize>| {
            let position = position?;
            let (ours, theirs) = (self.from.get(position)?, items.get(position)?);
            Arc::ptr_eq(ours, theirs).then_some(())
        };
        same(Some(0)).is_some() && same(self.from.len().checked_sub(1)).is_some()
    }

    /// Loads and adds what is new.
    pub(super) async fn add(
        &mut self,
        session: &SessionKey,
        items: &Vector<Arc<Item>>,
        blobs: &dyn BlobSource,
    ) -> Result<(), BuildError> {
        let new: Vec<Arc<Item>> = items.skip(self.from.len()).into_iter().collect();
        let loads = new.into_iter().map(|item| async move {
            let loaded = load::items(session, vec![Arc::clone(&item)], blobs).await?;
            Ok::<_, BuildError>((item, loaded))
        });
        let mut loads = stream::iter(loads).buffered(load::READS_MAX);
        while let Some((item, loaded)) = loads.try_next().await? {
            let is_run = loaded.len() > 1;
            for item in loaded {
                self.push(item);
            }
            self.from.push_back(item);
            // A long history takes its time; others of this thread shall not wait for all of it.
            if is_run {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    fn push(&mut self, item: LoadedItem) {
        let item = self.names.request_item(item);
        if self.invalid.is_none() {
            self.invalid = self.proof.add(&item).err();
        }
        self.file_bytes += file_bytes(&item);
        self.history.push(item);
    }

    pub(super) fn history(&self) -> History {
        self.history.clone()
    }

    /// Whether a request with this history may leave.
    pub(super) fn prove(&self, request: &ModelRequest) -> Result<(), InvalidRequest> {
        match &self.invalid {
            Some(invalid) => Err(invalid.clone()),
            None => self.proof.complete(request),
        }
    }

    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        /// Of an item besides its texts.
        const ITEM_BYTES: usize = 512;
        let text_bytes = self.history.counts().text_bytes;
        self.file_bytes + text_bytes + self.history.len() * ITEM_BYTES
    }
}

fn file_bytes(item: &RequestItem) -> usize {
    let RequestItem::User { parts } = item else {
        return 0;
    };
    let files = parts.iter().map(|part| match part {
        ContentPart::File {
            source: FileSource::Base64 { data },
            ..
        } => data.len(),
        ContentPart::File { .. } | ContentPart::Text { .. } | ContentPart::Json { .. } => 0,
    });
    files.sum()
}
