//! The node of the tour: this same binary as a child process.

use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::process::{Child, Command};

use super::tool_server::{Side, ToolServer};
use super::{Tool, in_time};
use crate::client::NodeClient;

/// A child process with a folder that outlives it.
pub(crate) struct TourNode {
    folder: PathBuf,
    client: NodeClient,
    child: Option<Child>,
}

impl TourNode {
    /// Writes the configuration and starts the first process.
    pub(crate) async fn start(folder: &Path, tools: &ToolServer) -> anyhow::Result<Self> {
        // The port must stay the same over restarts: take a free one now.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        std::fs::write(folder.join("node.toml"), configuration(folder, port, tools))?;
        let client = NodeClient::new(&format!("http://127.0.0.1:{port}"), None)?;
        let mut node = Self {
            folder: folder.to_owned(),
            client,
            child: None,
        };
        node.start_again().await?;
        Ok(node)
    }

    /// A client of it; stays right over restarts.
    pub(crate) fn client(&self) -> &NodeClient {
        &self.client
    }

    /// Starts a process on the same folder and waits until it is ready.
    pub(crate) async fn start_again(&mut self) -> anyhow::Result<()> {
        let log = self.log()?;
        let child = Command::new(std::env::current_exe()?)
            .args(["serve", "--config"])
            .arg(self.folder.join("node.toml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("the node could not be started")?;
        self.child = Some(child);
        in_time("the start of the node", self.ready()).await?
    }

    /// Ends the process at once, as a power cut would.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        while self.client.get("/readyz").await.is_err() {
            if let Some(status) = self
                .child
                .as_mut()
                .and_then(|child| child.try_wait().transpose())
            {
                let log = std::fs::read_to_string(self.folder.join("node.log")).unwrap_or_default();
                anyhow::bail!("the node ended at its start ({}):\n{log}", status?);
            }
            // Another process gives no other sign than an answer on its port.
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        Ok(())
    }

    fn log(&self) -> std::io::Result<File> {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join("node.log"))
    }
}

fn configuration(folder: &Path, port: u16, tools: &ToolServer) -> String {
    let mut text = format!(
        "[node]\nname = \"tour\"\nlisten = \"127.0.0.1:{port}\"\n\
         [store]\npath = {:?}\n\
         [telemetry]\nlog_format = \"json\"\n\
         [providers.scripted]\nkind = \"scripted\"\n\
         [agents.tour]\nmodel = \"scripted/demo\"\n",
        folder.join("data"),
    );
    for tool in Tool::ALL {
        text.push_str(&format!(
            "[[agents.tour.tools]]\nname = {:?}\ndescription = \"of the tour\"\nreplay = {:?}\n\
             http = {{ url = {:?} }}\n",
            tool.name(),
            tool.rule(),
            tools.url(Side::Durable, tool),
        ));
    }
    text
}
