//! The real binary as a child process, with a data folder that outlives it.

pub mod process;

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::crash_log::{CRASH_POINT, CrashPoint};

/// How long a start may take: it makes what is missing at its store, on a machine with much to do.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// How long an orderly end may take.
const PATIENCE: Duration = Duration::from_secs(45);

/// Ports below those that the kernel gives to outgoing connections: a port is free for us to
/// return to after a crash.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A configuration, a data folder and a port, and the process if one runs.
#[derive(Debug)]
pub struct Product {
    folder: TempDir,
    port: Port,
    process: Option<Child>,
    starts: u32,
    environment: Vec<(String, String)>,
}

impl Product {
    /// Starts a node whose configuration is `agents` (tables of agents and providers, in TOML) with
    /// a port and a data folder of its own, and waits until it is ready.
    pub async fn start(agents: &str) -> Self {
        let mut product = Self::prepare(agents);
        product.start_again().await;
        product
    }

    /// The same, by a binary that runs the same node on a store which ends its own process at this
    /// point. Every later start is of the real binary.
    pub async fn start_crashing(agents: &str, binary: &str, point: &CrashPoint) -> Self {
        let mut product = Self::prepare(agents);
        product.spawn(Path::new(binary), Some(point)).await;
        product
    }

    /// The same without a process yet.
    pub fn prepare(agents: &str) -> Self {
        let folder = TempDir::with_prefix("steadfast-").unwrap();
        let data = folder.path().join("data");
        let store = format!("[store]\nkind = \"redb\"\npath = {data:?}\n");
        Self::prepare_in(folder, "n1", &store, agents)
    }

    /// The same with a store of the caller's: the table `store` in TOML.
    pub fn prepare_on(store: &str, agents: &str) -> Self {
        Self::prepare_named("n1", store, agents)
    }

    /// The same of one node among several.
    pub fn prepare_named(name: &str, store: &str, agents: &str) -> Self {
        let folder = TempDir::with_prefix("steadfast-").unwrap();
        Self::prepare_in(folder, name, store, agents)
    }

    fn prepare_in(folder: TempDir, name: &str, store: &str, agents: &str) -> Self {
        let port = Port::lease();
        let config = format!(
            "[node]\nname = {name:?}\nlisten = \"127.0.0.1:{}\"\n\n{store}\n{agents}\n",
            port.number,
        );
        fs::write(folder.path().join("node.toml"), config).unwrap();
        Self {
            folder,
            port,
            process: None,
            starts: 0,
            environment: Vec::new(),
        }
    }

    /// More variables of the environment of every process that starts from now on.
    pub fn set_environment(&mut self, variables: Vec<(String, String)>) {
        self.environment = variables;
    }

    /// Starts the process on the same data and port, and waits until it is ready.
    pub async fn start_again(&mut self) {
        self.spawn(binary(), None).await;
    }

    async fn spawn(&mut self, binary: &Path, point: Option<&CrashPoint>) {
        assert!(self.process.is_none(), "a process runs already");
        self.starts += 1;
        let log = File::create(self.log_path()).unwrap();
        let mut command = Command::new(binary);
        if let Some(point) = point {
            command.env(CRASH_POINT, point.text());
        }
        let child = command
            .args(["serve", "--config"])
            .arg(self.folder.path().join("node.toml"))
            .current_dir(self.folder.path())
            .env("STEADFAST_TEST_KEY", "a-secret-of-tests")
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.process = Some(child);
        self.wait_ready().await;
    }

    async fn wait_ready(&mut self) {
        let client = self.client();
        let until = Instant::now() + START_PATIENCE;
        loop {
            let process = self.process.as_mut().unwrap();
            if let Some(status) = process.try_wait().unwrap() {
                panic!("the node ended at its start, {status}:\n{}", self.log());
            }
            if client.is_ready().await {
                return;
            }
            assert!(Instant::now() < until, "never ready:\n{}", self.log());
            // Another process gives no other sign than an answer on its port.
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends the process at once, as a power cut would, and waits until it is gone.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("no process runs");
        process.kill().await.unwrap();
    }

    /// Waits until the process has killed itself.
    pub async fn wait_dead(&mut self) {
        let mut process = self.process.take().expect("no process runs");
        match tokio::time::timeout(PATIENCE, process.wait()).await {
            Ok(status) => {
                let signal = status.unwrap().signal();
                assert_eq!(signal, Some(9), "not by SIGKILL:\n{}", self.log());
            }
            Err(_) => panic!("the crash point was never reached:\n{}", self.log()),
        }
    }

    /// Asks the process to end in its own way and waits until it has.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_ended().await
    }

    /// Waits until the process has ended in its own way.
    pub async fn wait_ended(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("no process runs");
        match tokio::time::timeout(PATIENCE, process.wait()).await {
            Ok(status) => status.unwrap(),
            Err(_) => panic!("the node did not end:\n{}", self.log()),
        }
    }

    /// Kills the process and starts it again.
    pub async fn crash(&mut self) {
        self.kill().await;
        self.start_again().await;
    }

    /// A client of this node; stays right over restarts.
    pub fn client(&self) -> Client {
        Client::new(format!("http://127.0.0.1:{}", self.port.number))
    }

    /// What the newest process wrote.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Its folder: configuration, data and the output of each process.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn log_path(&self) -> PathBuf {
        self.folder
            .path()
            .join(format!("process-{}.log", self.starts))
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for start in 1..=self.starts {
                let path = self.folder.path().join(format!("process-{start}.log"));
                let text = fs::read_to_string(path).unwrap_or_default();
                eprintln!("--- output of process {start}\n{text}");
            }
        }
    }
}

/// The binary under test: the one that the test command built, else built here and now.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("STEADFAST_BINARY") {
            return PathBuf::from(path);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = std::process::Command::new(cargo)
            .args(["build", "--quiet", "--workspace", "--bins"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success(), "the binary could not be built");
        // This test stands in `deps`, beside which the binary is put.
        let this = std::env::current_exe().unwrap();
        this.ancestors().nth(2).unwrap().join("steadfast")
    })
}

/// A loopback port that no other test takes while this value lives.
#[derive(Debug)]
struct Port {
    number: u16,
    _lease: File,
}

impl Port {
    fn lease() -> Self {
        let folder = std::env::temp_dir().join("steadfast-test-ports");
        fs::create_dir_all(&folder).unwrap();
        let span = u32::from(PORTS.end - PORTS.start);
        // Each process begins elsewhere, so that tests rarely try the same port first.
        let first = std::process::id().wrapping_mul(37) % span;
        for offset in 0..span {
            let number = PORTS.start + u16::try_from((first + offset) % span).unwrap();
            let lease = File::create(folder.join(number.to_string())).unwrap();
            if lease.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Self {
                    number,
                    _lease: lease,
                };
            }
        }
        panic!("no free port in {PORTS:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_leases_are_two_ports() {
        let (first, second) = (Port::lease(), Port::lease());
        assert_ne!(first.number, second.number);
    }
}
