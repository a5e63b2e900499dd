//! Says what a step of a script says, as a provider would.

use std::time::Duration;

use steadfast_core::content::{CallInput, Finish, ModelReply, ReplyPart, Usage};
use steadfast_core::input::ModelFailure;
use steadfast_protocol::live::Delta;
use tokio::sync::mpsc;

use super::WIRE;
use super::script::{ScriptedCall, Step};
use crate::failure;
use crate::reply::Draft;
use crate::request::ModelRequest;

/// The reply of one step, shown piece by piece.
pub(super) async fn play(
    request: &ModelRequest,
    step: Step,
    deltas: &mpsc::Sender<Delta>,
) -> Result<ModelReply, ModelFailure> {
    if let Some(seconds) = step.hang {
        pause(seconds).await;
    }
    if let Some(status) = step.failure_status(request.attempt) {
        let report = failure::ErrorReport::of_text("as the script says");
        return Err(failure::of_status(status, None, &report));
    }
    let mut draft = Draft {
        wire: WIRE.to_owned(),
        model: request.model.clone(),
        ..Draft::default()
    };
    let mut output_bytes = 0;
    if let Some(text) = &step.reasoning {
        output_bytes += text.len();
        let part = position(&draft);
        say(deltas, &step, text, |text| Delta::Reasoning { part, text }).await;
        draft.parts.push(ReplyPart::Reasoning {
            text: text.clone(),
            native: None,
        });
    }
    if let Some(text) = &step.text {
        output_bytes += text.len();
        let part = position(&draft);
        say(deltas, &step, text, |text| Delta::Text { part, text }).await;
        draft.parts.push(ReplyPart::Text {
            text: text.clone(),
            native: None,
        });
    }
    let told = request.items.counts();
    let replies = told.replies;
    for (index, call) in step.calls().enumerate() {
        let ScriptedCall { tool, input } = call;
        let text = input.to_string();
        output_bytes += text.len();
        let delta = Delta::ToolInput {
            index: u16::try_from(index).unwrap_or(u16::MAX),
            tool: tool.clone(),
            text,
        };
        // A closed channel means that nobody looks on.
        let _ = deltas.send(delta).await;
        let id = format!("scripted-{replies}-{index}");
        draft.call(id, tool.clone(), CallInput::Json(input.clone()), None);
    }
    let finish = if draft.calls.is_empty() {
        Finish::Stop
    } else {
        Finish::ToolCalls
    };
    draft.usage = step.usage(Usage {
        input_tokens: tokens(told.text_bytes),
        output_tokens: tokens(output_bytes),
        ..Usage::default()
    });
    draft.finish(finish)
}

fn position(draft: &Draft) -> u32 {
    u32::try_from(draft.parts.len()).unwrap_or(u32::MAX)
}

async fn pause(seconds: f64) {
    // Seconds that no duration holds are as good as for ever.
    let duration = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    tokio::time::sleep(duration).await;
}

/// Shows a text in as many pieces as the step says.
async fn say(
    deltas: &mpsc::Sender<Delta>,
    step: &Step,
    text: &str,
    delta: impl Fn(String) -> Delta,
) {
    for (index, piece) in pieces(text, step.chunks).into_iter().enumerate() {
        if index > 0 && step.delay > 0.0 {
            pause(step.delay).await;
        }
        let _ = deltas.send(delta(piece)).await;
    }
}

/// A text in this many pieces of about equal length, fewer if it has fewer characters.
fn pieces(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let count = count.clamp(1, characters.len().max(1));
    let size = characters.len().div_ceil(count).max(1);
    characters
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}

fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}
