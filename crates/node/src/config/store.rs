//! `[store]`: where sessions are kept.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::nats::NatsOptions;

/// Where sessions are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoreOptions {
    /// Which kind of store.
    pub kind: StoreKind,
    /// Directory of a redb store; made when it is missing. Relative to the working directory. With
    /// `kind = "nats"` it holds the name of the node's last process, whose sessions a restarted one
    /// takes over at once; each node needs one of its own.
    pub path: PathBuf,
    /// What an acknowledgement must mean: synced to disk. The node refuses to start on less.
    pub require_fsync: bool,
    /// What an acknowledgement must mean: on so many servers. The node refuses to start on less.
    #[schemars(range(min = 1))]
    pub require_replicas: u32,
    /// The broker, with `kind = "nats"`.
    pub nats: NatsOptions,
}

/// Kinds of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// One file on one node; every acknowledged write is synced to disk.
    Redb,
    /// A NATS broker with JetStream, for any number of nodes.
    Nats,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            kind: StoreKind::Redb,
            path: PathBuf::from("./steadfast-data"),
            require_fsync: true,
            require_replicas: 1,
            nats: NatsOptions::default(),
        }
    }
}
