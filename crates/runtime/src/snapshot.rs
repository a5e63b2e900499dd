//! Writing a session's snapshot, with what stands beside it.

use steadfast_core::session::Session;
use steadfast_protocol::record::RecordHash;
use steadfast_protocol::snapshot::{self, Snapshot};
use steadfast_store::Stores;
use steadfast_store::log::Tail;

use crate::pack::Packer;

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
