//! A server that is a process of ours.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::command::lifeline::NOT_STARTED;
use crate::command::options::Prepared;
use crate::command::process::{Group, was_not_started};

/// Time for a server to end by itself after its input ended, and again after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// A process in a group of its own, which ends when this is dropped.
pub(super) struct Process {
    child: Child,
    group: Group,
    has_lifeline: bool,
}

/// Its ends of the pipes.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Process {
    pub(super) fn start(prepared: &Prepared) -> Result<(Self, Pipes), String> {
        let (mut command, has_lifeline) = prepared.server();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|error| format!("its program cannot be started: {error}"))?;
        let group = Group::of(&child);
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(stdin), Some(stdout), Some(stderr)) => {
                let process = Self {
                    child,
                    group,
                    has_lifeline,
                };
                Ok((
                    process,
                    Pipes {
                        stdin,
                        stdout,
                        stderr,
                    },
                ))
            }
            _ => Err("its pipes are gone".to_owned()),
        }
    }

    /// Waits until it ends by itself. Cancel safe.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, String> {
        let status = self.child.wait().await;
        status.map_err(|error| format!("its process was lost sight of: {error}"))
    }

    /// Ends it, politely first; its input has ended already.
    pub(super) async fn end(mut self) {
        match timeout(GRACE, self.child.wait()).await {
            Ok(_) => self.group.end(),
            Err(_) => self.group.stop(&mut self.child, GRACE).await,
        }
    }

    /// Why it ended, in words.
    pub(super) fn reason(&self, status: ExitStatus, complaints: &[u8]) -> String {
        if self.has_lifeline && was_not_started(status, complaints) {
            let (_, mark) = NOT_STARTED;
            let reason = String::from_utf8_lossy(complaints.get(mark.len()..).unwrap_or_default());
            return format!("its program cannot be started: {reason}");
        }
        let complaints = String::from_utf8_lossy(complaints);
        match complaints.trim().lines().last() {
            Some(last) if !status.success() => format!("its process ended, {status}: {last}"),
            _ => format!("its process ended, {status}"),
        }
    }
}
