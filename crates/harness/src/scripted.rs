//! A model for demos and tests that speaks no network.
//!
//! Its reply is a pure function of the transcript and of the attempt that the log counts: it
//! follows the newest script that the user sent, or shows the demo tools when there is none.

mod demo;
mod play;
mod recent;
mod script;

use async_trait::async_trait;
use steadfast_core::content::{ContentPart, ModelReply};
use steadfast_core::input::ModelFailure;
use steadfast_protocol::live::Delta;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::failure;
use crate::provider::ModelProvider;
use crate::request::{History, ModelRequest, Purpose};
use crate::scripted::play::play;
use crate::scripted::recent::{RecentScripts, Script};
use crate::scripted::script::Step;

/// Name of the provider's kind and wire.
pub const WIRE: &str = "scripted";
const CONTEXT_WINDOW_TOKENS: u64 = 200_000;

/// The scripted model.
#[derive(Debug, Default)]
pub struct ScriptedProvider {
    scripts: RecentScripts,
}

impl ScriptedProvider {
    /// All of them are alike: it has no settings.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl ModelProvider for ScriptedProvider {
    async fn reply(
        &self,
        request: ModelRequest,
        deltas: mpsc::Sender<Delta>,
        cancelled: CancellationToken,
    ) -> Result<ModelReply, ModelFailure> {
        let step = self.next_step(&request)?;
        tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(failure::cancelled()),
            reply = play(&request, step, &deltas) => reply,
        }
    }

    fn context_window_tokens(&self, _model: &str) -> Option<u64> {
        Some(CONTEXT_WINDOW_TOKENS)
    }
}

impl ScriptedProvider {
    /// What is said next.
    fn next_step(&self, request: &ModelRequest) -> Result<Step, ModelFailure> {
        if request.purpose == Purpose::Compaction {
            return Ok(demo::summary(request));
        }
        let Some((position, steps)) = self.newest_script(&request.items)? else {
            return Ok(demo::answer(request));
        };
        let later = request.items.counts_after(position);
        let step = steps.get(later.replies).cloned();
        Ok(step.unwrap_or_else(|| script_is_over(later.results)))
    }

    /// The newest script and the position of its message.
    fn newest_script(&self, items: &History) -> Result<Option<(usize, Script)>, ModelFailure> {
        for (position, parts) in items.said_newest_first() {
            for part in parts.iter().rev() {
                if let ContentPart::Text { text } = part
                    && let Some(steps) = self.scripts.parsed(text)?
                {
                    return Ok(Some((position, steps)));
                }
            }
        }
        Ok(None)
    }
}

fn script_is_over(results: usize) -> Step {
    let noun = if results == 1 { "result" } else { "results" };
    Step::text(format!("The script is over. I saw {results} tool {noun}."))
}

#[cfg(test)]
mod tests;
