//! A node in a process of its own, on an empty folder.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

const START_PATIENCE: Duration = Duration::from_secs(30);

/// Which binary.
#[derive(clap::Args)]
pub(crate) struct Binary {
    /// The node; by default the one beside this program.
    #[arg(long)]
    binary: Option<PathBuf>,
}

impl Binary {
    /// Where it is.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        let path = match &self.binary {
            Some(binary) => binary.canonicalize()?,
            None => std::env::current_exe()?.with_file_name("steadfast"),
        };
        ensure!(path.exists(), "{} is not built", path.display());
        Ok(path)
    }
}

/// The node.
pub(crate) struct HttpNode {
    /// `127.0.0.1:PORT`
    pub(crate) address: String,
    pub(crate) pid: u32,
    pub(crate) http: reqwest::Client,
    child: Child,
    _folder: TempDir,
}

impl HttpNode {
    /// Starts the demo agent on the scripted model.
    pub(crate) async fn start(binary: &Binary, data: &Path) -> Result<Self> {
        Self::start_with(binary, data, &[]).await
    }

    /// The same, with options replaced.
    pub(crate) async fn start_with(binary: &Binary, data: &Path, set: &[String]) -> Result<Self> {
        let binary = binary.path()?;
        let folder = TempDir::with_prefix_in("steadfast-bench-", data)?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let log = File::create(folder.path().join("node.log"))?;
        let child = Command::new(binary)
            .args(["dev", "--model", "scripted/demo", "--listen", &address])
            .args(set.iter().flat_map(|option| ["--set", option]))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let node = Self {
            address,
            pid: child.id().context("the node ended at once")?,
            http: reqwest::Client::builder().no_proxy().build()?,
            child,
            _folder: folder,
        };
        node.wait_ready().await?;
        Ok(node)
    }

    async fn wait_ready(&self) -> Result<()> {
        let until = Instant::now() + START_PATIENCE;
        let url = format!("http://{}/readyz", self.address);
        loop {
            match self.http.get(&url).send().await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                _ if Instant::now() > until => bail!("{url} is never ready"),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Sends a message and waits until its turn has ended.
    pub(crate) fn turn(
        &self,
        session: &str,
        content: &str,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let address = &self.address;
        let url = format!("http://{address}/v1/sessions/{session}/messages?wait=60s");
        let message = json!({ "agent": "demo", "content": content });
        let request = self.http.post(url).json(&message);
        async move {
            let answer = request.send().await?;
            let (status, text) = (answer.status(), answer.text().await?);
            ensure!(status.is_success(), "{status}: {text}");
            let body: Value = serde_json::from_str(&text)?;
            ensure!(body["state"] == "completed", "an odd answer: {text}");
            Ok(())
        }
    }

    /// One number of its metrics.
    pub(crate) async fn metric(&self, name: &str) -> Result<f64> {
        let url = format!("http://{}/metrics", self.address);
        let text = self.http.get(url).send().await?.text().await?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with(' ')));
        let value = line.with_context(|| format!("no metric {name}"))?;
        Ok(value.trim().parse()?)
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}
