//! Runs one process group to its end.

use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::command::lifeline::{self, NOT_STARTED};
use crate::received::{Flood, Received};

/// How long output is read after the command ended, in case something that left its group holds
/// the pipe open.
const DRAIN: Duration = Duration::from_secs(1);

/// The end of standard error that is kept.
const STDERR_BYTES_MAX: usize = 8 * 1024;

/// A command to be run.
pub(super) struct Run<'a> {
    pub(super) command: Command,
    /// What is started is a companion that starts the command, and ends it when its standard input
    /// ends.
    pub(super) has_lifeline: bool,
    pub(super) input: Vec<u8>,
    pub(super) remaining: Duration,
    /// Between the polite signal and the hard one.
    pub(super) grace: Duration,
    pub(super) cancelled: &'a CancellationToken,
    pub(super) output_bytes_max: usize,
}

/// A command that ended by itself.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: Received,
    pub(super) stderr: String,
}

/// Why a command did not end by itself.
#[derive(Debug)]
pub(super) enum NotEnded {
    /// It was never started.
    NotStarted(String),
    /// It was ended, or lost sight of.
    Stopped(String),
}

/// Starts the command in a group of its own and waits until it ends, is cancelled or is out of
/// time. Dropping the future kills the group.
pub(super) async fn run(run: Run<'_>) -> Result<Ended, NotEnded> {
    let mut command = run.command;
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|error| NotEnded::NotStarted(format!("the command cannot be started: {error}")))?;
    let mut group = Group::of(&child);
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(NotEnded::Stopped("its pipes are gone".to_owned()));
    };
    let mut output = Received::new(run.output_bytes_max);
    let mut complaints = Vec::new();
    let input = if run.has_lifeline {
        lifeline::message(run.input)
    } else {
        run.input
    };
    // Kept until the group is: its end would end the group at once.
    let mut lifeline = None;
    let exited = {
        let kept = run.has_lifeline.then_some(&mut lifeline);
        let feeding = feed(stdin, &input, kept);
        let listening = listen(stdout, &mut output);
        let complaining = keep_end(stderr, &mut complaints);
        let pipes = pin!(async { tokio::try_join!(feeding, listening, complaining).map(|_| ()) });
        let out_of_time = sleep(run.remaining);
        wait(&mut child, &mut group, pipes, run.cancelled, out_of_time).await
    };
    match exited {
        Ok(status) if run.has_lifeline && was_not_started(status, &complaints) => {
            let (_, mark) = NOT_STARTED;
            let reason = String::from_utf8_lossy(complaints.get(mark.len()..).unwrap_or_default());
            let detail = format!("the command cannot be started: {reason}");
            Err(NotEnded::NotStarted(detail))
        }
        Ok(status) => Ok(Ended {
            status,
            stdout: output,
            stderr: String::from_utf8_lossy(&complaints).into_owned(),
        }),
        Err(reason) => {
            group.stop(&mut child, run.grace).await;
            Err(NotEnded::Stopped(reason))
        }
    }
}

/// Waits for the command's own end, with its pipes moving meanwhile. An end that is already there
/// counts more than a cancel or the deadline.
async fn wait(
    child: &mut Child,
    group: &mut Group,
    mut pipes: Pin<&mut impl Future<Output = Result<(), Flood>>>,
    cancelled: &CancellationToken,
    out_of_time: impl Future<Output = ()>,
) -> Result<ExitStatus, String> {
    let flooded = || "the command wrote far more than its bound".to_owned();
    let mut out_of_time = pin!(out_of_time);
    let mut moving = true;
    let status = loop {
        tokio::select! {
            biased;
            moved = &mut pipes, if moving => match moved {
                Ok(()) => moving = false,
                Err(Flood) => return Err(flooded()),
            },
            status = child.wait() => {
                break status.map_err(|error| format!("the command was lost sight of: {error}"))?;
            }
            () = cancelled.cancelled() => return Err("cancelled while the command ran".to_owned()),
            () = &mut out_of_time => return Err("the command ran out of time".to_owned()),
        }
    };
    group.end();
    if moving {
        // All that the command itself wrote is in the pipe by now, so time running out here means
        // only that a process outside of the group still holds its other end.
        if let Ok(Err(Flood)) = timeout(DRAIN, pipes).await {
            return Err(flooded());
        }
    }
    Ok(status)
}

pub(crate) fn was_not_started(status: ExitStatus, complaints: &[u8]) -> bool {
    let (code, mark) = NOT_STARTED;
    status.code() == Some(code) && complaints.starts_with(mark)
}

/// Writes the input, and closes the pipe or keeps it.
async fn feed(
    mut stdin: ChildStdin,
    input: &[u8],
    kept: Option<&mut Option<ChildStdin>>,
) -> Result<(), Flood> {
    // A command may end or close its input without reading all of it: its exit code is its word.
    if let Err(error) = stdin.write_all(input).await {
        tracing::debug!(%error, "a command did not read its whole input");
    }
    if let Some(kept) = kept {
        *kept = Some(stdin);
    }
    Ok(())
}

async fn listen(mut stdout: ChildStdout, output: &mut Received) -> Result<(), Flood> {
    while let Some(chunk) = read_chunk(&mut stdout).await {
        output.push(&chunk)?;
    }
    Ok(())
}

pub(crate) async fn keep_end(
    mut stderr: ChildStderr,
    complaints: &mut Vec<u8>,
) -> Result<(), Flood> {
    while let Some(chunk) = read_chunk(&mut stderr).await {
        complaints.extend_from_slice(&chunk);
        let excess = complaints.len().saturating_sub(STDERR_BYTES_MAX);
        complaints.drain(..excess);
    }
    Ok(())
}

/// The next bytes; `None` at the end. A pipe that cannot be read has ended.
async fn read_chunk(pipe: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    const CHUNK_BYTES: usize = 8 * 1024;
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    match pipe.read_buf(&mut chunk).await {
        Ok(0) => None,
        Ok(_) => Some(chunk),
        Err(error) => {
            tracing::debug!(%error, "a command's output cannot be read");
            None
        }
    }
}

/// A process group that is killed when it is dropped.
pub(crate) struct Group {
    /// The leader's id; `None` once the group was killed and the id may name another.
    leader: Option<Pid>,
}

impl Group {
    pub(crate) fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self {
            leader: id.and_then(Pid::from_raw),
        }
    }

    fn signal(&self, signal: Signal) {
        let Some(leader) = self.leader else {
            return;
        };
        match kill_process_group(leader, signal) {
            // Nobody is left in the group: it is what was wanted.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => {
                let group = leader.as_raw_pid();
                tracing::warn!(%error, group, "a command's process group could not be signalled");
            }
        }
    }

    /// Kills what is left of the group.
    pub(crate) fn end(&mut self) {
        self.signal(Signal::KILL);
        self.leader = None;
    }

    /// Asks the group to end, then kills what is left of it.
    pub(crate) async fn stop(&mut self, child: &mut Child, grace: Duration) {
        self.signal(Signal::TERM);
        match timeout(grace, child.wait()).await {
            Ok(Ok(status)) => tracing::debug!(%status, "a command ended when asked to"),
            Ok(Err(error)) => tracing::warn!(%error, "a command was lost sight of"),
            Err(_) => tracing::debug!("a command did not end when asked to and is killed"),
        }
        self.end();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}
