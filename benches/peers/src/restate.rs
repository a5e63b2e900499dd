//! The peer: its server from npm, its service as a process of this program.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::load::Target;
use crate::service::OBJECT;

const START_PATIENCE: Duration = Duration::from_secs(90);

/// A running server with its service registered.
pub(crate) struct Restate {
    server: Child,
    service: Child,
    ingress: String,
    http: reqwest::Client,
    _data: TempDir,
}

impl Restate {
    /// Fetches the server if it is not there, and starts it on an empty folder.
    pub(crate) async fn start(data: &Path) -> Result<Self> {
        let binary = fetched().await?;
        let data = TempDir::with_prefix_in("restate-", data)?;
        let [ingress, admin, node, service_port] = free_ports()?;
        let log = File::create(data.path().join("server.log"))?;
        let server = Command::new(binary)
            .args([
                "--no-logo",
                "--listen-mode",
                "tcp",
                "--bind-ip",
                "127.0.0.1",
            ])
            .arg("--base-dir")
            .arg(data.path().join("data"))
            .args(["--node-name", "peer", "--bind-port", &node.to_string()])
            .env("RESTATE_INGRESS__BIND_PORT", ingress.to_string())
            .env("RESTATE_ADMIN__BIND_PORT", admin.to_string())
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .env("DO_NOT_TRACK", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let service = Command::new(std::env::current_exe()?)
            .args(["service", &service_port.to_string()])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let restate = Self {
            server,
            service,
            ingress: format!("http://127.0.0.1:{ingress}"),
            http: reqwest::Client::builder().no_proxy().build()?,
            _data: data,
        };
        restate.register(admin, service_port).await?;
        Ok(restate)
    }

    /// Registers the service as soon as the server lets it.
    async fn register(&self, admin: u16, service: u16) -> Result<()> {
        let url = format!("http://127.0.0.1:{admin}/deployments");
        let body = json!({ "uri": format!("http://127.0.0.1:{service}"), "force": true });
        let until = Instant::now() + START_PATIENCE;
        loop {
            let answer = self.http.post(&url).json(&body).send().await;
            let problem = match answer {
                Ok(answer) if answer.status().is_success() => break,
                Ok(answer) => answer.text().await?,
                Err(error) => error.to_string(),
            };
            if Instant::now() > until {
                bail!("the service could not be registered: {problem}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        while let Err(error) = self.turn("ready".to_owned()).await {
            ensure!(Instant::now() < until, "no turn ever ran: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Ends both processes.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.service.kill().await?;
        self.server.kill().await?;
        Ok(())
    }
}

impl Target for Restate {
    fn turn(&self, session: String) -> impl Future<Output = Result<()>> + Send + 'static {
        let url = format!("{}/{OBJECT}/{session}/turn", self.ingress);
        let request = self.http.post(url).json("hello");
        async move {
            let answer = request.send().await?;
            let status = answer.status();
            let text = answer.text().await?;
            ensure!(status.is_success(), "{status}: {text}");
            ensure!(text.contains("answer from"), "an odd answer: {text}");
            Ok(())
        }
    }

    fn processes(&self) -> Vec<(&'static str, u32)> {
        let server = self.server.id().map(|pid| ("server", pid));
        let service = self.service.id().map(|pid| ("service", pid));
        server.into_iter().chain(service).collect()
    }
}

/// The server's binary, fetched by npm at the locked version.
async fn fetched() -> Result<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => bail!("the peer has no server for {other}"),
    };
    let binary = package.join(format!(
        "node_modules/@restatedev/restate-server-{}-{arch}/bin/restate-server",
        std::env::consts::OS
    ));
    if !binary.exists() {
        let status = Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund"])
            .current_dir(package)
            .status()
            .await
            .context("npm is needed to fetch the peer's server")?;
        ensure!(status.success(), "npm could not fetch the peer's server");
    }
    Ok(binary)
}

fn free_ports() -> Result<[u16; 4]> {
    let listeners = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut ports = [0; 4];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports)
}
