//! The example worker in Python as a process, with the client library it pins.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use steadfast_nats_server::NatsServer;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// How long a worker may take for what is asked of it.
const PATIENCE: Duration = Duration::from_secs(45);
/// After so many seconds of silence a job comes again.
pub(super) const ACK_WAIT_S: u32 = 2;

/// A worker; killed when dropped.
pub(super) struct PythonWorker {
    process: Child,
    folder: TempDir,
}

impl PythonWorker {
    /// Starts one. `Err`: what it needs cannot be had.
    pub(super) async fn start(
        server: &NatsServer,
        payments_url: &str,
        name: &str,
    ) -> Result<Self, String> {
        let packages = packages().await?;
        let folder = TempDir::new().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let process = Command::new("python3")
            .arg(example().join("worker.py"))
            .env("PYTHONPATH", packages)
            .env("PYTHONUNBUFFERED", "1")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("NATS_URL", server.url())
            .env("WORKER_NAME", name)
            .env("PAYMENTS_URL", payments_url)
            .env("ACK_WAIT_S", ACK_WAIT_S.to_string())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("python3 cannot be started: {error}"))?;
        Ok(Self { process, folder })
    }

    /// What it wrote.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits until it wrote this.
    pub(super) async fn until_it_says(&self, words: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.log().contains(words) {
            assert!(Instant::now() < until, "never {words:?}:\n{}", self.log());
            // Another process gives no other sign than its log.
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Ends it as a power cut would.
    pub(super) async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }
}

impl Drop for PythonWorker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- output of a worker\n{}", self.log());
        }
    }
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/python-worker")
}

/// The folder of the packages that the example pins; installed once for each list of them.
async fn packages() -> Result<PathBuf, String> {
    let tools = match std::env::var_os("STEADFAST_TOOLS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools"),
    };
    let folder = tools.join("python-worker");
    fs::create_dir_all(&folder).unwrap();
    let pinned = fs::read(example().join("requirements.txt")).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    // Tests in other processes want the same.
    tokio::task::spawn_blocking(move || install(&folder, &pinned, lock))
        .await
        .unwrap()
}

fn install(folder: &Path, pinned: &[u8], lock: File) -> Result<PathBuf, String> {
    lock.lock().unwrap();
    let (packages, mark) = (folder.join("packages"), folder.join("installed.txt"));
    if fs::read(&mark).is_ok_and(|installed| installed == pinned) {
        return Ok(packages);
    }
    let _absent = fs::remove_dir_all(&packages);
    let installed = std::process::Command::new("python3")
        .args(["-m", "pip", "install", "--quiet"])
        .args(["--disable-pip-version-check", "--root-user-action=ignore"])
        .args(["--no-deps", "--only-binary=:all:", "--require-hashes"])
        .arg("--target")
        .arg(&packages)
        .arg("--requirement")
        .arg(example().join("requirements.txt"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("python3 cannot be started: {error}"))?;
    if !installed.status.success() {
        let said = String::from_utf8_lossy(&installed.stderr);
        return Err(format!("pip failed: {}", said.trim().replace('\n', " ")));
    }
    fs::write(&mark, pinned).unwrap();
    Ok(packages)
}
