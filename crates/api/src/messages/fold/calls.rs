//! Tool calls within the conversation.

use steadfast_core::content::CallOutput;
use steadfast_core::event::{Event, RecordedCall, Settlement};
use steadfast_core::id::{ApprovalId, CallId, Seq, Timestamp};
use steadfast_core::input::{Gate, Place};

use super::Fold;
use super::draft::{DraftBody, DraftTool};
use crate::messages::view::{ShownApproval, ToolState};

impl Fold {
    /// Folds an event about a call.
    pub(super) fn call_event(&mut self, seq: Seq, event: &Event) {
        match event {
            Event::ApprovalRequested {
                approval,
                expires_at,
                ..
            } => self.approval_requested(seq, *approval, *expires_at),
            Event::ApprovalDecided {
                approval,
                approved,
                reason,
                triage,
            } => self.tool(seq, approval.0, false, |tool| {
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
                self.tool_state(seq, *call, ToolState::Running);
            }
            Event::InputRequested { call, .. } => {
                self.tool_state(seq, *call, ToolState::AwaitingInput);
            }
            Event::InputGiven { call, .. } => self.tool_state(seq, *call, ToolState::Pending),
            Event::CallRetryScheduled { call, .. } => {
                self.tool_state(seq, *call, ToolState::Retrying)
            }
            Event::CheckRequested { call, .. } => self.tool_state(seq, *call, ToolState::Checking),
            Event::CallDoubted { call } => self.tool_state(seq, *call, ToolState::InDoubt),
            Event::CallSettled {
                call,
                settlement,
                output,
            } => self.settled(seq, *call, false, *settlement, output),
            Event::CallResolved { call, output } => {
                self.tool(seq, *call, false, |tool| {
                    tool.late_output = Some(output.output.clone())
                });
            }
            _ => {}
        }
    }

    fn approval_requested(
        &mut self,
        seq: Seq,
        approval: ApprovalId,
        expires_at: Option<Timestamp>,
    ) {
        self.tool(seq, approval.0, false, |tool| {
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
        seq: Seq,
        call: CallId,
        copied: bool,
        settlement: Settlement,
        output: &CallOutput,
    ) {
        self.weigh(super::stored_bytes(&output.output));
        self.tool(seq, call, copied, |tool| {
            tool.state = ToolState::Settled;
            tool.settlement = Some(settlement);
            tool.output = Some(output.clone());
        });
    }

    fn tool_state(&mut self, seq: Seq, call: CallId, state: ToolState) {
        self.tool(seq, call, false, |tool| tool.state = state);
    }

    fn tool(&mut self, seq: Seq, call: CallId, copied: bool, change: impl FnOnce(&mut DraftTool)) {
        if !copied {
            self.touch(seq, call.reply);
        }
        let parts = self.drafts.values_mut().rev();
        let mut tools = parts
            .flat_map(|draft| draft.parts.iter_mut().rev())
            .filter_map(|part| match &mut part.body {
                DraftBody::Tool(tool) => Some(tool),
                DraftBody::Content(_) | DraftBody::Reply(_) | DraftBody::Summary(_) => None,
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

#[cfg(test)]
mod tests {
    use steadfast_core::command::Digest;

    use super::super::samples::shown;
    use super::*;
    use crate::event_samples::{call, queued, recorded, reply, started};

    #[test]
    fn an_approval_is_shown_with_its_call() {
        let asked = || {
            vec![
                queued("m1", "refund"),
                started(1),
                reply(
                    1,
                    vec![],
                    vec![recorded(
                        "refund",
                        Gate::Approval {
                            expires_in_ms: None,
                        },
                        Place::Local,
                    )],
                ),
                Event::ApprovalRequested {
                    approval: ApprovalId(call(3, 0)),
                    input_digest: Digest(0),
                    expires_at: None,
                },
            ]
        };
        insta::assert_snapshot!(shown(&asked()), @"
        0 m1 User turn 1 Running
            refund
        1 assistant-3 Assistant turn 1 Running
            refund 1-3-0 AwaitingApproval None None approval Some(None) late None
        ");
        let mut decided = asked();
        decided.push(Event::ApprovalDecided {
            approval: ApprovalId(call(3, 0)),
            approved: true,
            reason: Some("fine".into()),
            triage: None,
        });
        insta::assert_snapshot!(shown(&decided), @"
        0 m1 User turn 1 Running
            refund
        1 assistant-3 Assistant turn 1 Running
            refund 1-3-0 Pending None None approval Some(Some(true)) late None
        ");
    }
}
