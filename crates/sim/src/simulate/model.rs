//! A model that answers anything: text, calls of any tools, failures, silence.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use steadfast_core::content::{
    CallInput, Finish, ModelReply, ProposedCall, ReplyPart, Stored, Usage,
};
use steadfast_core::input::{FailureClass, ModelFailure};
use steadfast_harness::provider::ModelProvider;
use steadfast_harness::request::{ModelRequest, RequestItem};
use steadfast_protocol::live::Delta;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::tool::tools;
use super::world::{Part, World};
use crate::invariants::Seen;

/// A model of this world.
pub(super) struct SimulatedModel {
    pub(super) world: World,
}

#[async_trait]
impl ModelProvider for SimulatedModel {
    async fn reply(
        &self,
        request: ModelRequest,
        deltas: mpsc::Sender<Delta>,
        cancelled: CancellationToken,
    ) -> Result<ModelReply, ModelFailure> {
        self.world
            .saw(&request.session, &Seen::ModelAsked { request: &request });
        let asked = Self {
            world: self.world.of(&request.session, Part::Model),
        };
        tokio::select! { biased;
            () = cancelled.cancelled() => Err(failure("cancelled", FailureClass::Fatal)),
            reply = asked.answer(&request, deltas) => reply,
        }
    }

    fn context_window_tokens(&self, _model: &str) -> Option<u64> {
        None
    }
}

fn failure(code: &str, class: FailureClass) -> ModelFailure {
    ModelFailure {
        class,
        code: code.to_owned(),
        message: format!("the model says {code}"),
    }
}

impl SimulatedModel {
    async fn answer(
        &self,
        request: &ModelRequest,
        deltas: mpsc::Sender<Delta>,
    ) -> Result<ModelReply, ModelFailure> {
        let world = &self.world;
        for word in 0..world.draw(4) {
            world.pause(200).await;
            let text = format!("w{word} ");
            // Nobody may be listening any more.
            let _ = deltas.send(Delta::Text { part: 0, text }).await;
        }
        if !world.is_calm() && world.chance(15) {
            return Err(self.fail());
        }
        if !world.is_calm() && world.chance(3) {
            tokio::time::sleep(Duration::from_secs(90)).await;
        }
        Ok(self.reply(request))
    }

    fn fail(&self) -> ModelFailure {
        let later = FailureClass::Retryable {
            retry_after_ms: None,
        };
        match self.world.draw(10) {
            0 => failure("bad_request", FailureClass::Fatal),
            1 => failure("context_length", FailureClass::ContextOverflow),
            2 => {
                let wait = FailureClass::Retryable {
                    retry_after_ms: Some(self.world.draw(20_000)),
                };
                failure("rate_limited", wait)
            }
            _ => failure("overloaded", later),
        }
    }

    /// The longer the history, the likelier a final answer.
    fn reply(&self, request: &ModelRequest) -> ModelReply {
        let world = &self.world;
        let results = request
            .items
            .iter()
            .rev()
            .take_while(|item| !matches!(item, RequestItem::User { .. }))
            .filter(|item| matches!(item, RequestItem::Results { .. }))
            .count() as u64;
        let asks = !request.tools.is_empty() && world.draw(3) >= results.min(3);
        let count = if asks { 1 + world.draw(4) } else { 0 };
        let calls: Vec<ProposedCall> = (0..count).map(|index| self.call(index)).collect();
        let length = if world.chance(5) { 40_000 } else { 5 };
        let text = ReplyPart::Text {
            text: "t".repeat(length),
            native: None,
        };
        let places = (0_u16..).zip(&calls).map(|(index, _)| ReplyPart::Call {
            index,
            native: None,
        });
        ModelReply {
            wire: "simulated".into(),
            model: "m".into(),
            parts: std::iter::once(text)
                .chain(places)
                .map(Stored::Inline)
                .collect(),
            finish: if calls.is_empty() {
                Finish::Stop
            } else {
                Finish::ToolCalls
            },
            calls,
            usage: Usage {
                input_tokens: 10,
                output_tokens: 10,
                ..Usage::default()
            },
        }
    }

    fn call(&self, index: u64) -> ProposedCall {
        let world = &self.world;
        let names: Vec<&str> = tools(&world.setup).map(|(name, _, _)| *name).collect();
        let tool = names[world.draw(names.len() as u64) as usize];
        let input = if world.chance(5) {
            CallInput::Malformed {
                text: "{".into(),
                error: "end of text".into(),
            }
        } else if world.chance(10) {
            CallInput::Json(json!({ "of": "x".repeat(30_000) }))
        } else {
            CallInput::Json(json!({ "of": world.draw(1_000).to_string() }))
        };
        ProposedCall {
            provider_call_id: format!("p{}-{index}", world.draw(1_000_000)),
            tool: if world.chance(3) {
                "unknown".into()
            } else {
                tool.into()
            },
            input: Stored::Inline(input),
        }
    }
}
