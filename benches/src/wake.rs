//! From a message to a session that is not in memory until its turn has durably begun, for sessions
//! of different length. The store is open, its pages are cached; the sessions are read anew.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use steadfast_core::content::ModelReply;
use steadfast_core::id::NodeId;
use steadfast_core::input::{ModelFailure, Policy};
use steadfast_harness::provider::ModelProvider;
use steadfast_harness::request::ModelRequest;
use steadfast_protocol::live::Delta;
use steadfast_tools::demo;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::disk;
use crate::log_writer::LogWriter;
use crate::long_turn::reply;
use crate::percentile::Times;
use crate::snapshot_count::SnapshotCount;
use crate::talk::Talk;
use crate::world::{World, agent, key, turn};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Turns of the sessions.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 1_000, 10_000])]
    turns: Vec<usize>,
    /// How often each is woken.
    #[arg(long, default_value_t = 60)]
    rounds: usize,
}

pub(crate) async fn run(options: &Options, data: &Path) -> Result<()> {
    let sync_ms = disk::sync_times(data)?.p50_ms();
    println!("fdatasync of 512 bytes: p50 {sync_ms:.2} ms");
    println!("  turns  wake p50 ms  p99 ms  whole turn p50 ms  snapshot bytes");
    let mut p50s = Vec::new();
    for &turns in &options.turns {
        let mut world = World::open(data, steadfast_store_redb::Options::default())?;
        let count = SnapshotCount::on(&mut world.stores);
        write_history(&world, turns).await?;
        let (mut begun, mut ended) = (Times::default(), Times::default());
        for round in 0..=options.rounds {
            let provider = Arc::new(SaysDone);
            let agent = agent(provider, demo::tools(), Policy::default())?;
            let (sessions, handle) = world.start(agent).await?;
            let id = format!("round-{round}");
            let turned = turn(&sessions, &key("s")?, &id, "And now?").await?;
            // The first one reads the whole log, and leaves a snapshot when it is let go.
            if round > 0 {
                begun.add(turned.begun);
                ended.add(turned.ended);
            }
            handle.shutdown(std::future::pending()).await;
        }
        println!(
            "{turns:>7} {:>12.2} {:>7.2} {:>18.2} {:>15}",
            begun.p50_ms(),
            begun.percentile_ms(99),
            ended.p50_ms(),
            count.newest_bytes(),
        );
        p50s.push(begun.p50_ms());
    }
    let least = p50s.iter().copied().fold(f64::INFINITY, f64::min);
    let most = p50s.iter().copied().fold(0.0, f64::max);
    println!("slowest / fastest p50: {:.2}", most / least);
    Ok(())
}

async fn write_history(world: &World, turns: usize) -> Result<()> {
    /// In one Record: it costs a sync.
    const TURNS_AT_ONCE: usize = 50;
    let node = NodeId::new("before")?;
    let mut talk = Talk::new(key("s")?, &node);
    let mut writer = LogWriter::new(node);
    for number in 0..turns {
        talk.turn(&format!("turn-{number}"))?;
        if number % TURNS_AT_ONCE == 0 {
            writer.write(&*world.stores.log, &mut talk).await?;
        }
    }
    talk.release();
    writer.write(&*world.stores.log, &mut talk).await
}

/// A model that says the same to everything.
struct SaysDone;

#[async_trait]
impl ModelProvider for SaysDone {
    async fn reply(
        &self,
        _request: ModelRequest,
        _deltas: mpsc::Sender<Delta>,
        _cancelled: CancellationToken,
    ) -> Result<ModelReply, ModelFailure> {
        Ok(reply("Done.", Vec::new()))
    }

    fn context_window_tokens(&self, _model: &str) -> Option<u64> {
        None
    }
}
