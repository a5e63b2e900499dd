//! The canonical turn over HTTP: a model call, one tool call, a second model call. All three bodies
//! return at once, so what is measured is the price of durability and of the product itself.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use crate::disk;
use crate::http_node::{Binary, HttpNode};
use crate::percentile::Times;
use crate::process;

/// A safe tool step, then text.
pub(crate) const SCRIPT: &str =
    r#"SCRIPT: [{"tool":"get_weather","input":{"city":"Paris"}},{"text":"done"}]"#;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    binary: Binary,
    /// Sessions at a time, each with one turn in flight.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 128, 512])]
    sessions: Vec<usize>,
    /// Seconds of each measurement, after a warm-up of a fifth of that.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Gives every turn a session of its own, instead of one session to each client.
    #[arg(long)]
    fresh: bool,
}

pub(crate) async fn run(options: &Options, data: &Path) -> Result<()> {
    let sync_ms = disk::sync_times(data)?.p50_ms();
    println!("fdatasync of 512 bytes: p50 {sync_ms:.2} ms");
    println!(
        "sessions  turns/s   p50 ms   p99 ms  p50/fdatasync  records/fsync  CPU ms a turn: node, client"
    );
    let node = HttpNode::start(&options.binary, data).await?;
    for &sessions in &options.sessions {
        let time = Duration::from_secs(options.seconds);
        let name = if options.fresh {
            Name::Fresh
        } else {
            Name::Reused
        };
        let nodes = std::slice::from_ref(&node);
        load(nodes, sessions, time / 5, name).await?;
        let before = Counts::read(&node).await?;
        let start = Instant::now();
        let times = load(nodes, sessions, time, name).await?;
        let wall = start.elapsed().as_secs_f64();
        let after = Counts::read(&node).await?;
        println!(
            "{sessions:>8} {:>8.0} {:>8.2} {:>8.2} {:>14.2} {:>14.2}  {:>20.3}, {:.3}",
            times.len() as f64 / wall,
            times.p50_ms(),
            times.percentile_ms(99),
            times.p50_ms() / sync_ms,
            (after.records - before.records) / (after.fsyncs - before.fsyncs),
            1e3 * (after.node_cpu_s - before.node_cpu_s) / times.len() as f64,
            1e3 * (after.client_cpu_s - before.client_cpu_s) / times.len() as f64,
        );
    }
    node.stop().await
}

struct Counts {
    records: f64,
    fsyncs: f64,
    node_cpu_s: f64,
    client_cpu_s: f64,
}

impl Counts {
    async fn read(node: &HttpNode) -> Result<Self> {
        Ok(Self {
            records: node.metric("steadfast_store_records_total").await?,
            fsyncs: node.metric("steadfast_store_fsyncs_total").await?,
            node_cpu_s: process::cpu_seconds(node.pid)?,
            client_cpu_s: process::cpu_seconds(std::process::id())?,
        })
    }
}

/// Which session a client's next turn goes to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Name {
    Reused,
    Fresh,
}

/// Turn after turn of each client until the time is over; clients are spread over the nodes.
pub(crate) async fn load(
    nodes: &[HttpNode],
    sessions: usize,
    time: Duration,
    name: Name,
) -> Result<Times> {
    static TURNS: AtomicU64 = AtomicU64::new(0);
    let until = Instant::now() + time;
    let mut running = JoinSet::new();
    let next = |session: usize, node: &HttpNode| {
        let number = TURNS.fetch_add(1, Ordering::Relaxed);
        let name = match name {
            Name::Reused => format!("of-{sessions}-{session}"),
            Name::Fresh => format!("of-{sessions}-{session}-{number}"),
        };
        let turn = node.turn(&name, SCRIPT);
        async move {
            let start = Instant::now();
            turn.await?;
            anyhow::Ok((session, start.elapsed()))
        }
    };
    for (session, node) in (0..sessions).zip(nodes.iter().cycle()) {
        running.spawn(next(session, node));
    }
    let mut times = Times::default();
    while let Some(done) = running.join_next().await {
        let (session, time) = done?.context("a turn failed")?;
        times.add(time);
        if let Some(node) = nodes.get(session % nodes.len())
            && Instant::now() < until
        {
            running.spawn(next(session, node));
        }
    }
    Ok(times)
}
