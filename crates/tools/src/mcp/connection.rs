//! One connection to a server, from its first word to its end.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::model::{
    PaginatedRequestParams, ProtocolVersion, ServerNotification, SubscriptionFilter, Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient, RunningService,
    ServiceError, Subscription,
};
use rmcp::transport::IntoTransport;
use steadfast_core::limits::DETAIL_BYTES_MAX;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::command::options::Prepared;
use crate::command::process::keep_end;
use crate::cut::cut;
use crate::mcp::handler::Handler;
use crate::mcp::process::Process;
use crate::mcp::server::{Connected, Shared, TOOLS_MAX};
use crate::mcp::transport::{self, Way};

/// From the start of a server until it has said who it is; a program may have to be unpacked first.
const HELLO_MAX: Duration = Duration::from_secs(60);
/// For one page of its list of tools.
const LIST_MAX: Duration = Duration::from_secs(30);
/// Changes within this time are looked at together.
const CHANGES_REST: Duration = Duration::from_millis(100);
/// Time for a connection to be closed in good order.
const CLOSE_MAX: Duration = Duration::from_secs(2);
/// Pages of its list of tools, at most: a list that goes on for ever is cut.
const PAGES_MAX: usize = 64;

/// Why a connection is over.
pub(super) struct Ended {
    pub(super) reason: String,
    /// It was a connection, and not only an attempt.
    pub(super) reached: bool,
}

/// Reaches the server and stays until it is lost or `stop`.
pub(super) async fn run(shared: &Arc<Shared>, stop: &CancellationToken) -> Ended {
    match &shared.way {
        Way::Process(prepared) => with_process(shared, prepared, stop).await,
        Way::Http { client, config } => serve(shared, transport::http(client, config), stop).await,
    }
}

async fn with_process(
    shared: &Arc<Shared>,
    prepared: &Prepared,
    stop: &CancellationToken,
) -> Ended {
    let (mut process, pipes) = match Process::start(prepared) {
        Ok(started) => started,
        Err(reason) => {
            return Ended {
                reason,
                reached: false,
            };
        }
    };
    let mut complaints = Vec::new();
    let (mut ended, status) = {
        let mut complaining = pin!(keep_end(pipes.stderr, &mut complaints));
        let mut serving = pin!(serve(shared, (pipes.stdout, pipes.stdin), stop));
        let mut status = None;
        let mut moving = true;
        let ended = loop {
            tokio::select! { biased;
                ended = &mut serving => break ended,
                _ = &mut complaining, if moving => moving = false,
                exited = process.ended(), if status.is_none() => status = Some(exited),
            }
            if status.is_some() {
                // What it wrote before it ended is in the pipe and still counts.
                break match timeout(CLOSE_MAX, &mut serving).await {
                    Ok(ended) => ended,
                    Err(_) => Ended {
                        reason: String::new(),
                        reached: true,
                    },
                };
            }
        };
        if moving && status.is_some() {
            let _somebody_else_writes = timeout(CLOSE_MAX, complaining).await;
        }
        (ended, status)
    };
    if stop.is_cancelled() || status.is_none() {
        // Its input has ended with the transport; a server that closed its output ends now, too.
        match timeout(CLOSE_MAX, process.ended()).await {
            Ok(Ok(status)) if !stop.is_cancelled() => {
                ended.reason = process.reason(status, &complaints)
            }
            Ok(_) | Err(_) => {}
        }
    }
    match status {
        Some(Ok(status)) => ended.reason = process.reason(status, &complaints),
        Some(Err(reason)) => ended.reason = reason,
        None => {}
    }
    process.end().await;
    ended
}

async fn serve<T, E, A>(shared: &Arc<Shared>, transport: T, stop: &CancellationToken) -> Ended
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let not_reached = |reason: String| Ended {
        reason,
        reached: false,
    };
    let handler = Handler::default();
    let calls = handler.calls.clone();
    let changed = Arc::clone(&handler.changed);
    let hello = timeout(
        HELLO_MAX,
        handler.serve_with_lifecycle(transport, generation(shared)),
    );
    let service = tokio::select! { biased;
        () = stop.cancelled() => return not_reached("this node is stopping".to_owned()),
        service = hello => match service {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => {
                // A server that breaks on an unknown first word may know the older one.
                shared.old_first.fetch_not(Ordering::Relaxed);
                return not_reached(hello_failed(&error));
            }
            Err(_) => return not_reached(format!("it said nothing within {} s", HELLO_MAX.as_secs())),
        },
    };
    let peer = service.peer().clone();
    let connected = Connected {
        peer: peer.clone(),
        calls,
    };
    if let Some(info) = peer.peer_info() {
        shared.met(&info);
    }
    match tools(&peer).await {
        Ok(tools) => shared.reached(&connected, tools),
        Err(error) => return not_reached(format!("its tools cannot be listed: {error}")),
    }
    let reason = stay(shared, service, &connected, &changed, stop).await;
    Ended {
        reason,
        reached: true,
    }
}

fn generation(shared: &Shared) -> ClientLifecycleMode {
    if shared.prefers_old() {
        return ClientLifecycleMode::Initialize;
    }
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

fn hello_failed(error: &ClientInitializeError) -> String {
    let words = match error {
        ClientInitializeError::TransportError { error, .. } => chain(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => hello_failed(fallback),
        other => chain(other),
    };
    cut(&words, DETAIL_BYTES_MAX)
}

/// An error with its sources, without what is said twice.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_words = inner.to_string();
        if !words.contains(&inner_words) {
            words = format!("{words}: {inner_words}");
        }
        source = inner.source();
    }
    words
}

/// Looks at the list of tools whenever it changes, until the connection is over.
async fn stay(
    shared: &Arc<Shared>,
    service: RunningService<RoleClient, Handler>,
    connected: &Connected,
    changed: &tokio::sync::Notify,
    stop: &CancellationToken,
) -> String {
    let peer = &connected.peer;
    let closer = service.cancellation_token();
    let mut subscription = subscribe(peer).await;
    let mut over = pin!(service.waiting());
    loop {
        tokio::select! { biased;
            () = stop.cancelled() => {
                closer.cancel();
                let _closed_or_dropped = timeout(CLOSE_MAX, over).await;
                return "this node is stopping".to_owned();
            }
            _ = &mut over => return "it closed the connection".to_owned(),
            () = changed.notified() => {}
            notification = next(&mut subscription) => match notification {
                Some(ServerNotification::ToolListChangedNotification(_)) => {}
                Some(_) => continue,
                // Nothing more is told: whatever comes next is seen when it is reached anew.
                None => { subscription = None; continue; }
            },
        }
        let listing = async {
            tokio::time::sleep(CHANGES_REST).await;
            tools(peer).await
        };
        tokio::select! { biased;
            () = stop.cancelled() => {}
            _ = &mut over => return "it closed the connection".to_owned(),
            listed = listing => match listed {
                Ok(tools) => shared.reached(connected, tools),
                Err(error) => return format!("its changed tools cannot be listed: {error}"),
            },
        }
    }
}

/// In the newer generation changes are told only to who asks for them.
async fn subscribe(peer: &Peer<RoleClient>) -> Option<Subscription> {
    let info = peer.peer_info()?;
    let told = info.capabilities.tools.as_ref()?.list_changed == Some(true);
    if !told || info.protocol_version < ProtocolVersion::V_2026_07_28 {
        return None;
    }
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    match timeout(LIST_MAX, peer.listen(filter)).await {
        Ok(Ok(subscription)) => Some(subscription),
        Ok(Err(error)) => {
            tracing::warn!(%error, "an MCP server does not tell changes of its tools");
            None
        }
        Err(_) => None,
    }
}

async fn next(subscription: &mut Option<Subscription>) -> Option<ServerNotification> {
    match subscription {
        Some(subscription) => subscription.next().await.ok().flatten(),
        None => std::future::pending().await,
    }
}

/// All its tools, page by page; one more than are offered, so that it is known that there are more.
async fn tools(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor.take();
        let page = timeout(LIST_MAX, peer.list_tools(Some(params)));
        let page = page
            .await
            .map_err(|_| ServiceError::Timeout { timeout: LIST_MAX })??;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() > TOOLS_MAX {
            break;
        }
    }
    Ok(tools)
}
