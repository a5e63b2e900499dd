//! Nodes in processes of their own, on one broker or on three, and sessions in the middle of turns.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steadfast_nats_server::{NatsCluster, NatsServer, Settings};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::task::block_in_place;

use crate::http_node::Binary;

/// Nodes of a cluster that one of them is taken from.
const NODES: usize = 3;
const START_PATIENCE: Duration = Duration::from_secs(120);
/// Requests at the same time.
const CONCURRENT: usize = 32;

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Size {
    #[command(flatten)]
    binary: Binary,
    /// Sessions in the middle of a turn, all on the node that it happens to.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) sessions: usize,
    /// Brokers, each with a copy of everything: 1 or 3.
    #[arg(long, default_value_t = 3)]
    servers: u8,
}

/// Brokers.
pub(crate) enum Servers {
    One(NatsServer),
    Three(Box<NatsCluster>),
}

impl Servers {
    /// One, or three that each have a copy of everything.
    pub(crate) fn start(count: u8) -> Self {
        // A broker's start is waited for without a task.
        block_in_place(|| match count {
            1 => Self::One(NatsServer::start(Settings::default())),
            _ => Self::Three(Box::new(NatsCluster::start(true))),
        })
    }

    /// Where they listen.
    pub(crate) fn urls(&self) -> Vec<String> {
        match self {
            Self::One(server) => vec![server.url()],
            Self::Three(cluster) => cluster.urls(),
        }
    }

    /// What replaces a node's options, so that it uses them.
    pub(crate) fn set(&self) -> Vec<String> {
        let monitors = match self {
            Self::One(server) => vec![server.monitor_url()],
            Self::Three(cluster) => cluster.monitor_urls(),
        };
        let urls = self.urls();
        let copies = urls.len();
        vec![
            "store.kind=nats".to_owned(),
            format!("store.require_replicas={copies}"),
            format!("store.nats.url={}", urls.join(",")),
            format!("store.nats.monitor_url={}", monitors.join(",")),
            format!("store.nats.replicas={copies}"),
        ]
    }
}

/// Nodes and brokers; all end when this is dropped.
pub(crate) struct Cluster {
    nodes: Vec<Node>,
    http: reqwest::Client,
    servers: Servers,
    folder: TempDir,
}

struct Node {
    address: String,
    child: Child,
}

impl Cluster {
    /// Starts all, with the default settings of a node.
    pub(crate) async fn start(size: &Size, data: &Path) -> Result<Self> {
        let mut cluster = Self {
            nodes: Vec::new(),
            http: reqwest::Client::builder().no_proxy().build()?,
            servers: Servers::start(size.servers),
            folder: TempDir::with_prefix_in("steadfast-bench-", data)?,
        };
        for number in 1..=NODES {
            let node = cluster.spawn(&size.binary, number)?;
            cluster.nodes.push(node);
        }
        for node in &cluster.nodes {
            cluster.wait_ready(node).await?;
        }
        Ok(cluster)
    }

    fn spawn(&self, binary: &Binary, number: usize) -> Result<Node> {
        let folder = self.folder.path();
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let config = format!("[node]\nname = \"n{number}\"\nlisten = \"{address}\"\n{AGENT}");
        let file = folder.join(format!("n{number}.toml"));
        fs::write(&file, config)?;
        let log = File::create(folder.join(format!("n{number}.log")))?;
        let child = Command::new(binary.path()?)
            .args(["serve", "--config"])
            .arg(file)
            .args(set(&self.servers))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Node { address, child })
    }

    async fn wait_ready(&self, node: &Node) -> Result<()> {
        let until = Instant::now() + START_PATIENCE;
        let url = format!("http://{}/readyz", node.address);
        loop {
            match self.http.get(&url).send().await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                _ => ensure!(Instant::now() < until, "{url} is never ready"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn first(&self) -> Result<&Node> {
        self.nodes.first().context("no node")
    }

    /// Begins a turn of each session on the first node.
    pub(crate) async fn begin(&self, sessions: &[String], script: &str) -> Result<()> {
        let address = &self.first()?.address;
        let posts = sessions.iter().map(|session| {
            let url = format!("http://{address}/v1/sessions/{session}/messages");
            let message = json!({ "id": "m1", "agent": "clerk", "content": script });
            begun(self.http.post(url).json(&message))
        });
        let posts: Vec<_> = posts.collect();
        let posts = stream::iter(posts).buffer_unordered(CONCURRENT);
        posts.try_collect::<Vec<()>>().await?;
        Ok(())
    }

    /// Sends a signal to the first node.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.first()?.child.id().context("the node is gone")?;
        let pid = Pid::from_raw(i32::try_from(pid)?).context("a process has a number")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits until the first node is gone.
    pub(crate) async fn first_ended(&mut self) -> Result<ExitStatus> {
        let node = self.nodes.first_mut().context("no node")?;
        Ok(node.child.wait().await?)
    }

    /// The logs of sessions, as the last node tells them.
    pub(crate) async fn logs(&self, sessions: &[String]) -> Result<Vec<Vec<Event>>> {
        let address = &self.nodes.last().context("no node")?.address;
        let reads = sessions.iter().map(|session| {
            let url = format!("http://{address}/v1/sessions/{session}/log?limit=1000");
            log(self.http.get(url))
        });
        let reads: Vec<_> = reads.collect();
        let reads = stream::iter(reads).buffered(CONCURRENT);
        reads.try_collect().await
    }
}

fn set(servers: &Servers) -> impl Iterator<Item = String> {
    let options = servers.set().into_iter();
    options.flat_map(|option| ["--set".to_owned(), option])
}

async fn begun(request: reqwest::RequestBuilder) -> Result<()> {
    let answer = request.send().await?;
    let (status, text) = (answer.status(), answer.text().await?);
    ensure!(status.is_success(), "{status}: {text}");
    Ok(())
}

async fn log(request: reqwest::RequestBuilder) -> Result<Vec<Event>> {
    let answer = request.send().await?;
    let (status, text) = (answer.status(), answer.text().await?);
    ensure!(status.is_success(), "{status}: {text}");
    Ok(events(&serde_json::from_str(&text)?))
}

/// A committed event with the time of its decision.
pub(crate) struct Event {
    pub(crate) at_ms: u64,
    pub(crate) value: Value,
}

impl Event {
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.value["type"] == kind
    }
}

fn events(page: &Value) -> Vec<Event> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut events = Vec::new();
    for record in list(&page["records"]) {
        for entry in list(&record["entries"]) {
            let at_ms = entry["at"].as_u64().unwrap_or_default();
            let values = list(&entry["events"]).into_iter();
            events.extend(values.map(|value| Event { at_ms, value }));
        }
    }
    events
}

/// Names of so many sessions.
pub(crate) fn names(kind: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{kind}-{number}"))
        .collect()
}

/// How busy the machine was in the last 1, 5 and 15 minutes, as its kernel tells.
pub(crate) fn machine_load() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

/// A turn whose model call is open for ten minutes.
pub(crate) const OPEN_TURN: &str = r#"SCRIPT: [{"hang":600,"text":"done"}]"#;
/// A turn with a call that must not be repeated and takes three seconds.
pub(crate) const TOOL_TURN: &str = r#"SCRIPT: [{"tool":"work"},{"text":"done"}]"#;

const AGENT: &str = r#"
[providers.scripted]
kind = "scripted"
[agents.clerk]
model = "scripted/demo"
[[agents.clerk.tools]]
name = "work"
description = "Works for three seconds"
input_schema = { type = "object" }
command = { program = "sh", args = ["-c", "sleep 3; echo done"], env_passed = ["PATH"] }
"#;
