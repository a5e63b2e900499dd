//! What running ahead of the log saves: a turn with a safe tool that takes 20 ms.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use steadfast_core::input::{Durability, Policy};
use steadfast_harness::scripted::ScriptedProvider;
use steadfast_tools::function::dynamic_function;

use crate::disk;
use crate::percentile::Times;
use crate::world::{World, agent, key, turn};

const TOOL_MS: u64 = 20;
const SCRIPT: &str = r#"SCRIPT: [{"tool":"work","input":{}},{"text":"done"}]"#;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Turns of each setting.
    #[arg(long, default_value_t = 200)]
    turns: usize,
}

pub(crate) async fn run(options: &Options, data: &Path) -> Result<()> {
    println!(
        "fdatasync of 512 bytes: p50 {:.2} ms",
        disk::sync_times(data)?.p50_ms()
    );
    let on = measure(options, data, Durability::On).await?;
    let strict = measure(options, data, Durability::Strict).await?;
    println!("durability  p50 ms  p99 ms    (tool: {TOOL_MS} ms)");
    for (name, times) in [("on", &on), ("strict", &strict)] {
        let (p50, p99) = (times.p50_ms(), times.percentile_ms(99));
        println!("{name:<10} {p50:>7.2} {p99:>7.2}");
    }
    let ratio = on.p50_ms() / strict.p50_ms();
    println!("on / strict: {ratio:.2}");
    Ok(())
}

async fn measure(options: &Options, data: &Path, durability: Durability) -> Result<Times> {
    let world = World::open(data, steadfast_store_redb::Options::default())?;
    let schema = json!({ "type": "object" });
    let work = dynamic_function("work", "Works", schema, |_, _| async {
        tokio::time::sleep(Duration::from_millis(TOOL_MS)).await;
        Ok("worked".to_owned())
    });
    let policy = Policy {
        durability,
        ..Policy::default()
    };
    let agent = agent(Arc::new(ScriptedProvider::new()), vec![work.safe()], policy)?;
    let (sessions, handle) = world.start(agent).await?;
    let mut times = Times::default();
    for number in 0..options.turns {
        let key = key(&format!("s{}", number % 10))?;
        let turned = turn(&sessions, &key, &format!("m{number}"), SCRIPT).await?;
        times.add(turned.ended);
    }
    handle.shutdown(std::future::pending()).await;
    Ok(times)
}
