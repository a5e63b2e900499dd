//! Asks the model for its next reply, shows it while it comes, and triages the calls in it.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::content::ModelReply;
use steadfast_core::input::{FailureClass, Input, ModelFailure};
use steadfast_harness::native::turn_request;
use steadfast_harness::request::ModelRequest;
use tokio::sync::mpsc;
use tracing::Span;

use super::blobs::SessionBlobs;
use super::deltas::{self, DELTAS_MAX};
use super::offer;
use super::spans;
use super::task::{Ended, Task};
use crate::agent::{self, Agent};
use crate::feed::Shown;
use crate::triage;

/// How long after the start of the node a model call waits for servers that were not reached yet.
const SETTLE_MAX: Duration = Duration::from_secs(3);

pub(super) async fn run(task: Task) -> Ended {
    let effect = task.effect;
    match reply(&task).await {
        Ok(ended) => ended,
        // Its failure is of no interest to a session that no longer wants the reply.
        Err(_) if task.cancelled.is_cancelled() => Ended::silently(),
        Err(failure) => {
            tracing::info!(
                session = %task.session.key, %effect, code = failure.code,
                class = ?failure.class, "model call failed"
            );
            spans::not_replied(&Span::current(), &failure);
            if let Some(shown) = Shown::by(&effect) {
                task.feed.withdraw(shown);
            }
            Ended::failed(effect, failure)
        }
    }
}

async fn reply(task: &Task) -> Result<Ended, ModelFailure> {
    let agent = configured(task)?;
    let turn = task.session.turn.as_ref();
    let turn = turn.ok_or_else(|| fatal("internal", "no turn is open".into()))?;
    let blobs = SessionBlobs(Arc::clone(&task.host.stores.blobs));
    settle(task, agent).await;
    if let Some(listed) = offer::difference(&task.session, agent) {
        let (tools, note) = listed;
        return Ok(Ended::with(Input::ToolsListed {
            effect: task.effect,
            tools,
            note,
        }));
    }
    let settings = agent.turn_settings(turn);
    let request = turn_request(&task.session, &settings, &blobs, &task.history).await?;
    let mut reply = ask(task, agent, request, Shown::by(&task.effect)).await?;
    spans::replied(&Span::current(), &reply);
    // The triage reads the arguments, so it comes before they are moved into blobs.
    let mut triaged = triage::reply(&task.host.pools, agent, &task.session, turn, &reply);
    let unfit = agent::unfit(&agent.control, turn, &reply);
    let spilled = task.spill().reply(&mut reply, &mut triaged.triage).await;
    spilled.map_err(|error| retryable("reply_not_kept", error.to_string()))?;
    Ok(Ended {
        input: Some(Input::ModelReplied {
            effect: task.effect,
            reply,
            triage: triaged.triage,
            unfit,
        }),
        slots: triaged.slots,
    })
}

/// Just after the start of the node the servers that have an agent's tools are given a moment; later
/// nobody waits for one.
async fn settle(task: &Task, agent: &Agent) {
    let until = task.host.started + SETTLE_MAX;
    let tried = async {
        for source in agent.catalog.sources() {
            source.tried().await;
        }
    };
    tokio::select! { biased;
        () = task.cancelled.cancelled() => {}
        () = tried => {}
        () = tokio::time::sleep_until(until) => {}
    }
}

/// The session's agent; without it nobody can be asked.
pub(super) fn configured(task: &Task) -> Result<&Arc<Agent>, ModelFailure> {
    task.agent().ok_or_else(|| {
        let message = "the session's agent is not configured on this node";
        fatal("agent_unknown", message.into())
    })
}

/// Makes one request; what comes is shown as `shown`, if at all.
pub(super) async fn ask(
    task: &Task,
    agent: &Agent,
    request: ModelRequest,
    shown: Option<Shown>,
) -> Result<ModelReply, ModelFailure> {
    let (sender, mut deltas) = mpsc::channel(DELTAS_MAX);
    let reply = agent
        .provider
        .reply(request, sender, task.cancelled.clone());
    tokio::pin!(reply);
    let stop = async {
        task.cancelled.cancelled().await;
        tokio::time::sleep(task.host.options.cancel_grace).await;
    };
    tokio::pin!(stop);
    let replied = loop {
        tokio::select! { biased;
            Some(delta) = deltas.recv() => {
                if let Some(shown) = shown && !task.cancelled.is_cancelled() {
                    deltas::show(&task.feed, shown, delta, &mut deltas);
                }
            }
            replied = &mut reply => break replied,
            () = &mut stop => {
                return Err(retryable("cancelled", "the model call did not stop by itself".into()));
            }
        }
    };
    while let Ok(delta) = deltas.try_recv() {
        if let Some(shown) = shown {
            deltas::show(&task.feed, shown, delta, &mut deltas);
        }
    }
    replied
}

pub(super) fn retryable(code: &str, message: String) -> ModelFailure {
    let class = FailureClass::Retryable {
        retry_after_ms: None,
    };
    ModelFailure {
        class,
        code: code.into(),
        message,
    }
}

fn fatal(code: &str, message: String) -> ModelFailure {
    ModelFailure {
        class: FailureClass::Fatal,
        code: code.into(),
        message,
    }
}
