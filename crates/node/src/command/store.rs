//! `steadfast store`: looks after the file of a stopped node.

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;
use steadfast_store_redb::{Compacted, compact};

use crate::command::serve::ConfigFile;
use crate::terminal::{GOOD, paint, say};

/// Looks after the data of a stopped node.
#[derive(Debug, Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Gives the room that the store's file does not use back to the file system.
    ///
    /// The node must be stopped. Deleted sessions leave room inside the file, which later writes use
    /// first: this is for a file that shall become smaller. It may be cut off at any time.
    Compact {
        #[command(flatten)]
        config: ConfigFile,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Does what is asked.
pub(crate) async fn run(args: Store) -> anyhow::Result<()> {
    let Action::Compact { config, json } = args.action;
    let folder = config.load()?.store.path;
    let compacting = tokio::task::spawn_blocking(move || compact(&folder));
    let Compacted {
        before_bytes,
        after_bytes,
    } = compacting
        .await
        .context("the store was not compacted")?
        .context("the store was not compacted")?;
    if json {
        let sizes = json!({ "before_bytes": before_bytes, "after_bytes": after_bytes });
        say!("{sizes}");
    } else {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let sizes = format!(
            "the file has {:.1} MiB, before it had {:.1} MiB",
            mib(after_bytes),
            mib(before_bytes)
        );
        say!("{}", paint(GOOD, &sizes));
    }
    Ok(())
}
