//! A configured MCP server: what is known of it, and the loop that keeps it reached.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rand::Rng;
use rmcp::model::{ServerPeerInfo, Tool as ListedTool};
use rmcp::service::{Peer, RoleClient};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::catalog::{Line, Refused, Stock, Tool, ToolSource};
use crate::mcp::connection::{self, Ended};
use crate::mcp::handler::Calls;
use crate::mcp::names::Names;
use crate::mcp::options::{McpOptions, McpServerError};
use crate::mcp::parked::Parked;
use crate::mcp::tool;
use crate::mcp::transport::Way;

/// First wait before a lost server is reached again; doubled each time, with jitter.
const RETRY_MIN: Duration = Duration::from_millis(200);
/// Longest such wait.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// A server that was lost keeps its tools this long: mostly it is back at once.
const KEEP_TOOLS: Duration = Duration::from_secs(30);
/// A connection that held this long was a good one: the waits begin anew.
const GOOD_AFTER: Duration = Duration::from_secs(30);
/// Tools of one server that are offered, at most.
pub(super) const TOOLS_MAX: usize = 256;

/// A configured MCP server.
pub struct McpServer {
    shared: Arc<Shared>,
}

/// What its tools and its loop share.
pub(super) struct Shared {
    pub(super) options: McpOptions,
    pub(super) way: Way,
    pub(super) parked: Parked,
    line: Line,
    link: watch::Sender<Link>,
    seen: Mutex<Option<Seen>>,
    /// The next connection begins in the older generation, since the last one broke on the newer.
    pub(super) old_first: AtomicBool,
}

/// Whether it is reached, and what it has.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) stock: Arc<Stock>,
    pub(super) connected: Option<Connected>,
}

/// A connection to it.
#[derive(Debug, Clone)]
pub(super) struct Connected {
    pub(super) peer: Peer<RoleClient>,
    pub(super) calls: Calls,
}

/// What a server said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its name and version, if it says them.
    pub name: Option<String>,
    /// Version of the protocol that is spoken.
    pub protocol: String,
}

impl McpServer {
    /// Checks the options; reaches nothing yet.
    pub fn new(options: McpOptions) -> Result<Self, McpServerError> {
        let way = Way::new(options.transport.clone())?;
        let link = Link {
            stock: Arc::new(Stock::starting()),
            connected: None,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                options,
                way,
                parked: Parked::default(),
                line: Line::default(),
                link: watch::Sender::new(link),
                seen: Mutex::default(),
                old_first: AtomicBool::new(false),
            }),
        })
    }

    /// What the server said of itself when it was last reached.
    pub fn seen(&self) -> Option<Seen> {
        let seen = self.shared.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until what [`ToolSource::stock`] answers is another.
    pub async fn changed(&self) {
        let mut link = self.shared.link.subscribe();
        // It cannot end before this borrow does.
        let _never_closed = link.changed().await;
    }
}

#[async_trait]
impl ToolSource for McpServer {
    fn name(&self) -> &str {
        &self.shared.options.name
    }

    fn stock(&self) -> Arc<Stock> {
        Arc::clone(&self.shared.link.borrow().stock)
    }

    async fn tried(&self) {
        let mut link = self.shared.link.subscribe();
        let tried = |link: &Link| link.stock.state != crate::catalog::SourceState::Starting;
        let _never_closed = link.wait_for(tried).await;
    }

    async fn reached(&self) {
        let _never_closed = self.shared.connected().await;
    }

    async fn run(&self, stop: CancellationToken) {
        let server = self.name();
        let mut wait = RETRY_MIN;
        let mut good = Instant::now();
        while !stop.is_cancelled() {
            let since = Instant::now();
            let Ended { reason, reached } = connection::run(&self.shared, &stop).await;
            if stop.is_cancelled() {
                break;
            }
            tracing::warn!(
                server,
                reason,
                "an MCP server is not reached; it is tried again"
            );
            if reached {
                good = Instant::now();
            }
            self.shared.lost(reason, good.elapsed() < KEEP_TOOLS);
            if reached && since.elapsed() >= GOOD_AFTER {
                wait = RETRY_MIN;
            }
            let jitter = rand::rng().random_range(0.5..1.0);
            tokio::select! { biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(wait.mul_f64(jitter)) => {}
            }
            wait = (wait * 2).min(RETRY_MAX);
        }
        self.shared.lost("this node is stopping".to_owned(), true);
    }
}

impl Shared {
    /// Remembers what a server says of itself.
    pub(super) fn met(&self, info: &ServerPeerInfo) {
        let name =
            |server: &rmcp::model::Implementation| format!("{} {}", server.name, server.version);
        let seen = Seen {
            name: info.server_info.as_ref().map(name),
            protocol: info.protocol_version.to_string(),
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
    }

    /// It is reached and has these tools. Those that are as before stay the same.
    pub(super) fn reached(self: &Arc<Self>, connected: &Connected, listed: Vec<ListedTool>) {
        let before = Arc::clone(&self.link.borrow().stock);
        let mut names = Names::of(&self.options.name);
        let mut refused: Vec<Refused> = Vec::new();
        let mut tools: Vec<Arc<Tool>> = Vec::new();
        for (position, listed) in listed.into_iter().enumerate() {
            let tool = listed.name.to_string();
            if position >= TOOLS_MAX {
                let reason = format!("of one server {TOOLS_MAX} tools are offered");
                refused.push(Refused { tool, reason });
                continue;
            }
            match tool::made(self, names.name(&tool), listed, self.line) {
                Ok(made) => match before.get(&made.spec.name) {
                    Some(same) if same.spec == made.spec => tools.push(Arc::clone(same)),
                    _ => tools.push(Arc::new(made)),
                },
                Err(reason) => refused.push(Refused { tool, reason }),
            }
        }
        for Refused { tool, reason } in &refused {
            tracing::warn!(
                server = self.options.name,
                tool,
                reason,
                "a tool of an MCP server cannot be offered"
            );
        }
        tracing::info!(
            server = self.options.name,
            tools = tools.len(),
            "an MCP server is reached"
        );
        self.link.send_replace(Link {
            stock: Arc::new(Stock::up(tools, refused)),
            connected: Some(connected.clone()),
        });
    }

    fn lost(&self, reason: String, keeps_tools: bool) {
        let before = Arc::clone(&self.link.borrow().stock);
        let before = keeps_tools.then_some(&*before);
        self.link.send_replace(Link {
            stock: Arc::new(Stock::down(reason, before)),
            connected: None,
        });
    }

    /// Waits until it is reached.
    pub(super) async fn connected(&self) -> Option<Connected> {
        let mut link = self.link.subscribe();
        let reached = link.wait_for(|link| link.connected.is_some()).await;
        reached.ok()?.connected.clone()
    }

    /// Why it is not reached.
    pub(super) fn why_not(&self) -> String {
        self.link.borrow().stock.state.of(&self.options.name)
    }

    pub(super) fn prefers_old(&self) -> bool {
        self.old_first.load(Ordering::Relaxed)
    }
}
