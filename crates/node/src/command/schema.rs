//! `steadfast schema`: JSON Schemas, for editors and programs.

use std::io::Write;

use clap::{Args, ValueEnum};

use crate::config::schema::config_schema;
use crate::event_schema::event_schema;
use crate::tool_queue_schema::tool_queue_schema;

/// Prints a JSON Schema.
#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// Of what.
    what: What,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// The configuration file.
    Config,
    /// The committed events of a session's stream and log.
    Event,
    /// What passes between sessions and remote workers.
    ToolQueue,
}

/// Prints it.
pub(crate) fn run(args: &Schema) -> anyhow::Result<()> {
    let schema = match args.what {
        What::Config => config_schema(),
        What::Event => event_schema(),
        What::ToolQueue => tool_queue_schema(),
    };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &schema).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}
