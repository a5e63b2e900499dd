//! From the end of a node, or its standstill, until others have taken over its sessions, all in the
//! middle of turns.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};
use rustix::process::Signal;

use crate::cluster::{self, Cluster, Size};
use crate::percentile::Times;

/// By then the last should long be taken over.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// The node stands still instead of dying.
    #[arg(long)]
    stop: bool,
}

pub(crate) async fn run(options: &Options, data: &Path) -> Result<()> {
    let cluster = Cluster::start(&options.size, data).await?;
    let sessions = cluster::names("open", options.size.sessions);
    cluster.begin(&sessions, cluster::OPEN_TURN).await?;
    // Leases are known, and nothing of the beginning is left to do.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (signal, what) = match options.stop {
        true => (Signal::STOP, "stopped"),
        false => (Signal::KILL, "killed"),
    };
    let load = cluster::machine_load()?;
    let at = SystemTime::UNIX_EPOCH.elapsed()?;
    cluster.signal(signal)?;
    // Looking at the sessions would cost those who take them over.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let times = times(&cluster, &sessions, at).await?;
    println!(
        "node {what}, sessions taken over after s: first, p50, p99, last   load of the machine"
    );
    println!(
        "{:>8.2} {:>8.2} {:>8.2} {:>8.2}   {load}",
        times.percentile_ms(0) / 1e3,
        times.p50_ms() / 1e3,
        times.percentile_ms(99) / 1e3,
        times.percentile_ms(100) / 1e3,
    );
    Ok(())
}

/// When each session had its second owner.
async fn times(cluster: &Cluster, sessions: &[String], at: Duration) -> Result<Times> {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut times = Times::default();
        for log in cluster.logs(sessions).await? {
            let mut takeovers = log.iter().filter(|event| event.is("activated"));
            if let Some(second) = takeovers.nth(1) {
                times.add(Duration::from_millis(second.at_ms).saturating_sub(at));
            }
        }
        if times.len() == sessions.len() {
            return Ok(times);
        }
        let count = times.len();
        ensure!(Instant::now() < until, "only {count} were taken over");
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}
