//! What becomes of a call before it runs.

use serde_json::Value;
use steadfast_core::content::{CallInput, ToolOutput};
use steadfast_core::input::{CallTriage, Gate, InDoubtPolicy, Place, ReplayRule};
use steadfast_core::limits::DETAIL_BYTES_MAX;

use crate::catalog::{Catalog, Tool};
use crate::cut::cut;
use crate::filter::ToolFilter;
use crate::spec::{Approval, ToolKind};

/// Whether a person has agreed to a call already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    NotAsked,
    Given,
}

impl Catalog {
    /// What becomes of a call that a model asks for. A call that may not run carries what the
    /// model is told instead. No slot is reserved yet.
    pub fn triage(&self, tool: &str, input: &CallInput, filter: &ToolFilter) -> CallTriage {
        self.triage_with(tool, input, filter, Agreement::NotAsked)
    }

    /// The same for a call to which a person has just agreed: it runs unless its tool is gone,
    /// inactive or denied, or its recorded input no longer fits.
    pub fn triage_agreed(&self, tool: &str, input: &CallInput, filter: &ToolFilter) -> CallTriage {
        self.triage_with(tool, input, filter, Agreement::Given)
    }

    fn triage_with(
        &self,
        name: &str,
        input: &CallInput,
        filter: &ToolFilter,
        agreement: Agreement,
    ) -> CallTriage {
        match self.get(name) {
            Some(tool) => {
                let gate = if tool.spec.kind == ToolKind::ProviderExecuted {
                    // It is offered so that the provider runs it, and never comes here as a call.
                    refused("the model's provider runs this tool itself, nothing was done here")
                } else if filter.allows(name) {
                    tool.gate(input, agreement)
                } else {
                    denied("this tool is not active")
                };
                tool.triage(gate)
            }
            None => CallTriage {
                gate: self.unknown_tool(name, filter),
                rule: ReplayRule::Never,
                place: Place::Local,
                in_doubt: InDoubtPolicy::TellModel,
                has_check: false,
                exclusive: false,
                deadline_ms: 0,
                attempts_max: 1,
                slot: false,
                agent: None,
            },
        }
    }

    fn unknown_tool(&self, name: &str, filter: &ToolFilter) -> Gate {
        let offered = self.offered(filter);
        if let Some(source) = self.source_of(name) {
            let state = &source.stock().state;
            return refused(&format!(
                "there is no tool named {:?} now, nothing was done: {}",
                cut(name, 64),
                state.of(source.name())
            ));
        }
        let offered: Vec<&str> = offered.iter().map(|tool| tool.spec.name.as_str()).collect();
        refused(&format!(
            "there is no tool named {:?}, nothing was done; the tools are: {}",
            cut(name, 64),
            offered.join(", ")
        ))
    }
}

impl Tool {
    fn gate(&self, input: &CallInput, agreement: Agreement) -> Gate {
        let input = match input {
            CallInput::Json(input) => input,
            CallInput::Malformed { error, .. } => {
                return refused(&format!(
                    "the arguments are not JSON, nothing was done: {error}"
                ));
            }
        };
        if let Err(violation) = self.input.check(input) {
            return refused(&format!("invalid arguments, nothing was done: {violation}"));
        }
        match (self.approval_of(input), agreement) {
            (Approval::NotApplicable | Approval::Approved, _)
            | (Approval::UserApproval, Agreement::Given) => Gate::Open,
            (Approval::UserApproval, Agreement::NotAsked) => Gate::Approval {
                expires_in_ms: self.spec.approval_expires_ms,
            },
            (Approval::Denied, _) => denied("this call is not allowed by policy"),
        }
    }

    fn approval_of(&self, input: &Value) -> Approval {
        match &self.policy {
            Some(policy) => policy.decide(input),
            None => self.spec.approval,
        }
    }

    fn triage(&self, gate: Gate) -> CallTriage {
        CallTriage {
            gate,
            rule: self.spec.replay,
            place: self.spec.place,
            in_doubt: self.spec.in_doubt,
            has_check: self.spec.check,
            exclusive: self.spec.exclusive,
            deadline_ms: self.spec.deadline_ms,
            attempts_max: self.spec.attempts_max,
            slot: false,
            agent: self.spec.agent.clone(),
        }
    }
}

fn refused(words: &str) -> Gate {
    Gate::Refused {
        output: ToolOutput::error(cut(words, DETAIL_BYTES_MAX)),
    }
}

fn denied(reason: &str) -> Gate {
    Gate::Refused {
        output: ToolOutput::ExecutionDenied {
            reason: Some(reason.to_owned()),
        },
    }
}
