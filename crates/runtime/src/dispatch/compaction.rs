//! Asks the model for a summary of the history.

use std::sync::Arc;

use steadfast_core::input::{Input, ModelFailure};
use steadfast_harness::native::compaction::{compaction_request, summary_of};

use super::blobs::SessionBlobs;
use super::model_call::{ask, configured, retryable};
use super::task::{Ended, Task};

pub(super) async fn run(task: Task) -> Ended {
    let effect = task.effect;
    match summary(&task).await {
        Ok(ended) => ended,
        Err(_) if task.cancelled.is_cancelled() => Ended::silently(),
        Err(failure) => Ended::failed(effect, failure),
    }
}

async fn summary(task: &Task) -> Result<Ended, ModelFailure> {
    let Some(compaction) = &task.session.compaction else {
        return Ok(Ended::silently());
    };
    let agent = configured(task)?;
    let blobs = SessionBlobs(Arc::clone(&task.host.stores.blobs));
    let window = agent.provider.context_window_tokens(&agent.settings.model);
    let request = compaction_request(
        &task.session,
        compaction.through,
        &agent.settings,
        window,
        &blobs,
    );
    let reply = ask(task, agent, request.await?, None).await?;
    let summary = task.spill().text(summary_of(&reply)?).await;
    Ok(Ended::with(Input::CompactionDone {
        effect: task.effect,
        summary: summary.map_err(|error| retryable("summary_not_kept", error.to_string()))?,
        usage: reply.usage,
    }))
}
