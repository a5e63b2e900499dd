//! The child process as its user sees it: its number, signals to it, commands beside it.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::Command;

use super::{PATIENCE, Product, binary};

impl Product {
    /// Number of the process that runs.
    pub fn pid(&self) -> u32 {
        let process = self.process.as_ref().expect("no process runs");
        process.id().expect("the process is gone")
    }

    /// The name that the process that runs drew at its start, which the log of a session has too.
    pub fn node_id(&self) -> String {
        let log = self.log();
        let started = log.lines().find(|line| line.contains("node started"));
        let line: Value = serde_json::from_str(started.expect("it has started")).unwrap();
        let node = line["node"].as_str();
        node.unwrap_or_else(|| panic!("no node in {line}"))
            .to_owned()
    }

    /// Sends a signal to the process that runs.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Where its HTTP API listens.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port.number).into()
    }

    /// What becomes of a second process of the same configuration, at a port of its own.
    pub async fn second(&self) -> Output {
        let config = self.folder().join("node.toml");
        let config = config.to_str().unwrap();
        let set = "node.listen=127.0.0.1:0";
        run(["serve", "--config", config, "--set", set]).await
    }
}

/// Runs the binary to its end.
pub async fn run(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    let command = Command::new(binary())
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(PATIENCE, command).await {
        Ok(output) => output.unwrap(),
        Err(_) => panic!("the command did not end"),
    }
}
