//! Memory of this process for each session that idles in memory, and for each that was let go.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use steadfast_core::input::Policy;
use steadfast_harness::scripted::ScriptedProvider;
use steadfast_runtime::sessions::Sessions;
use steadfast_tools::demo;

use crate::process::resident_bytes;
use crate::turns::SCRIPT;
use crate::world::{World, agent, key, turn};

/// Turns at a time.
const AT_ONCE: usize = 64;
/// Until lists show what happened, and its tasks are gone.
const SETTLE: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Sessions of each kind, with one turn each.
    #[arg(long, default_value_t = 5_000)]
    sessions: usize,
    /// Sessions before those: they fill the caches of the store and of the allocator.
    #[arg(long, default_value_t = 3_000)]
    warm_up: usize,
}

pub(crate) async fn run(options: &Options, data: &Path) -> Result<()> {
    println!("sessions with one turn each   in memory  bytes of memory for each more session");
    // In this order: what those that stay in memory leave to the allocator would hide the others.
    for (name, idle_after) in [
        ("let go", Duration::ZERO),
        ("idle", Duration::from_secs(3_600)),
    ] {
        // Small, so that it is full after the warm-up.
        let store = steadfast_store_redb::Options {
            require_fsync: false,
            cache_bytes: 4 * 1024 * 1024,
            ..steadfast_store_redb::Options::default()
        };
        let mut world = World::open(data, store)?;
        world.options.idle_after = idle_after;
        let tools = demo::tools();
        let agent = agent(Arc::new(ScriptedProvider::new()), tools, Policy::default())?;
        let (sessions, handle) = world.start(agent).await?;
        turns(&sessions, 0..options.warm_up).await?;
        let (before, known) = (resident_bytes()?, sessions.in_memory());
        turns(
            &sessions,
            options.warm_up..options.warm_up + options.sessions,
        )
        .await?;
        let (after, in_memory) = (resident_bytes()?, sessions.in_memory() - known);
        let more = after.saturating_sub(before) / options.sessions as u64;
        println!(
            "{:>8} {name:<20} {in_memory:>9}  {more:>8}",
            options.sessions
        );
        handle.shutdown(std::future::pending()).await;
    }
    Ok(())
}

/// One turn in each of these sessions.
async fn turns(sessions: &Sessions, numbers: std::ops::Range<usize>) -> Result<()> {
    stream::iter(numbers)
        .map(|number| async move {
            let key = key(&format!("s{number}"))?;
            turn(sessions, &key, "m", SCRIPT).await.map(drop)
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    tokio::time::sleep(SETTLE).await;
    Ok(())
}
