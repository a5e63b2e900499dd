//! Ours: a node that runs already, or one started here on an empty folder.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use steadfast_nats_server::NatsServer;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::load::Target;

const START_PATIENCE: Duration = Duration::from_secs(30);

/// Which node, and what the turn is made of.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A binary to start with its demo agent on an empty folder.
    #[arg(long, conflicts_with = "steadfast_url")]
    steadfast_binary: Option<PathBuf>,
    /// Measures it a second time, on a broker that is started here and syncs each write.
    #[arg(long, requires = "steadfast_binary")]
    pub(crate) nats: bool,
    /// A node that runs.
    #[arg(long)]
    steadfast_url: Option<String>,
    /// That node's process, for its CPU time.
    #[arg(long, requires = "steadfast_url")]
    steadfast_pid: Option<u32>,
    /// The agent, on the scripted model.
    #[arg(long, default_value = "demo")]
    agent: String,
    /// The tool that the script calls; it must return at once.
    #[arg(long, default_value = "get_weather")]
    tool: String,
    /// The tool's input.
    #[arg(long, default_value = r#"{"city":"Paris"}"#)]
    input: String,
}

/// A node.
pub(crate) struct Node {
    url: String,
    pid: Option<u32>,
    message: Value,
    http: reqwest::Client,
    started: Option<(Child, TempDir)>,
    /// Ends after the node.
    broker: Option<NatsServer>,
}

impl Node {
    /// The node that the options name; `None`: they name none.
    pub(crate) async fn start(
        options: &Options,
        data: &Path,
        broker: Option<NatsServer>,
    ) -> Result<Option<Self>> {
        let input: Value = serde_json::from_str(&options.input)?;
        let script = json!([{ "tool": options.tool, "input": input }, { "text": "done" }]);
        let message = json!({
            "agent": options.agent,
            "content": format!("SCRIPT: {script}"),
        });
        let mut node = Self {
            url: String::new(),
            pid: options.steadfast_pid,
            message,
            http: reqwest::Client::builder().no_proxy().build()?,
            started: None,
            broker,
        };
        match (&options.steadfast_url, &options.steadfast_binary) {
            (Some(url), _) => node.url.clone_from(url),
            (None, Some(binary)) => node.spawn(binary, data)?,
            (None, None) => return Ok(None),
        }
        node.wait_ready().await?;
        Ok(Some(node))
    }

    fn spawn(&mut self, binary: &Path, data: &Path) -> Result<()> {
        let data = TempDir::with_prefix_in("steadfast-", data)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = File::create(data.path().join("node.log"))?;
        let child = Command::new(binary.canonicalize()?)
            .args(["dev", "--model", "scripted/demo", "--listen"])
            .arg(format!("127.0.0.1:{port}"))
            .args(self.broker.as_ref().map(set).unwrap_or_default())
            .current_dir(data.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        self.url = format!("http://127.0.0.1:{port}");
        self.pid = child.id();
        self.started = Some((child, data));
        Ok(())
    }

    async fn wait_ready(&self) -> Result<()> {
        let until = Instant::now() + START_PATIENCE;
        let url = format!("{}/readyz", self.url);
        loop {
            match self.http.get(&url).send().await {
                Ok(answer) if answer.status().is_success() => break,
                _ if Instant::now() > until => bail!("{url} is never ready"),
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        self.turn("ready".to_owned()).await
    }

    /// Ends the node if it was started here.
    pub(crate) async fn stop(self) -> Result<()> {
        if let Some((mut child, _data)) = self.started {
            child.kill().await?;
        }
        Ok(())
    }
}

/// What replaces a node's options, so that it uses a broker.
fn set(broker: &NatsServer) -> Vec<String> {
    let options = [
        "store.kind=nats".to_owned(),
        "store.nats.replicas=1".to_owned(),
        "store.require_replicas=1".to_owned(),
        format!("store.nats.url={}", broker.url()),
        format!("store.nats.monitor_url={}", broker.monitor_url()),
    ];
    let pairs = options.map(|option| ["--set".to_owned(), option]);
    pairs.into_iter().flatten().collect()
}

impl Target for Node {
    fn turn(&self, session: String) -> impl Future<Output = Result<()>> + Send + 'static {
        let url = format!("{}/v1/sessions/{session}/messages?wait=30s", self.url);
        let request = self.http.post(url).json(&self.message);
        async move {
            let answer = request.send().await?;
            let status = answer.status();
            let text = answer.text().await?;
            ensure!(status.is_success(), "{status}: {text}");
            let body: Value = serde_json::from_str(&text)?;
            ensure!(body["state"] == "completed", "an odd answer: {text}");
            Ok(())
        }
    }

    fn processes(&self) -> Vec<(&'static str, u32)> {
        let node = self.pid.map(|pid| ("node", pid));
        let broker = self.broker.as_ref().and_then(NatsServer::process_id);
        let broker = broker.map(|pid| ("broker", pid));
        node.into_iter().chain(broker).collect()
    }
}
