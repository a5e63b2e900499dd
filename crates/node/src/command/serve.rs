//! `steadfast serve`: a node from a configuration file.

use std::path::PathBuf;

use clap::Args;

use crate::config::store::StoreKind;
use crate::config::{Config, Sources};
use crate::node::Node;
use crate::telemetry::Telemetry;

/// Runs a node from a configuration file.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) config: ConfigFile,
}

/// A configuration file with what replaces parts of it.
#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// The configuration file; `config/node.toml` shows every option.
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// Replaces an option, for example `--set node.listen=127.0.0.1:8080`.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigFile {
    /// Loads it.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        Ok(Config::load(&Sources::of_file(&self.config, &self.set)?)?)
    }
}

/// Runs until told to stop.
pub(crate) async fn run(args: Serve) -> anyhow::Result<()> {
    let config = args.config.load()?;
    let telemetry = Telemetry::start(&config.telemetry)?;
    let result = async {
        let kind = config.store.kind;
        let node = Node::from_config(config).start().await?;
        match kind {
            StoreKind::Redb => {
                tracing::info!("this is a single node: its sessions live in its own store");
            }
            StoreKind::Nats => {
                tracing::info!("sessions live at the broker, shared with all nodes there");
            }
        }
        node.run_until_signal().await
    }
    .await;
    telemetry.shutdown().await;
    result
}
