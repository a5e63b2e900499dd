//! Ends a command together with the process that started it, however that process ends.
//!
//! ```text
//!   this program --stdin: length, input, then nothing--> this program again, leader of a new group
//!        |                                                  |  starts the command in its group
//!        | killed: the pipe ends                            v
//!        +------------------------------------------------> kills its whole group
//! ```
//!
//! A process that is killed can end nothing, so somebody else must hold the other end of a pipe: a
//! second run of this program, which does nothing else. The parent-death signal of Linux would not
//! do: it comes when the *thread* ends that started the process.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpgrp, getpid, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Stdin};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// First argument of the second run.
const ARGUMENT: &str = "run-with-lifeline";
/// The same of a run that accompanies a server.
const ARGUMENT_SERVER: &str = "serve-with-lifeline";
/// Time for a server to end by itself once its input has ended.
const SERVER_GRACE: Duration = Duration::from_secs(2);
/// Exit code and beginning of standard error when the command could not be started. No command
/// writes a zero byte first by accident.
pub(crate) const NOT_STARTED: (i32, &[u8]) = (127, b"\0not started: ");

static AVAILABLE: AtomicBool = AtomicBool::new(false);

/// To be called first in a program's `main`, before it starts threads.
///
/// `Some`: this run of the program is the companion of a command and is over; `main` returns the
/// code. `None`: it is an ordinary run, and from now on its command tools have a lifeline: they end
/// with it even if it is killed. In a program that never calls this they are ended in every other
/// case, but go on when it is killed.
pub fn enter() -> Option<ExitCode> {
    let mut words = env::args_os().skip(1);
    let kind = match words.next() {
        Some(word) if word == ARGUMENT => Kind::Command,
        Some(word) if word == ARGUMENT_SERVER => Kind::Server,
        _ => {
            AVAILABLE.store(true, Ordering::Release);
            return None;
        }
    };
    Some(accompany(kind, &words.collect::<Vec<_>>()))
}

/// A command that starts `program` with a lifeline, if this program can.
pub(super) fn around(program: &std::path::Path) -> Option<Command> {
    companion(ARGUMENT, program)
}

/// The same for a program that reads its standard input as long as it runs, and ends with it: all
/// that is written to the companion goes there, and nothing else.
pub(super) fn around_server(program: &std::path::Path) -> Option<Command> {
    companion(ARGUMENT_SERVER, program)
}

fn companion(argument: &str, program: &std::path::Path) -> Option<Command> {
    if !AVAILABLE.load(Ordering::Acquire) {
        return None;
    }
    // On Linux the file that runs, also when another has taken its name since.
    let own = if cfg!(target_os = "linux") {
        "/proc/self/exe".into()
    } else {
        env::current_exe().ok()?
    };
    let mut command = Command::new(own);
    command.arg(argument).arg(program);
    Some(command)
}

/// What is written to the companion: how long the input is, and the input.
pub(super) fn message(input: Vec<u8>) -> Vec<u8> {
    let length = u64::try_from(input.len()).unwrap_or(u64::MAX);
    let mut message = length.to_be_bytes().to_vec();
    message.extend(input);
    message
}

/// What a companion accompanies.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Command,
    Server,
}

fn accompany(kind: Kind, words: &[OsString]) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(async {
                match kind {
                    Kind::Command => start_and_wait(words).await,
                    Kind::Server => serve(words).await,
                }
            });
            // A thread may still wait for the lifeline.
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(error),
    };
    match ended {
        Ok(Some(status)) => ExitCode::from(code(status)),
        // Its starter was gone before anything was started.
        Ok(None) => ExitCode::FAILURE,
        Err(error) => {
            let (code, mark) = NOT_STARTED;
            let words = [mark, error.to_string().as_bytes()].concat();
            // Without a reader there is nobody to tell.
            let _unread = io::stderr().write_all(&words);
            ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
        }
    }
}

/// As a shell says it.
fn code(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, signal) => 128 + signal.unwrap_or_default(),
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// `None`: whoever started this run is gone. An error: the command was not started.
async fn start_and_wait(words: &[OsString]) -> io::Result<Option<ExitStatus>> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(io::Error::other("no program was named"));
    };
    // The polite signal is for the command; it alone says when it has ended.
    let _terminate = signal(SignalKind::terminate())?;
    let mut lifeline = tokio::io::stdin();
    let Ok(input) = read_input(&mut lifeline).await else {
        return Ok(None);
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take();
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command need not read its whole input.
            let _unread = stdin.write_all(&input).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! { biased;
        status = child.wait() => Ok(Some(status?)),
        () = cut(&mut lifeline) => {
            end_all(&mut child).await;
            Ok(None)
        }
        () = feed => Ok(None),
    }
}

/// The same for a server, whose input is ours from the beginning to its end.
async fn serve(words: &[OsString]) -> io::Result<Option<ExitStatus>> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(io::Error::other("no program was named"));
    };
    let _terminate = signal(SignalKind::terminate())?;
    let mut lifeline = tokio::io::stdin();
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take();
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A server may close its input before it ends.
            let _closed = tokio::io::copy(&mut lifeline, &mut stdin).await;
        }
        cut(&mut lifeline).await;
    };
    tokio::select! { biased;
        status = child.wait() => return Ok(Some(status?)),
        () = feed => {}
    }
    match timeout(SERVER_GRACE, child.wait()).await {
        Ok(status) => Ok(Some(status?)),
        Err(_) => {
            end_all(&mut child).await;
            Ok(None)
        }
    }
}

async fn read_input(lifeline: &mut Stdin) -> io::Result<Vec<u8>> {
    let length = lifeline.read_u64().await?;
    let mut input = Vec::new();
    let read = lifeline.take(length).read_to_end(&mut input).await?;
    if u64::try_from(read).ok() != Some(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(input)
}

/// Waits for the end of the lifeline.
async fn cut(lifeline: &mut Stdin) {
    let mut nothing = [0; 16];
    while let Ok(1..) = lifeline.read(&mut nothing).await {}
}

async fn end_all(child: &mut Child) {
    let own = getpgrp();
    if own == getpid() {
        // Ends this process too.
        let _not_reached = kill_process_group(own, Signal::KILL);
    }
    // Somebody started this by hand, in a group of others.
    let _gone_already = child.kill().await;
}
