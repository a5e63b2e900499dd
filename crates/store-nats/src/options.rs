//! What the store is told.

use std::path::PathBuf;
use std::time::Duration;

use steadfast_store::jobs::JOB_SILENCE;
use steadfast_store::mailbox::DELIVERY_SILENCE;
use steadfast_store::timers::TIMER_SILENCE;

/// How to reach the broker, and how the objects in it are made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Addresses of servers; one that answers is enough, the others are learned from it.
    pub servers: Vec<String>,
    /// Who this node is to the broker.
    pub auth: Auth,
    /// Encryption of the connection.
    pub tls: Tls,
    /// How the connection is called in the broker's own lists.
    pub name: String,
    /// First word of all subjects, and in capitals of all streams: of `[a-z0-9_]`. Two systems on
    /// one broker account need two of them.
    pub prefix: String,
    /// Servers that keep a copy of each stream. Fixed when the streams are made.
    pub replicas: u32,
    /// Partitions of the log and of the mailboxes. Fixed when the streams are made.
    pub partitions: u32,
    /// Addresses of the servers' monitoring pages: all that keep a copy, for `require_fsync`.
    pub monitor_urls: Vec<String>,
    /// Refuse to open unless each server syncs to disk before it acknowledges.
    pub require_fsync: bool,
    /// Refuse to open unless so many servers keep each acknowledged write.
    pub require_replicas: u32,
    /// Longest wait for one answer of the broker.
    pub request_timeout: Duration,
    /// Longest wait for a broker that is not ready, at start.
    pub setup_patience: Duration,
    /// After how long mail that met silence comes again. Fixed when the streams are made.
    pub delivery_silence: Duration,
    /// After how long a timer that met silence fires again. Fixed when the streams are made.
    pub timer_silence: Duration,
    /// After how long a job whose worker is silent comes again. Fixed when a tool's first worker
    /// comes.
    pub job_silence: Duration,
}

/// Who a node is to the broker.
#[derive(Debug, Clone, Default)]
pub enum Auth {
    /// Nobody in particular.
    #[default]
    None,
    /// A user with a password.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token.
    Token(String),
    /// The seed of an nkey.
    Nkey(String),
    /// A credentials file.
    Credentials(PathBuf),
}

/// Encryption of the connection.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// Refuse a connection without it. Addresses with `tls://` do too.
    pub required: bool,
    /// Certificates of authorities to trust instead of the system's.
    pub authorities: Option<PathBuf>,
    /// Certificate of this node and its key, for servers that ask for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            servers: vec!["nats://127.0.0.1:4222".to_owned()],
            auth: Auth::None,
            tls: Tls::default(),
            name: "steadfast".to_owned(),
            prefix: "sf".to_owned(),
            replicas: 3,
            partitions: 16,
            monitor_urls: Vec::new(),
            require_fsync: true,
            require_replicas: 1,
            request_timeout: Duration::from_secs(5),
            setup_patience: Duration::from_secs(30),
            delivery_silence: DELIVERY_SILENCE,
            timer_silence: TIMER_SILENCE,
            job_silence: JOB_SILENCE,
        }
    }
}
