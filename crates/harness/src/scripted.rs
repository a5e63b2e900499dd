//! A model for demos and tests that speaks no network.
//!
//! Its reply is a pure function of the transcript and of the attempt that the log counts: it
//! follows the newest script that the user sent, or shows the demo tools when there is none.

mod demo;
mod recent;
mod script;

use std::time::Duration;

use async_trait::async_trait;
use steadfast_core::content::{CallInput, ContentPart, Finish, ModelReply, ReplyPart, Usage};
use steadfast_core::input::ModelFailure;
use steadfast_protocol::live::Delta;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::failure;
use crate::provider::ModelProvider;
use crate::reply::Draft;
use crate::request::{History, ModelRequest, Purpose};
use crate::scripted::recent::{RecentScripts, Script};
use crate::scripted::script::{ScriptedCall, Step};

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

async fn play(
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use steadfast_core::command::ToolChoice;
    use steadfast_core::content::{Stored, ToolOutput};
    use steadfast_core::id::{SessionId, SessionKey, TenantId};
    use steadfast_core::input::FailureClass;

    use super::*;
    use crate::request::{RequestCall, RequestItem, RequestResult, ToolDeclaration};

    fn request(items: Vec<RequestItem>) -> ModelRequest {
        ModelRequest {
            session: SessionKey {
                tenant: TenantId::new("t").unwrap(),
                session: SessionId::new("s").unwrap(),
            },
            model: "demo".into(),
            instructions: String::new(),
            tools: Arc::new(vec![ToolDeclaration {
                name: "get_weather".into(),
                description: "Weather of a city".into(),
                input_schema: json!({"type": "object", "required": ["city", "days"],
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}),
                provider: None,
            }]),
            items: items.into(),
            output_tokens_max: None,
            options: Value::Null,
            purpose: Purpose::Turn,
            tool_choice: ToolChoice::Auto,
            output_schema: None,
            attempt: 1,
        }
    }

    fn user(text: &str) -> RequestItem {
        RequestItem::User {
            parts: vec![ContentPart::Text { text: text.into() }],
        }
    }

    fn reply(calls: &[&str]) -> RequestItem {
        RequestItem::Reply {
            wire: WIRE.into(),
            model: "demo".into(),
            parts: vec![],
            calls: calls
                .iter()
                .map(|id| RequestCall {
                    id: (*id).into(),
                    tool: "get_weather".into(),
                    input: CallInput::Json(json!({})),
                })
                .collect(),
        }
    }

    fn results(ids: &[&str]) -> RequestItem {
        RequestItem::Results {
            results: ids
                .iter()
                .map(|id| RequestResult {
                    id: (*id).into(),
                    tool: "get_weather".into(),
                    output: ToolOutput::text("sunny"),
                    note: None,
                })
                .collect(),
        }
    }

    async fn ask(request: ModelRequest) -> (Result<ModelReply, ModelFailure>, Vec<Delta>) {
        let (sender, mut receiver) = mpsc::channel(1024);
        let reply = ScriptedProvider::new()
            .reply(request, sender, CancellationToken::new())
            .await;
        let mut deltas = Vec::new();
        while let Some(delta) = receiver.recv().await {
            deltas.push(delta);
        }
        (reply, deltas)
    }

    fn text(reply: &ModelReply) -> &str {
        match reply.parts.first() {
            Some(Stored::Inline(ReplyPart::Text { text, .. })) => text,
            other => panic!("no text but {other:?}"),
        }
    }

    #[tokio::test]
    async fn each_reply_is_the_next_step_of_the_newest_script() {
        let script = r#"Please SCRIPT: [{"tools": [{"tool": "get_weather", "input": {"city": "Oslo"}},
            {"tool": "get_weather"}]}, {"text": "done", "usage": {"input_tokens": 7}}] thanks"#;
        let mut items = vec![
            user("SCRIPT: [{\"text\": \"old\"}]"),
            reply(&[]),
            user(script),
        ];
        let (first, deltas) = ask(request(items.clone())).await;
        let first = first.unwrap();
        assert_eq!(first.finish, Finish::ToolCalls);
        let inputs: Vec<_> = first
            .calls
            .iter()
            .map(|call| call.input.inline().unwrap())
            .collect();
        assert_eq!(
            inputs,
            [
                &CallInput::Json(json!({"city": "Oslo"})),
                &CallInput::Json(json!({}))
            ]
        );
        assert_eq!(deltas.len(), 2);

        items.extend([reply(&["a", "b"]), results(&["a", "b"]), user("go on")]);
        let second = ask(request(items.clone())).await.0.unwrap();
        assert_eq!((text(&second), second.usage.input_tokens), ("done", 7));

        items.extend([reply(&[]), user("more")]);
        let over = ask(request(items)).await.0.unwrap();
        assert_eq!(text(&over), "The script is over. I saw 2 tool results.");
    }

    #[tokio::test]
    async fn text_comes_in_as_many_chunks_as_the_step_says() {
        let script =
            r#"SCRIPT:[{"reasoning": "hm", "text": "äbcdefgh", "chunks": 3, "delay": 0.0}]"#;
        let (reply, deltas) = ask(request(vec![user(script)])).await;
        assert_eq!(reply.unwrap().parts.len(), 2);
        let told = |part: u32, text: &str| Delta::Text {
            part,
            text: text.into(),
        };
        let thought = |text: &str| Delta::Reasoning {
            part: 0,
            text: text.into(),
        };
        assert_eq!(
            deltas,
            [
                thought("h"),
                thought("m"),
                told(1, "äbc"),
                told(1, "def"),
                told(1, "gh")
            ]
        );
    }

    #[tokio::test]
    async fn a_status_fails_each_attempt_or_as_many_as_the_step_says() {
        let always = r#"SCRIPT:[{"status": 529}]"#;
        let twice = r#"SCRIPT:[{"status": 429, "times": 2, "text": "there"}]"#;
        for attempt in 1..4 {
            let asked = ModelRequest {
                attempt,
                ..request(vec![user(always)])
            };
            let failure = ask(asked).await.0.unwrap_err();
            let again = FailureClass::Retryable {
                retry_after_ms: None,
            };
            assert_eq!(
                (failure.class, failure.code.as_str()),
                (again, "overloaded")
            );
            let asked = ModelRequest {
                attempt,
                ..request(vec![user(twice)])
            };
            assert_eq!(ask(asked).await.0.is_ok(), attempt == 3);
        }
    }

    #[tokio::test]
    async fn a_bad_script_is_a_clear_and_final_failure() {
        for script in [
            "SCRIPT: [{\"text\": ",
            "SCRIPT: hello",
            "SCRIPT:",
            "SCRIPT: [{\"txt\": \"a\"}]",
            "SCRIPT: [{\"delay\": -1}]",
            "SCRIPT: [{\"times\": 1}]",
            "SCRIPT: [{\"input\": {}}]",
            "SCRIPT: [{\"status\": 200}]",
            "SCRIPT: [{\"hang\": \"x\"}]",
        ] {
            let failure = ask(request(vec![user(script)])).await.0.unwrap_err();
            assert_eq!(
                (failure.class, failure.code.as_str()),
                (FailureClass::Fatal, "bad_script"),
                "{script}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_step_waits_and_ends_at_once_when_cancelled() {
        let hang = || request(vec![user(r#"SCRIPT:[{"hang": 30}]"#)]);
        let begun = tokio::time::Instant::now();
        let reply = ask(hang()).await.0.unwrap();
        assert_eq!(text(&reply), "I am back.");
        assert_eq!(begun.elapsed(), Duration::from_secs(30));

        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let (sender, _receiver) = mpsc::channel(1);
        let failure = ScriptedProvider::new()
            .reply(hang(), sender, cancelled)
            .await
            .unwrap_err();
        assert_eq!(failure.code, "cancelled");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_script_it_calls_the_tool_that_is_named() {
        let hello = ask(request(vec![user("Hello")])).await.0.unwrap();
        assert!(text(&hello).contains("- get_weather: Weather of a city"));

        let named = user("Please get weather for Paris, 3 days");
        let calling = ask(request(vec![named.clone()])).await.0.unwrap();
        let call = calling.calls.first().unwrap();
        assert_eq!(
            call.input.inline(),
            Some(&CallInput::Json(json!({"city": "Paris", "days": 3})))
        );

        let items = vec![named, reply(&["a"]), results(&["a"])];
        let answer = ask(request(items)).await.0.unwrap();
        assert_eq!(text(&answer), "get_weather answered: sunny");
    }
}
