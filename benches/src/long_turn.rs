//! One turn of many tool calls: what each step writes and works must not grow with what came before.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use async_trait::async_trait;
use serde_json::json;
use steadfast_core::content::{
    CallInput, Finish, ModelReply, ProposedCall, ReplyPart, Stored, Usage,
};
use steadfast_core::input::{ModelFailure, Policy};
use steadfast_harness::provider::ModelProvider;
use steadfast_harness::request::{ModelRequest, Purpose};
use steadfast_protocol::live::Delta;
use steadfast_store_redb::Stats;
use steadfast_tools::demo;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::process;
use crate::snapshot_count::SnapshotCount;
use crate::world::{World, agent, key, turn};

/// Tokens of the history above which it is summarised, as for a real model.
const COMPACT_AT_TOKENS: u64 = 100_000;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Calls of the turn, one in each step.
    #[arg(long, default_value_t = 10_000)]
    calls: usize,
    /// Never summarise the history.
    #[arg(long)]
    whole_history: bool,
}

pub(crate) async fn run(options: &Options, data: &Path) -> Result<()> {
    let store = steadfast_store_redb::Options {
        require_fsync: false,
        ..steadfast_store_redb::Options::default()
    };
    let mut world = World::open(data, store)?;
    let count = SnapshotCount::on(&mut world.stores);
    let provider = Arc::new(AlwaysCalls {
        calls: options.calls,
        stats: Box::new(world.store.watch_stats()),
        count,
        marks: Mutex::default(),
    });
    let policy = Policy {
        steps_max: u32::MAX,
        compact_at_tokens: (!options.whole_history).then_some(COMPACT_AT_TOKENS),
        ..Policy::default()
    };
    let agent = agent(Arc::clone(&provider) as _, demo::tools(), policy)?;
    let (sessions, handle) = world.start(agent).await?;
    turn(&sessions, &key("long")?, "m", "Go on until the end.").await?;
    handle.shutdown(std::future::pending()).await;
    let marks = provider
        .marks
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    print(&marks)
}

fn print(marks: &[Mark]) -> Result<()> {
    const WINDOW: usize = 1_000;
    println!("steps             log bytes  snapshot bytes  newest snapshot  CPU ms      ms");
    let window = WINDOW.min(marks.len() / 4);
    let starts = [0, marks.len() / 2, marks.len().saturating_sub(window + 1)];
    let mut cpu_ms = Vec::new();
    for start in starts {
        let from = marks.get(start).context("the turn was too short")?;
        let to = marks
            .get(start + window)
            .context("the turn was too short")?;
        let each = |total: f64| total / window as f64;
        let cpu = each((to.cpu_seconds - from.cpu_seconds) * 1_000.0);
        println!(
            "{:>6} to {:>6} {:>10.0} {:>15.0} {:>16} {cpu:>7.3} {:>7.3}",
            start + 1,
            start + window,
            each((to.log_bytes - from.log_bytes) as f64),
            each((to.snapshot_bytes - from.snapshot_bytes) as f64),
            to.newest_snapshot_bytes,
            each((to.at - from.at).as_secs_f64() * 1_000.0),
        );
        cpu_ms.push(cpu);
    }
    if let (Some(first), Some(last)) = (cpu_ms.first(), cpu_ms.last()) {
        println!("CPU of a last step / of a first: {:.2}", last / first);
    }
    Ok(())
}

/// What was written and used when the model was asked.
struct Mark {
    at: Instant,
    cpu_seconds: f64,
    log_bytes: u64,
    snapshot_bytes: u64,
    newest_snapshot_bytes: u64,
}

/// A model that asks for one call in each reply until it has asked for all.
struct AlwaysCalls {
    calls: usize,
    stats: Box<dyn Fn() -> Option<Stats> + Send + Sync>,
    count: Arc<SnapshotCount>,
    marks: Mutex<Vec<Mark>>,
}

impl AlwaysCalls {
    /// How often it was asked.
    fn mark(&self) -> usize {
        let stats = (self.stats)().unwrap_or_default();
        let mark = Mark {
            at: Instant::now(),
            cpu_seconds: process::cpu_seconds(std::process::id()).unwrap_or(0.0),
            log_bytes: stats.appended_bytes,
            snapshot_bytes: self.count.bytes(),
            newest_snapshot_bytes: self.count.newest_bytes(),
        };
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.push(mark);
        marks.len()
    }
}

#[async_trait]
impl ModelProvider for AlwaysCalls {
    async fn reply(
        &self,
        request: ModelRequest,
        _deltas: mpsc::Sender<Delta>,
        _cancelled: CancellationToken,
    ) -> Result<ModelReply, ModelFailure> {
        let calls = match request.purpose {
            Purpose::Turn if self.mark() <= self.calls => vec![ProposedCall {
                provider_call_id: String::new(),
                tool: "get_weather".into(),
                input: Stored::Inline(CallInput::Json(json!({ "city": "Paris" }))),
            }],
            Purpose::Turn | Purpose::Compaction => Vec::new(),
        };
        Ok(reply("One more.", calls))
    }

    fn context_window_tokens(&self, _model: &str) -> Option<u64> {
        None
    }
}

/// A reply with a text and calls.
pub(crate) fn reply(text: &str, calls: Vec<ProposedCall>) -> ModelReply {
    ModelReply {
        wire: "bench".into(),
        model: "bench".into(),
        parts: vec![Stored::Inline(ReplyPart::Text {
            text: text.into(),
            native: None,
        })],
        finish: if calls.is_empty() {
            Finish::Stop
        } else {
            Finish::ToolCalls
        },
        calls,
        usage: Usage::default(),
    }
}
