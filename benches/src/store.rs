//! The embedded store alone: appends of 512 bytes, each acknowledged once it is on disk.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use steadfast_core::id::{Epoch, NodeId, Seq};
use steadfast_protocol::record::RecordHash;
use steadfast_store::log::{Append, Log, Tail};
use tokio::task::JoinSet;

use crate::disk;
use crate::percentile::Times;
use crate::world::{World, key};

const RECORD_BYTES: usize = 512;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Sessions at a time, each with one append in flight.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1000])]
    sessions: Vec<usize>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
}

pub(crate) async fn run(options: &Options, data: &Path) -> Result<()> {
    let sync_ms = disk::sync_times(data)?.p50_ms();
    println!("fdatasync of 512 bytes: p50 {sync_ms:.2} ms");
    println!("sessions  appends/s   p50 ms   p99 ms  p50/fdatasync  records/fsync");
    for &sessions in &options.sessions {
        let world = World::open(data, steadfast_store_redb::Options::default())?;
        let until = Instant::now() + Duration::from_secs(options.seconds);
        let mut running = JoinSet::new();
        let before = world.store.stats();
        let start = Instant::now();
        for session in 0..sessions {
            running.spawn(append(Arc::clone(&world.stores.log), session, until));
        }
        let mut times = Times::default();
        while let Some(done) = running.join_next().await {
            times.extend(done??);
        }
        let wall = start.elapsed().as_secs_f64();
        let after = world.store.stats();
        let fsyncs = after.fsyncs - before.fsyncs;
        println!(
            "{sessions:>8} {:>10.0} {:>8.2} {:>8.2} {:>14.2} {:>14.2}",
            times.len() as f64 / wall,
            times.p50_ms(),
            times.percentile_ms(99),
            times.p50_ms() / sync_ms,
            (after.appends - before.appends) as f64 / fsyncs as f64,
        );
    }
    Ok(())
}

/// Record after Record into one session.
async fn append(log: Arc<dyn Log>, session: usize, until: Instant) -> Result<Times> {
    let key = key(&format!("s{session}"))?;
    let node = NodeId::new("n")?;
    let (mut tail, mut times) = (Tail::EMPTY, Times::default());
    let mut seq = Seq(0);
    while Instant::now() < until {
        seq = seq.next();
        let mut bytes = vec![7; RECORD_BYTES];
        bytes.extend_from_slice(&seq.0.to_le_bytes());
        let append = Append {
            hash: RecordHash::of(&bytes),
            bytes: Bytes::from(bytes),
            first_seq: seq,
            last_seq: seq,
            epoch: Epoch(1),
            node: node.clone(),
        };
        let start = Instant::now();
        tail = log.append(&key, tail, append).await?;
        times.add(start.elapsed());
    }
    Ok(times)
}
