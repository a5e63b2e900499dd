//! `[store.nats]`: the broker.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::secret::Secret;

/// The broker that keeps sessions for many nodes; only with `store.kind = "nats"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NatsOptions {
    /// Address of a server, or of several with commas between; the others are learned from the one
    /// that answers.
    pub url: String,
    /// Addresses of the monitoring pages of all servers that keep the streams, with commas between:
    /// there a node reads whether they sync to disk before they acknowledge. Needed with
    /// `require_fsync`.
    pub monitor_url: String,
    /// Servers that keep a copy of each stream. Fixed when the streams are made.
    #[schemars(range(min = 1, max = 5))]
    pub replicas: u32,
    /// Streams over which sessions are spread. Fixed when the streams are made.
    #[schemars(range(min = 1, max = 1024))]
    pub partitions: u32,
    /// First word of all subjects, in capitals of all streams; of [a-z0-9_]. Two systems on one
    /// account need two of them.
    pub prefix: String,
    /// The user, with `password`.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<Secret>,
    /// A token instead of a user.
    pub token: Option<Secret>,
    /// The seed of an nkey instead of a user.
    pub nkey: Option<Secret>,
    /// A credentials file instead of a user.
    pub credentials_file: Option<PathBuf>,
    /// Refuse a connection without TLS; an address with tls:// does too.
    pub tls: bool,
    /// Certificates of authorities (PEM) to trust instead of the system's.
    pub tls_authorities_file: Option<PathBuf>,
    /// Certificate of this node (PEM), for servers that ask for one.
    pub tls_certificate_file: Option<PathBuf>,
    /// Its key (PEM).
    pub tls_key_file: Option<PathBuf>,
}

impl Default for NatsOptions {
    fn default() -> Self {
        Self {
            url: "nats://127.0.0.1:4222".to_owned(),
            monitor_url: "http://127.0.0.1:8222".to_owned(),
            replicas: 3,
            partitions: 16,
            prefix: "sf".to_owned(),
            user: None,
            password: None,
            token: None,
            nkey: None,
            credentials_file: None,
            tls: false,
            tls_authorities_file: None,
            tls_certificate_file: None,
            tls_key_file: None,
        }
    }
}

/// The addresses in a text with commas between.
pub(crate) fn addresses(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|url| !url.is_empty())
}
