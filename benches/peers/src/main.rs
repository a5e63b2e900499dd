//! The same work on a comparable product and on Steadfast, in one run. See `README.md`.

mod cpu;
mod disk;
mod load;
mod restate;
mod service;
mod steadfast;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use load::{Load, Measured, Sessions};
use steadfast_nats_server::{NatsServer, Settings};
use tokio::task::block_in_place;

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// Clients at a time, each with one turn in flight.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 128, 512])]
    clients: Vec<usize>,
    /// Seconds of each measurement, after a warm-up of a fifth of that.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// A session of its own for every turn, instead of one for every client.
    #[arg(long)]
    fresh: bool,
    /// Folder for both products' data; the system's temporary folder by default.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Leave the peer out.
    #[arg(long)]
    without_restate: bool,
    #[command(flatten)]
    steadfast: steadfast::Options,
}

#[derive(Subcommand)]
enum Command {
    /// Internal: the peer's service, as a process of its own.
    Service {
        /// Port to listen on.
        port: u16,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(Command::Service { port }) = options.command {
        service::serve(port).await;
        return Ok(());
    }
    // Another library of this tree may have installed it already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let data = options.data.clone().unwrap_or_else(std::env::temp_dir);
    println!(
        "fdatasync of 512 bytes in {}: p50 {:.2} ms",
        data.display(),
        disk::sync_ms(&data)?
    );
    let mut peer = Vec::new();
    if !options.without_restate {
        let server = restate::Restate::start(&data).await?;
        peer = measure("restate", &options, &server).await?;
        server.stop().await?;
    }
    let ours = measure_ours("steadfast", &options, &data, None).await?;
    tell_ratios("steadfast", &ours, &peer);
    if options.steadfast.nats {
        let broker = block_in_place(|| NatsServer::start(Settings::default()));
        let ours = measure_ours("on nats", &options, &data, Some(broker)).await?;
        tell_ratios("on nats", &ours, &peer);
    }
    Ok(())
}

async fn measure_ours(
    name: &str,
    options: &Options,
    data: &Path,
    broker: Option<NatsServer>,
) -> Result<Vec<Measured>> {
    let Some(node) = steadfast::Node::start(&options.steadfast, data, broker).await? else {
        return Ok(Vec::new());
    };
    let measured = measure(name, options, &node).await?;
    node.stop().await?;
    Ok(measured)
}

fn tell_ratios(name: &str, ours: &[Measured], peer: &[Measured]) {
    for (ours, peer) in ours.iter().zip(peer) {
        println!(
            "{name:<9} {:>4} clients: {:.2} x turns/s, {:.2} x p50, {:.2} x CPU a turn",
            ours.clients,
            ours.turns_per_second() / peer.turns_per_second(),
            ours.percentile_ms(50) / peer.percentile_ms(50),
            ours.product_cpu_ms_per_turn() / peer.product_cpu_ms_per_turn(),
        );
    }
}

async fn measure(
    name: &str,
    options: &Options,
    target: &impl load::Target,
) -> Result<Vec<Measured>> {
    let mut rows = Vec::new();
    for &clients in &options.clients {
        let load = Load {
            clients,
            duration: Duration::from_secs(options.seconds),
            sessions: if options.fresh {
                Sessions::Fresh
            } else {
                Sessions::Reused
            },
        };
        let measured = load::run(&load, target).await?;
        println!("{name:<9} {measured}");
        rows.push(measured);
    }
    Ok(rows)
}
