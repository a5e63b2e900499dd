//! Writing a session's snapshot, with what stands beside it; and reading that, when it is needed.

use steadfast_core::session::Session;
use steadfast_protocol::record::RecordHash;
use steadfast_protocol::snapshot::{self, Snapshot};
use steadfast_store::Stores;
use steadfast_store::log::Tail;

use crate::pack::Packer;
use crate::pack::receipts::{self, Blocks, BringError};

/// Blobs first: a snapshot names only what is there.
pub(crate) async fn write(
    stores: &Stores,
    packer: &mut Packer,
    session: &Session,
    last_record: RecordHash,
    tail: Tail,
) -> Result<(), String> {
    let key = &session.key;
    let packing = packer.pack(session).map_err(|error| error.to_string())?;
    for blob in packing.blobs {
        let put = stores.blobs.put(key, blob).await;
        put.map_err(|error| error.to_string())?;
    }
    let snapshot = Snapshot {
        session: packing.session,
        last_record,
        tail: tail.0,
        receipts: packing.receipts,
    };
    let bytes = snapshot::encode(&snapshot).map_err(|error| error.to_string())?;
    let put = stores.snapshots.put(key, bytes.into()).await;
    put.map_err(|error| error.to_string())
}

/// Reads the receipts of a session that are kept beside its snapshot. When they cannot be read, the
/// snapshot goes, so that whoever opens the session next reads its log.
pub(crate) async fn bring_receipts(
    stores: &Stores,
    session: &Session,
) -> Result<Blocks, BringError> {
    let key = &session.key;
    let runs = session.receipts.away().iter().map(|run| &**run);
    let brought = receipts::bring(runs, key, stores).await;
    if let Err(error @ BringError::Damaged(_)) = &brought {
        tracing::error!(session = %key, %error, "snapshot dropped, the log is read instead");
        if let Err(error) = stores.snapshots.remove(key).await {
            tracing::warn!(session = %key, %error, "damaged snapshot not removed");
        }
    }
    brought
}
