//! Calls of the turn: who decides about them, and what came of them.

use serde_json::{Value, json};
use steadfast_core::call::Question;
use steadfast_core::content::{CallOutput, ToolOutput};
use steadfast_core::event::{Event, RecordedCall, Settlement};
use steadfast_core::id::{ApprovalId, CallId};
use steadfast_core::input::{Gate, Place};

use super::Fold;
use crate::chat::chunk::{Chunk, harmless};
use crate::chat::{content, inline, wire_id::WireCall};

/// A call of the turn.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) wire: WireCall,
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) metadata: Value,
    pub(super) at_client: bool,
    pub(super) state: CallState,
    /// The client was told that its input is complete.
    pub(super) announced: bool,
    /// It was shown as an invalid call.
    pub(super) refused: bool,
    pub(super) approval: Option<Approval>,
}

/// Whom a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallState {
    Approval,
    Client,
    /// The tool asks something.
    Question,
    Tool,
    Settled,
}

/// A question to a person.
#[derive(Debug, Clone, Copy)]
pub(super) struct Approval {
    id: ApprovalId,
    approved: Option<bool>,
}

impl Call {
    pub(super) fn announcement(&self) -> Chunk {
        Chunk::ToolInputAvailable {
            tool_call_id: self.wire.to_string(),
            tool_name: self.tool.clone(),
            input: self.input.clone(),
            tool_metadata: self.metadata.clone(),
            provider_executed: false,
        }
    }

    /// What came of it.
    fn outcome(&self, output: &CallOutput) -> Chunk {
        match outcome(output) {
            Ok(output) => Chunk::ToolOutputAvailable {
                tool_call_id: self.wire.to_string(),
                output,
                preliminary: false,
                provider_executed: false,
            },
            Err(error_text) => self.failure(error_text),
        }
    }

    fn failure(&self, error_text: String) -> Chunk {
        let tool_call_id = self.wire.to_string();
        if self.announced {
            return Chunk::ToolOutputError {
                tool_call_id,
                error_text,
            };
        }
        // The client has its input as text only, which it would keep beside the error.
        Chunk::ToolInputError {
            tool_call_id,
            tool_name: self.tool.clone(),
            input: self.input.clone(),
            error_text,
            tool_metadata: self.metadata.clone(),
        }
    }
}

/// Where a call stands when it is asked for.
pub(super) fn first_state(call: &RecordedCall) -> CallState {
    match (&call.triage.gate, call.triage.place) {
        (Gate::Approval { .. }, _) => CallState::Approval,
        (Gate::Open, Place::Client) => CallState::Client,
        (Gate::Open, Place::Local | Place::Remote) | (Gate::Refused { .. }, _) => CallState::Tool,
    }
}

impl Fold {
    pub(super) fn call_event(&mut self, event: &Event) {
        match event {
            Event::ApprovalRequested { approval, .. } => self.approval_requested(*approval),
            Event::ApprovalDecided {
                approval,
                approved,
                reason,
                triage,
            } => {
                let place = triage.as_ref().map(|triage| triage.place);
                self.approval_decided(*approval, *approved, reason.clone(), place);
            }
            Event::InputRequested { call, question, .. } => self.asked(*call, question),
            Event::InputGiven { call, .. } => self.answered(*call),
            Event::CallSettled {
                call,
                settlement,
                output,
            } => self.settled(*call, *settlement, output),
            Event::CallResolved { call, output } => self.resolved(*call, output),
            _ => {}
        }
    }

    pub(super) fn people_owe_all(&self) -> bool {
        let mut open = self
            .calls
            .values()
            .map(|call| call.state)
            .filter(|state| *state != CallState::Settled)
            .peekable();
        open.peek().is_some() && open.all(|state| state != CallState::Tool)
    }

    /// Has the client run the calls that still wait for it.
    pub(super) fn announce_open(&mut self) {
        let mut chunks = Vec::new();
        for call in self.calls.values_mut() {
            if call.state == CallState::Client && !call.announced {
                call.announced = true;
                chunks.push(call.announcement());
            }
        }
        self.out.extend(chunks);
    }

    fn approval_requested(&mut self, approval: ApprovalId) {
        let Some(call) = self.calls.get_mut(&approval.0) else {
            return;
        };
        call.state = CallState::Approval;
        call.approval = Some(Approval {
            id: approval,
            approved: None,
        });
        let tool_call_id = call.wire.to_string();
        self.show(Chunk::ToolApprovalRequest {
            approval_id: approval.to_string(),
            tool_call_id,
        });
    }

    fn asked(&mut self, id: CallId, question: &Question) {
        let data = json!({
            "callId": id,
            "requests": harmless(question.requests.clone()),
            "problem": question.problem,
            "answered": false,
        });
        self.question(id, CallState::Question, data);
    }

    fn answered(&mut self, id: CallId) {
        let data = json!({ "callId": id, "answered": true });
        self.question(id, CallState::Tool, data);
    }

    fn question(&mut self, id: CallId, state: CallState, mut data: Value) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        call.state = state;
        let wire = call.wire;
        data["toolCallId"] = json!(wire.to_string());
        let id = wire.to_string();
        self.answer(wire.step, Chunk::Question { id, data });
    }

    fn approval_decided(
        &mut self,
        id: ApprovalId,
        approved: bool,
        reason: Option<String>,
        place: Option<Place>,
    ) {
        let live = self.live;
        let Some(call) = self.calls.get_mut(&id.0) else {
            return;
        };
        let at_client = place.map_or(call.at_client, |place| place == Place::Client);
        call.state = if approved && at_client {
            CallState::Client
        } else {
            CallState::Tool
        };
        call.approval = Some(Approval {
            id,
            approved: Some(approved),
        });
        let step = call.wire.step;
        let runs_now = call.state == CallState::Client && live && !call.announced;
        call.announced |= runs_now;
        let announcement = runs_now.then(|| call.announcement());
        self.answer(
            step,
            Chunk::ToolApprovalResponse {
                approval_id: id.to_string(),
                approved,
                reason,
            },
        );
        if let Some(announcement) = announcement {
            self.answer(step, announcement);
        }
    }

    fn settled(&mut self, id: CallId, settlement: Settlement, output: &CallOutput) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        call.state = CallState::Settled;
        if call.refused {
            return;
        }
        let (wire, approval) = (call.wire, call.approval);
        let step = wire.step;
        let tool_call_id = wire.to_string();
        let denied = approval.filter(|approval| approval.approved != Some(true));
        let Some(approval) = denied else {
            let told = call.outcome(output);
            return self.answer(step, told);
        };
        if approval.approved.is_none() {
            // The client's schema knows no approval without an answer on a call that is over.
            self.answer(
                step,
                Chunk::ToolApprovalResponse {
                    approval_id: approval.id.to_string(),
                    approved: false,
                    reason: Some(unanswered(settlement).into()),
                },
            );
        }
        self.answer(step, Chunk::ToolOutputDenied { tool_call_id });
    }

    fn resolved(&mut self, id: CallId, output: &CallOutput) {
        let Some(call) = self.calls.get(&id) else {
            return;
        };
        let wire = call.wire;
        let chunk = call.outcome(output);
        self.answer(wire.step, chunk);
    }

    pub(super) fn progress(&mut self, id: CallId, output: &Value) {
        let Some(call) = self.calls.get(&id) else {
            return;
        };
        if call.state != CallState::Tool || call.refused {
            return;
        }
        let wire = call.wire;
        let chunk = Chunk::ToolOutputAvailable {
            tool_call_id: wire.to_string(),
            output: harmless(output.clone()),
            preliminary: true,
            provider_executed: false,
        };
        self.answer(wire.step, chunk);
    }

    /// Gives what came of a call of this step: the client may have the step, and not yet this.
    fn answer(&mut self, step: u32, chunk: Chunk) {
        if step >= self.has_steps {
            self.out.push(chunk);
        }
    }
}

/// Why an approval ended without an answer.
fn unanswered(settlement: Settlement) -> &'static str {
    match settlement {
        Settlement::Expired => "nobody answered in time",
        Settlement::Superseded => "a new message came instead of an answer",
        Settlement::Cancelled => "the turn was cancelled",
        Settlement::ToolGone => "the tool is no longer there",
        Settlement::Done
        | Settlement::Refused
        | Settlement::Denied
        | Settlement::Unreachable
        | Settlement::Unknown
        | Settlement::InDoubt => "it is over",
    }
}

/// An output as the client shows it; an error is its words.
pub(in crate::chat) fn outcome(output: &CallOutput) -> Result<Value, String> {
    match output.output.inline() {
        None => Ok(inline::missing(&output.output)),
        Some(ToolOutput::Text { text }) => Ok(json!(text)),
        Some(ToolOutput::Json { value }) => Ok(harmless(value.clone())),
        Some(ToolOutput::Content { parts }) => Ok(content::output(parts)),
        Some(
            output @ (ToolOutput::ErrorText { .. }
            | ToolOutput::ErrorJson { .. }
            | ToolOutput::ExecutionDenied { .. }),
        ) => Err(error_text(output)),
    }
}

/// An error in words.
pub(super) fn error_text(output: &ToolOutput) -> String {
    match output {
        ToolOutput::Text { text } | ToolOutput::ErrorText { text } => text.clone(),
        ToolOutput::Json { value } | ToolOutput::ErrorJson { value } => value.to_string(),
        ToolOutput::ExecutionDenied { reason } => {
            reason.clone().unwrap_or_else(|| "not allowed".into())
        }
        ToolOutput::Content { .. } => "the call did not run".into(),
    }
}
