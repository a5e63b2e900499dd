//! What the surface is told by whoever starts it.

use crate::auth::Auth;

/// How the HTTP surface behaves.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Who may ask what.
    pub auth: Auth,
    /// Without keys: hosts that the `Host` header may name besides this machine's own names.
    pub hosts_allowed: Vec<String>,
    /// Without keys: origins, as `https://app.example`, whose pages may call besides this machine's.
    pub origins_allowed: Vec<String>,
    /// Bounds.
    pub limits: Limits,
    /// What is served at all.
    pub surface: Surface,
}

/// What a node serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Surface {
    /// All routes.
    #[default]
    Whole,
    /// Health and metrics only: other nodes serve the sessions.
    Health,
}

/// Bounds of the surface. Each has an error of its own, or closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's body, at most.
    pub body_bytes_max: usize,
    /// Nesting of a JSON body, at most. What is stored must stay readable under the 128 levels of
    /// a JSON reader, also inside records and blobs.
    pub json_depth_max: usize,
    /// Bytes of a request's head, at most; 431 above.
    pub head_bytes_max: usize,
    /// Headers of a request, at most; 431 above.
    pub headers_max: usize,
    /// Until the head of a connection's next request is complete, at most; so also how long an idle
    /// connection is kept. Longer than proxies keep theirs, which else send into a closed one.
    pub head_read_ms: u64,
    /// From the head until the body is complete, at most.
    pub body_read_ms: u64,
    /// For one question to sessions or the store, at most.
    pub request_ms: u64,
    /// What `?wait=` may ask for, at most.
    pub wait_ms_max: u64,
    /// Open connections; more wait in the listener's backlog.
    pub connections_max: usize,
    /// Streams of the node at the same time, at most.
    pub streams_max: usize,
    /// Streams of one tenant at the same time, at most.
    pub tenant_streams_max: usize,
    /// Time between comments that keep a quiet stream open.
    pub stream_comment_ms: u64,
    /// From the shutdown until connections that still work are closed.
    pub shutdown_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 8 * 1024 * 1024,
            json_depth_max: 64,
            head_bytes_max: 32 * 1024,
            headers_max: 100,
            head_read_ms: 75_000,
            body_read_ms: 30_000,
            request_ms: 30_000,
            wait_ms_max: 600_000,
            connections_max: 20_000,
            streams_max: 10_000,
            tenant_streams_max: 5_000,
            stream_comment_ms: 10_000,
            shutdown_ms: 10_000,
        }
    }
}
