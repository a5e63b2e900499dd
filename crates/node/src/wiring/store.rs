//! Opens the store, and holds it against what the configuration wants.

use std::future::pending;

use steadfast_store::{Guarantee, Stores};
use steadfast_store_nats::NatsStore;
use steadfast_store_redb::{CloseError, Options, RedbStore};

use super::nats;
use crate::config::store::{StoreKind, StoreOptions};
use crate::start_error::StartError;

/// The store of a node, open.
pub(crate) enum OpenStore {
    /// In one file.
    Redb(RedbStore),
    /// On a broker.
    Nats(NatsStore),
}

impl OpenStore {
    pub(crate) fn stores(&self) -> Stores {
        match self {
            Self::Redb(store) => store.stores(),
            Self::Nats(store) => store.stores(),
        }
    }

    pub(crate) fn guarantee(&self) -> Guarantee {
        match self {
            Self::Redb(store) => store.guarantee(),
            Self::Nats(store) => store.guarantee(),
        }
    }

    /// Waits until the store works no more and never will, and tells why. A broker that is away may
    /// always come back.
    pub(crate) async fn failed(&self) -> String {
        match self {
            Self::Redb(store) => store.failed().await,
            Self::Nats(_) => pending().await,
        }
    }

    pub(crate) async fn close(self) -> Result<(), CloseError> {
        match self {
            Self::Redb(store) => store.close().await,
            Self::Nats(store) => {
                store.close().await;
                Ok(())
            }
        }
    }
}

/// Opens the configured store. After a crash this may take a while.
pub(super) async fn open(options: &StoreOptions) -> Result<OpenStore, StartError> {
    match options.kind {
        StoreKind::Redb => open_redb(options).await.map(OpenStore::Redb),
        StoreKind::Nats => {
            let nats =
                nats::options(options).map_err(|error| StartError::setup("store.nats", &error))?;
            Ok(OpenStore::Nats(NatsStore::open(&nats).await?))
        }
    }
}

async fn open_redb(options: &StoreOptions) -> Result<RedbStore, StartError> {
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
