//! The composition root: the one place that knows which store, which providers, which tools.

mod agents;
mod auth;
pub(crate) mod mcp;
mod metrics;
pub(crate) mod nats;
pub(crate) mod predecessor;
mod providers;
pub(crate) mod store;
mod tools;

pub(crate) use providers::{one_word, provider};

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use steadfast_api::{Api, Limits, Surface};
use steadfast_core::id::NodeId;
use steadfast_runtime::{PoolOptions, Runtime, WebhookSecret, WorkerOptions};
use steadfast_store::clock::SystemClock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::config::node::Role;
use crate::config::store::StoreKind;
use crate::node::NodeBuilder;
use crate::running::{Parts, RunningNode};
use crate::start_error::StartError;
use predecessor::Place;

/// Builds everything and lets it run.
pub(crate) async fn start(builder: NodeBuilder) -> Result<RunningNode, StartError> {
    crate::tls::install();
    let NodeBuilder {
        config,
        tools,
        around_stores,
    } = builder;
    let names = tools.iter().map(|(agent, tools)| {
        let names = tools.iter().map(|tool| tool.name().to_owned());
        (agent.clone(), names.collect())
    });
    config.check(&names.collect())?;
    tracing::debug!(config = %resolved(&config), "resolved configuration");
    // The port first: it is the cheapest thing that can be missing.
    let listener = listen(&config).await?;
    let rust_tools = tools.values().any(|tools| !tools.is_empty());
    let agents = agents::all(&config, tools)?;
    let auth = auth::auth(&config.api)?;
    let store = store::open(&config.store).await?;
    let stores = around_stores
        .into_iter()
        .fold(store.stores(), |stores, wrap| wrap(stores));
    let node = node_id(config.node.name.as_deref())?;
    let place = place(&config, &node);
    let options = steadfast_runtime::Options {
        predecessor: place.predecessor.clone(),
        agent_depth_max: config.tools.agent_depth_max,
        webhook: webhook(&config)?,
        ..runtime_options(&config, store.guarantee().fsync, rust_tools)
    };
    let (sessions, runtime) =
        Runtime::start(options, stores, agents, Arc::new(SystemClock), node.clone())
            .await
            .map_err(|error| StartError::setup("runtime", &error))?;
    let shutdown = CancellationToken::new();
    let options = api_options(&config, auth);
    let limits = options.limits;
    let api = Api::new(
        sessions.clone(),
        options,
        metrics::sources(&store, &sessions),
        shutdown.clone(),
    );
    let address = listener
        .local_addr()
        .map_err(|error| StartError::setup("listener", &error))?;
    let server = tokio::spawn(steadfast_api::serve(
        listener,
        steadfast_api::app(api),
        limits,
        shutdown.clone(),
    ));
    tracing::info!(
        %node,
        %address,
        store = %shown(&config),
        roles = ?config.node.roles,
        "node started"
    );
    Ok(RunningNode::new(Parts {
        node,
        address,
        sessions,
        runtime,
        server,
        store,
        place,
        shutdown,
        drain_grace: config.node.drain_grace.get(),
    }))
}

/// What this process knows of the one before it.
fn place(config: &Config, node: &NodeId) -> Place {
    match config.store.kind {
        // No other process is at its file: whatever owned a session is gone.
        StoreKind::Redb => Place::none(),
        StoreKind::Nats => Place::take(&config.store.path, node),
    }
}

/// Where sessions are kept, for people.
fn shown(config: &Config) -> String {
    match config.store.kind {
        StoreKind::Redb => config.store.path.display().to_string(),
        StoreKind::Nats => config.store.nats.url.clone(),
    }
}

async fn listen(config: &Config) -> Result<TcpListener, StartError> {
    let address: SocketAddr = config
        .node
        .listen
        .parse()
        .map_err(|error| StartError::setup("node.listen", &error))?;
    TcpListener::bind(address)
        .await
        .map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::PortTaken {
                port: address.port(),
            },
            _ => StartError::Listen { address, source },
        })
}

/// A name that no other process has, nor this one at its next start.
fn node_id(name: Option<&str>) -> Result<NodeId, StartError> {
    const NAME_CHARS_MAX: usize = 40;
    let host = rustix::system::uname();
    let name = name.unwrap_or_else(|| host.nodename().to_str().unwrap_or("node"));
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(plain).take(NAME_CHARS_MAX).collect();
    let drawn = uuid::Uuid::now_v7().simple().to_string();
    let tail = drawn.get(drawn.len() - 10..).unwrap_or(&drawn);
    NodeId::new(format!("{name}-{tail}")).map_err(|error| StartError::setup("node.name", &error))
}

fn runtime_options(config: &Config, fsync: bool, rust_tools: bool) -> steadfast_runtime::Options {
    let sessions = &config.sessions;
    steadfast_runtime::Options {
        actors_max: sessions.in_memory_max as usize,
        idle_after: sessions.idle_after.get(),
        admission_patience: sessions.admission_patience.get(),
        append_patience: sessions.append_patience.get(),
        cancel_grace: sessions.cancel_grace.get(),
        drain_grace: config.node.drain_grace.get(),
        admits: config.node.has(Role::Api),
        drives: config.node.has(Role::Driver),
        works: config.node.has(Role::Worker),
        handover_after: config.node.handover_after.get(),
        // A store that may lose what it acknowledged must not give an epoch twice.
        epoch_from_clock: !fsync,
        pools: PoolOptions {
            functions_max: config.tools.functions_max as usize,
            blocking_max: config.tools.blocking_max as usize,
            http_max: config.tools.http_max as usize,
            commands_max: config.tools.commands_max as usize,
            mcp_max: config.tools.mcp_max as usize,
            // Nobody needs them where all tools are endpoints, programs and the client's.
            function_threads: if rust_tools {
                config.tools.function_threads as usize
            } else {
                0
            },
        },
        worker: WorkerOptions {
            jobs_max: config.tools.jobs_max as usize,
            ..WorkerOptions::default()
        },
        ..steadfast_runtime::Options::default()
    }
}

fn webhook(config: &Config) -> Result<Option<steadfast_runtime::WebhookOptions>, StartError> {
    let Some(webhooks) = &config.webhooks else {
        return Ok(None);
    };
    let failed = |error: &dyn std::error::Error| StartError::setup("webhooks.secret", error);
    let secret = webhooks.secret.read().map_err(|error| failed(&error))?;
    Ok(Some(steadfast_runtime::WebhookOptions {
        url: webhooks.url.clone(),
        secret: WebhookSecret::new(secret.expose()).map_err(|error| failed(&error))?,
        timeout: webhooks.timeout.get(),
        give_up_after: webhooks.give_up_after.get(),
        requests_max: webhooks.requests_max as usize,
    }))
}

fn api_options(config: &Config, auth: steadfast_api::Auth) -> steadfast_api::Options {
    let api = &config.api;
    steadfast_api::Options {
        auth,
        hosts_allowed: api.hosts_allowed.clone(),
        origins_allowed: api.origins_allowed.clone(),
        limits: Limits {
            body_bytes_max: api.body_bytes_max,
            connections_max: api.connections_max,
            streams_max: api.streams_max,
            tenant_streams_max: api.tenant_streams_max,
            wait_ms_max: api.wait_max.as_ms(),
            ..Limits::default()
        },
        surface: if config.node.has(Role::Api) {
            Surface::Whole
        } else {
            Surface::Health
        },
    }
}

/// The configuration as it holds now; secrets are named in it, not held.
fn resolved(config: &Config) -> String {
    serde_json::to_string(config).unwrap_or_default()
}
