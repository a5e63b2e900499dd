//! Why a node did not start. Nothing runs then, and nothing of the store has changed.

use std::io;
use std::net::SocketAddr;

use steadfast_store_redb::OpenError;
use steadfast_tools::catalog::CatalogError;
use thiserror::Error;

use crate::config::ConfigError;

/// Why a node did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration is wrong.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The store cannot be opened.
    #[error("the store could not be opened")]
    Store(#[from] OpenError),
    /// The store on a broker cannot be opened.
    #[error("the store could not be opened")]
    Broker(#[from] steadfast_store_nats::OpenError),
    /// The address cannot be listened on.
    #[error("{address} could not be listened on")]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Somebody listens there.
    #[error(
        "port {port} is taken, perhaps by another node: stop it, or choose another address with --listen 127.0.0.1:0 (any free port)"
    )]
    PortTaken {
        /// Which port.
        port: u16,
    },
    /// An agent's tools do not fit together.
    #[error("agent `{agent}`")]
    Tools {
        /// Which agent.
        agent: String,
        /// Why.
        source: CatalogError,
    },
    /// A provider, tool or agent cannot be set up.
    #[error("{what}: {reason}")]
    Setup {
        /// Which.
        what: String,
        /// Why.
        reason: String,
    },
}

impl StartError {
    /// Something that cannot be set up, with the whole chain of reasons.
    pub(crate) fn setup(what: &str, error: &dyn std::error::Error) -> Self {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            reason = format!("{reason}: {inner}");
            source = inner.source();
        }
        Self::Setup {
            what: what.to_owned(),
            reason,
        }
    }
}
