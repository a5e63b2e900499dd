//! The store, open.

use std::sync::Arc;
use std::time::Duration;

use steadfast_store::{Guarantee, Stores, ToolQueue};
use thiserror::Error;
use tokio::time::timeout;

use crate::active::NatsActiveIndex;
use crate::blobs::NatsBlobs;
use crate::claims::NatsClaims;
use crate::connect::Connection;
use crate::directory::NatsDirectory;
use crate::jobs::NatsJobs;
use crate::live::NatsLive;
use crate::log::NatsLog;
use crate::mailbox::NatsMailbox;
use crate::membership::NatsMembership;
use crate::node_door::NatsNodeDoors;
use crate::options::Options;
use crate::preflight::{self, PreflightError};
use crate::setup::{self, SetupError};
use crate::snapshots::NatsSnapshots;
use crate::subject::Names;
use crate::timers::NatsTimers;

/// A broker that is away does not keep a node from ending for longer than this.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// Why a store was not opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// No server can be reached, or none lets this node in.
    #[error("the broker at {servers} cannot be reached: {reason}")]
    Connect {
        /// The configured addresses.
        servers: String,
        /// Why.
        reason: String,
    },
    /// An option makes no sense.
    #[error("{0}")]
    Option(String),
    /// The streams cannot be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The streams promise less than is required.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
}

/// What a look at the broker shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The server that answered, in words.
    pub server: String,
    /// Streams and consumers that the first node will make.
    pub missing: Vec<String>,
    /// What an acknowledgement means, or why a node would not start.
    pub guarantee: Result<Guarantee, PreflightError>,
}

/// A store on a broker, open. Its connection ends when this and all its ports are dropped.
pub struct NatsStore {
    connection: Arc<Connection>,
    stores: Stores,
    guarantee: Guarantee,
}

impl NatsStore {
    /// Connects, makes what is missing, and checks all.
    pub async fn open(options: &Options) -> Result<Self, OpenError> {
        let (connection, names) = connect(options).await?;
        let found = setup::set_up(&connection, &names, options).await?;
        let payload_bytes_max = connection.client.max_payload();
        let guarantee = preflight::check(options, &found, payload_bytes_max).await?;
        let connection = Arc::new(connection);
        let stores = stores(Arc::clone(&connection), Arc::new(names), options);
        Ok(Self {
            connection,
            stores,
            guarantee,
        })
    }

    /// Connects and looks: makes nothing, changes nothing.
    pub async fn look(options: &Options) -> Result<Seen, OpenError> {
        let (connection, names) = connect(options).await?;
        let found = setup::look(&connection, &names, options).await?;
        let info = connection.client.server_info();
        let payload_bytes_max = connection.client.max_payload();
        let guarantee = preflight::check(options, &found, payload_bytes_max).await;
        Ok(Seen {
            server: format!(
                "connected to {} (nats-server {}) at {}",
                info.server_name, info.version, info.host
            ),
            missing: found.missing,
            guarantee,
        })
    }

    /// Hands over what waits to be sent, if the broker takes it within five seconds, and ends the
    /// connection with the last port.
    pub async fn close(self) {
        // What is lost here is sent again by whoever waits for it, or is worth nothing by now.
        let flushed = timeout(FLUSH_PATIENCE, self.connection.client.flush()).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::debug!(?flushed, "the connection was not flushed");
        }
    }

    /// Tells whether the broker is reached at the time.
    pub fn watch_connected(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let link = self.connection.link();
        move || link.borrow().up
    }

    /// Its ports.
    pub fn stores(&self) -> Stores {
        self.stores.clone()
    }

    /// What its acknowledgements mean.
    pub fn guarantee(&self) -> Guarantee {
        self.guarantee
    }
}

async fn connect(options: &Options) -> Result<(Connection, Names), OpenError> {
    check(options)?;
    // The only error is that one is installed already, which is as good.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let connection = Connection::open(options).await;
    let connection = connection.map_err(|reason| OpenError::Connect {
        servers: options.servers.join(", "),
        reason,
    })?;
    let names = Names::new(&options.prefix, options.partitions);
    Ok((connection, names))
}

fn stores(connection: Arc<Connection>, names: Arc<Names>, options: &Options) -> Stores {
    let connection = || Arc::clone(&connection);
    let names = || Arc::clone(&names);
    Stores {
        log: Arc::new(NatsLog::new(connection(), names())),
        mailbox: Arc::new(NatsMailbox::new(
            connection(),
            names(),
            options.delivery_silence,
        )),
        timers: Arc::new(NatsTimers::new(
            connection(),
            names(),
            options.timer_silence,
        )),
        active: Arc::new(NatsActiveIndex::new(connection(), names())),
        directory: Arc::new(NatsDirectory::new(connection(), names())),
        blobs: Arc::new(NatsBlobs::new(connection(), names())),
        snapshots: Arc::new(NatsSnapshots::new(connection(), names())),
        live: Arc::new(NatsLive::new(connection(), names())),
        membership: Arc::new(NatsMembership::new(connection(), names())),
        node_doors: Arc::new(NatsNodeDoors::new(connection(), names())),
        tool_queue: Some(ToolQueue {
            jobs: Arc::new(NatsJobs::new(connection(), names(), options.job_silence)),
            claims: Arc::new(NatsClaims::new(connection(), names())),
        }),
    }
}

fn check(options: &Options) -> Result<(), OpenError> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if options.prefix.is_empty() || !options.prefix.bytes().all(plain) {
        let reason = "store.nats.prefix: expected one word of [a-z0-9_]";
        return Err(OpenError::Option(reason.to_owned()));
    }
    if options.partitions == 0 || options.partitions > 1_024 {
        let reason = "store.nats.partitions: expected 1 to 1024";
        return Err(OpenError::Option(reason.to_owned()));
    }
    Ok(())
}
