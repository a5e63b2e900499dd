//! Tool calls within the conversation.

use steadfast_core::content::CallOutput;
use steadfast_core::event::{Event, RecordedCall, Settlement};
use steadfast_core::id::{ApprovalId, CallId, Timestamp};
use steadfast_core::input::{Gate, Place};

use super::{DraftBody, DraftTool, Fold};
use crate::messages::view::{ShownApproval, ToolState};

impl Fold {
    /// Folds an event about a call.
    pub(super) fn call_event(&mut self, event: &Event) {
        match event {
            Event::ApprovalRequested {
                approval,
                expires_at,
                ..
            } => self.approval_requested(*approval, *expires_at),
            Event::ApprovalDecided {
                approval,
                approved,
                reason,
                triage,
            } => self.tool(approval.0, false, |tool| {
                if let Some(approval) = &mut tool.approval {
                    approval.approved = Some(*approved);
                    approval.reason.clone_from(reason);
                }
                let place = triage.as_ref().map_or(tool.place, |triage| triage.place);
                if *approved {
                    tool.state = waiting_state(place);
                }
            }),
            Event::CallStarted { call, .. } | Event::JobQueued { call, .. } => {
                self.tool_state(*call, ToolState::Running);
            }
            Event::CallRetryScheduled { call, .. } => self.tool_state(*call, ToolState::Retrying),
            Event::CheckRequested { call, .. } => self.tool_state(*call, ToolState::Checking),
            Event::CallDoubted { call } => self.tool_state(*call, ToolState::InDoubt),
            Event::CallSettled {
                call,
                settlement,
                output,
            } => self.settled(*call, false, *settlement, output),
            Event::CallResolved { call, output } => {
                self.tool(*call, false, |tool| {
                    tool.late_output = Some(output.output.clone())
                });
            }
            _ => {}
        }
    }

    fn approval_requested(&mut self, approval: ApprovalId, expires_at: Option<Timestamp>) {
        self.tool(approval.0, false, |tool| {
            tool.state = ToolState::AwaitingApproval;
            tool.approval = Some(ShownApproval {
                id: approval.to_string(),
                expires_at: expires_at.map(|at| at.0),
                approved: None,
                reason: None,
            });
        });
    }

    pub(in crate::messages) fn settled(
        &mut self,
        call: CallId,
        copied: bool,
        settlement: Settlement,
        output: &CallOutput,
    ) {
        self.weigh(super::stored_bytes(&output.output));
        self.tool(call, copied, |tool| {
            tool.state = ToolState::Settled;
            tool.settlement = Some(settlement);
            tool.output = Some(output.clone());
        });
    }

    fn tool_state(&mut self, call: CallId, state: ToolState) {
        self.tool(call, false, |tool| tool.state = state);
    }

    fn tool(&mut self, call: CallId, copied: bool, change: impl FnOnce(&mut DraftTool)) {
        let kept = self
            .places
            .iter_mut()
            .rev()
            .filter_map(|place| place.draft.as_mut());
        let mut tools = kept
            .flat_map(|draft| draft.parts.iter_mut().rev())
            .filter_map(|part| match &mut part.body {
                DraftBody::Tool(tool) => Some(tool),
                _ => None,
            });
        if let Some(tool) = tools.find(|tool| tool.id == call && tool.copied == copied) {
            change(tool);
        }
    }
}

/// A call that was just asked for.
pub(super) fn draft_tool(id: CallId, call: &RecordedCall) -> DraftTool {
    let state = match call.triage.gate {
        Gate::Open => waiting_state(call.triage.place),
        Gate::Approval { .. } | Gate::Refused { .. } => ToolState::Pending,
    };
    DraftTool {
        id,
        copied: false,
        tool: call.tool.clone(),
        input: call.input.clone(),
        place: call.triage.place,
        state,
        settlement: None,
        output: None,
        late_output: None,
        approval: None,
    }
}

fn waiting_state(place: Place) -> ToolState {
    match place {
        Place::Client => ToolState::AwaitingResult,
        Place::Local | Place::Remote => ToolState::Pending,
    }
}
