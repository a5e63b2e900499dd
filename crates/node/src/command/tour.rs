//! `steadfast tour`: one turn whose node is killed in the middle of each of its three tool calls,
//! beside the same turn in a loop without a log. It checks what it shows.

mod naive;
mod node;
mod report;
mod story;
mod tool_server;

use std::time::Duration;

use anyhow::Context;
use clap::Args;

use crate::command::tour::report::Report;
use crate::command::tour::story::Story;
use crate::command::tour::tool_server::ToolServer;

/// How long any one thing may take before the tour gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills a node in the middle of three tool calls and shows what ran again and what did not.
#[derive(Debug, Args)]
pub(crate) struct Tour {
    /// Leaves the node's data and log in place and prints where.
    #[arg(long)]
    keep: bool,
}

/// The three tools of the tour, in the order in which the model calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tool {
    /// `safe`: it changes nothing.
    ReadOrder,
    /// `keyed`: it charges once for each key.
    ChargeCard,
    /// `never`: it sends money at each request.
    SendRefund,
}

impl Tool {
    const ALL: [Self; 3] = [Self::ReadOrder, Self::ChargeCard, Self::SendRefund];

    fn name(self) -> &'static str {
        match self {
            Self::ReadOrder => "read_order",
            Self::ChargeCard => "charge_card",
            Self::SendRefund => "send_refund",
        }
    }

    fn rule(self) -> &'static str {
        match self {
            Self::ReadOrder => "safe",
            Self::ChargeCard => "keyed",
            Self::SendRefund => "never",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }
}

/// Runs the tour; whether every promise held.
pub(crate) async fn run(args: Tour) -> anyhow::Result<bool> {
    let folder = tempfile::Builder::new()
        .prefix("steadfast-tour-")
        .tempdir()
        .context("no folder could be made for the tour's data")?;
    let tools = ToolServer::start().await?;
    let mut report = Report::begin();
    let story = Story::play(folder.path(), &tools, &mut report).await?;
    let naive = naive::play(&tools).await?;
    let kept = report.end(&story, &naive);
    if args.keep {
        report.say(&format!("data and log: {}", folder.keep().display()));
    }
    Ok(kept)
}

/// Gives up on something that takes too long.
async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::time::timeout(PATIENCE, future)
        .await
        .with_context(|| format!("{what} took longer than {} s", PATIENCE.as_secs()))
}
