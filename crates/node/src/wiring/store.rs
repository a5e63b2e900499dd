//! Opens the store, and holds it against what the configuration wants.

use steadfast_store_redb::{Options, RedbStore};

use crate::config::store::{StoreKind, StoreOptions};
use crate::start_error::StartError;

/// Opens the configured store. After a crash this may take a while.
pub(super) async fn open(options: &StoreOptions) -> Result<RedbStore, StartError> {
    let StoreKind::Redb = options.kind;
    let path = options.path.clone();
    let redb = Options {
        require_fsync: options.require_fsync,
        ..Options::default()
    };
    let opened = tokio::task::spawn_blocking(move || RedbStore::open(&path, redb)).await;
    let store = opened.map_err(|error| StartError::setup("store", &error))??;
    let guarantee = store.guarantee();
    if options.require_fsync && !guarantee.fsync || options.require_replicas > guarantee.replicas {
        let reason = format!(
            "it acknowledges with fsync = {} on {} servers, which is less than configured",
            guarantee.fsync, guarantee.replicas
        );
        return Err(StartError::Setup {
            what: "store".to_owned(),
            reason,
        });
    }
    Ok(store)
}
