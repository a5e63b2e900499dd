//! Clients that send one turn after another for a while.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use crate::cpu;

/// What is asked of a product.
pub(crate) trait Target {
    /// Runs one turn of a session, until it has ended and is on disk.
    fn turn(&self, session: String) -> impl Future<Output = Result<()>> + Send + 'static;

    /// The product's processes, by what they are.
    fn processes(&self) -> Vec<(&'static str, u32)>;
}

/// Which session a turn goes to.
#[derive(Clone, Copy)]
pub(crate) enum Sessions {
    /// One for each client.
    Reused,
    /// One for each turn.
    Fresh,
}

/// One measurement to make.
pub(crate) struct Load {
    pub(crate) clients: usize,
    pub(crate) duration: Duration,
    pub(crate) sessions: Sessions,
}

/// What was measured.
pub(crate) struct Measured {
    pub(crate) clients: usize,
    wall: Duration,
    /// Ascending.
    turn_ms: Vec<f64>,
    /// CPU seconds of each process, the client's last.
    cpu: Vec<(&'static str, f64)>,
}

impl Measured {
    pub(crate) fn turns_per_second(&self) -> f64 {
        self.turn_ms.len() as f64 / self.wall.as_secs_f64()
    }

    pub(crate) fn percentile_ms(&self, percent: usize) -> f64 {
        let at = self.turn_ms.len() * percent / 100;
        let at = at.min(self.turn_ms.len().saturating_sub(1));
        self.turn_ms.get(at).copied().unwrap_or(f64::NAN)
    }

    /// Of the product's processes, without the load client.
    pub(crate) fn product_cpu_ms_per_turn(&self) -> f64 {
        let product = self.cpu.iter().filter(|(name, _)| *name != cpu::CLIENT);
        let seconds: f64 = product.map(|(_, seconds)| seconds).sum();
        seconds * 1000.0 / self.turn_ms.len() as f64
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>4} clients: {:>7.0} turns/s  p50 {:>7.2} ms  p99 {:>7.2} ms  CPU",
            self.clients,
            self.turns_per_second(),
            self.percentile_ms(50),
            self.percentile_ms(99),
        )?;
        for (name, seconds) in &self.cpu {
            write!(f, " {name} {seconds:.1} s")?;
        }
        Ok(())
    }
}

/// Warms up, then measures.
pub(crate) async fn run(load: &Load, target: &impl Target) -> Result<Measured> {
    drive(load, target, load.duration / 5).await?;
    let before = cpu_seconds(target)?;
    let start = Instant::now();
    let mut turn_ms = drive(load, target, load.duration).await?;
    let wall = start.elapsed();
    let after = cpu_seconds(target)?;
    turn_ms.sort_by(f64::total_cmp);
    let cpu = after
        .iter()
        .zip(&before)
        .map(|((name, after), (_, before))| (*name, after - before))
        .collect();
    Ok(Measured {
        clients: load.clients,
        wall,
        turn_ms,
        cpu,
    })
}

fn cpu_seconds(target: &impl Target) -> Result<Vec<(&'static str, f64)>> {
    let mut processes = target.processes();
    processes.push((cpu::CLIENT, std::process::id()));
    let seconds = |(name, pid)| Ok((name, cpu::seconds(pid)?));
    processes.into_iter().map(seconds).collect()
}

/// Runs the clients until the time is over; the time of each turn in milliseconds.
async fn drive(load: &Load, target: &impl Target, duration: Duration) -> Result<Vec<f64>> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let until = Instant::now() + duration;
    let mut running = JoinSet::new();
    let mut sent = vec![0_u64; load.clients];
    let mut next = |client: usize| {
        let number = sent[client];
        sent[client] += 1;
        let session = match load.sessions {
            Sessions::Reused => format!("bench-{}-{run}-{client}", std::process::id()),
            Sessions::Fresh => format!("bench-{}-{run}-{client}-{number}", std::process::id()),
        };
        let turn = target.turn(session);
        async move {
            let start = Instant::now();
            turn.await?;
            anyhow::Ok((client, start.elapsed()))
        }
    };
    for client in 0..load.clients {
        running.spawn(next(client));
    }
    let mut turn_ms = Vec::new();
    while let Some(done) = running.join_next().await {
        let (client, time) = done?.context("a turn failed")?;
        turn_ms.push(time.as_secs_f64() * 1000.0);
        if Instant::now() < until {
            running.spawn(next(client));
        }
    }
    Ok(turn_ms)
}
