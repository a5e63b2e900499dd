//! Speed, measured: each subcommand prints one table, with the ratios of its own run.
//!
//! ```text
//! cargo build --release -p steadfast -p steadfast-benches
//! target/release/steadfast-benches turns
//! ```

mod cluster;
mod cluster_turns;
mod disk;
mod drain;
mod durability;
mod fanout;
mod http_node;
mod log_writer;
mod long_turn;
mod memory;
mod percentile;
mod process;
mod snapshot_count;
mod store;
mod takeover;
mod talk;
mod turns;
mod wake;
mod world;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

/// The node's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    what: What,
    /// Folder for the data; the system's temporary folder by default.
    #[arg(long, global = true)]
    data: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Turns over HTTP, of a node in a process of its own: 1, 128 and 512 sessions.
    Turns(turns::Options),
    /// A turn with a tool of 20 ms, with `durability = "on"` and `"strict"`.
    Durability(durability::Options),
    /// From a message to a session that is not in memory until its turn has durably begun.
    Wake(wake::Options),
    /// Memory of a session in memory, and of one that was let go.
    Memory(memory::Options),
    /// Bytes written for each step of one very long turn.
    LongTurn(long_turn::Options),
    /// A streamed turn over HTTP, with 1 and with 1,000 followers.
    Fanout(fanout::Options),
    /// Appends to the store alone.
    Store(store::Options),
    /// Turns over HTTP of one, two and three nodes on one broker and on three, and the brokers alone.
    ClusterTurns(cluster_turns::Options),
    /// Three nodes on brokers: until others have the sessions of a node that dies or stands still.
    Takeover(takeover::Options),
    /// The same: until others have the sessions of a node that is told to stop.
    Drain(drain::Options),
}

#[tokio::main]
async fn main() -> Result<()> {
    let Options { what, data } = Options::parse();
    // Another library of this tree may have installed it already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let data = data.unwrap_or_else(std::env::temp_dir);
    match what {
        What::Turns(options) => turns::run(&options, &data).await,
        What::Durability(options) => durability::run(&options, &data).await,
        What::Wake(options) => wake::run(&options, &data).await,
        What::Memory(options) => memory::run(&options, &data).await,
        What::LongTurn(options) => long_turn::run(&options, &data).await,
        What::Fanout(options) => fanout::run(&options, &data).await,
        What::Store(options) => store::run(&options, &data).await,
        What::ClusterTurns(options) => cluster_turns::run(&options, &data).await,
        What::Takeover(options) => takeover::run(&options, &data).await,
        What::Drain(options) => drain::run(&options, &data).await,
    }
}
