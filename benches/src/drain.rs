//! A node is told to stop: from the moment that it lets go of a session until another has it, and
//! what becomes of its running tool calls.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::process::Signal;

use crate::cluster::{self, Cluster, Event, Size};
use crate::percentile::Times;

/// By then the last should long be taken over.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// Sessions beside these, each with a tool call of three seconds that must not be repeated.
    #[arg(long, default_value_t = 50)]
    calls: usize,
}

pub(crate) async fn run(options: &Options, data: &Path) -> Result<()> {
    let mut cluster = Cluster::start(&options.size, data).await?;
    let open = cluster::names("open", options.size.sessions);
    cluster.begin(&open, cluster::OPEN_TURN).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let calling = cluster::names("calling", options.calls);
    cluster.begin(&calling, cluster::TOOL_TURN).await?;
    let load = cluster::machine_load()?;
    let start = Instant::now();
    cluster.signal(Signal::TERM)?;
    let status = cluster.first_ended().await?;
    let stopped = start.elapsed();
    ensure!(status.success(), "the node ended with {status}");
    let times = times(&cluster, &open).await?;
    let cut = cut(&cluster.logs(&calling).await?);
    println!(
        "from Released to the next Activated ms: p50, p99, most   node gone after s   calls cut   \
         load of the machine"
    );
    println!(
        "{:>8.0} {:>8.0} {:>8.0} {:>8.2} {cut:>8} of {}   {load}",
        times.p50_ms(),
        times.percentile_ms(99),
        times.percentile_ms(100),
        stopped.as_secs_f64(),
        options.calls,
    );
    Ok(())
}

/// How long each session had no owner.
async fn times(cluster: &Cluster, sessions: &[String]) -> Result<Times> {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut times = Times::default();
        for log in cluster.logs(sessions).await? {
            if let Some(time) = without_owner(&log) {
                times.add(time);
            }
        }
        if times.len() == sessions.len() {
            return Ok(times);
        }
        let count = times.len();
        ensure!(Instant::now() < until, "only {count} were taken over");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn without_owner(log: &[Event]) -> Option<Duration> {
    let mut rest = log.iter().skip_while(|event| !event.is("released"));
    let released = rest.next()?;
    let next = rest.find(|event| event.is("activated"))?;
    Some(Duration::from_millis(
        next.at_ms.saturating_sub(released.at_ms),
    ))
}

/// Calls without the outcome that their tool gave.
fn cut(logs: &[Vec<Event>]) -> usize {
    let done = |log: &&Vec<Event>| {
        log.iter()
            .any(|event| event.is("call_settled") && event.value["settlement"] == "done")
    };
    logs.len() - logs.iter().filter(done).count()
}
