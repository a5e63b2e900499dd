//! The command line: one file for each command.

mod approvals;
mod chat;
mod dev;
mod doctor;
mod schema;
mod serve;
mod sessions;
mod store;
mod tour;

use std::io;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::client::{ClientError, DEFAULT_URL, NodeClient};
use crate::config::ConfigError;
use crate::terminal::{BAD, paint};

/// Durable AI-agent sessions: a crash, a deploy or a lost connection does not end them.
#[derive(Debug, Parser)]
#[command(name = "steadfast", version, propagate_version = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dev(dev::Dev),
    Serve(serve::Serve),
    Chat(chat::Chat),
    Sessions(sessions::Sessions),
    Approvals(approvals::Approvals),
    Doctor(doctor::Doctor),
    Store(store::Store),
    Schema(schema::Schema),
    Tour(tour::Tour),
}

/// The node that a command talks to.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Address of the node.
    #[arg(long, global = true, env = "STEADFAST_URL", default_value = DEFAULT_URL)]
    url: String,
    /// API key; none is needed on the same machine as a node without keys.
    #[arg(long, global = true, env = "STEADFAST_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
}

impl Target {
    /// A client of that node.
    pub(crate) fn client(&self) -> Result<NodeClient, ClientError> {
        NodeClient::new(&self.url, self.api_key.clone())
    }
}

/// Exit codes: done, failed, usage or configuration.
const FAILED: u8 = 1;
const USAGE: u8 = 2;

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    if let Some(code) = steadfast_tools::command::lifeline::enter() {
        return code;
    }
    let command = CommandLine::parse().command.unwrap_or_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(&anyhow::Error::from(error)),
    };
    let result = runtime.block_on(async move {
        match command {
            Command::Dev(args) => dev::run(args).await.map(|()| true),
            Command::Serve(args) => serve::run(args).await.map(|()| true),
            Command::Chat(args) => chat::run(args).await,
            Command::Sessions(args) => sessions::run(args).await.map(|()| true),
            Command::Approvals(args) => approvals::run(args).await.map(|()| true),
            Command::Doctor(args) => doctor::run(args).await,
            Command::Store(args) => store::run(args).await.map(|()| true),
            Command::Tour(args) => tour::run(args).await,
            Command::Schema(args) => schema::run(&args).map(|()| true),
        }
    });
    // A line editor may still wait for the user on a thread of its own.
    runtime.shutdown_background();
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => failed(&error),
    }
}

impl Default for Command {
    fn default() -> Self {
        Self::Dev(dev::Dev::default())
    }
}

/// Says what went wrong, and gives the exit code for it.
fn failed(error: &anyhow::Error) -> ExitCode {
    if let Some(config) = error.downcast_ref::<ConfigError>() {
        anstream::eprintln!("{}\n", config.styled());
        let count = config.count();
        let noun = if count == 1 { "error" } else { "errors" };
        anstream::eprintln!("{}", paint(BAD, format!("{count} configuration {noun}")));
        return ExitCode::from(USAGE);
    }
    let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(broken_pipe) {
        // Whoever closed the pipe has seen enough.
        return ExitCode::SUCCESS;
    }
    anstream::eprintln!("{} {error:#}", paint(BAD, "error:"));
    ExitCode::from(FAILED)
}
