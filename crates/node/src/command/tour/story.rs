//! The durable turn: asked for once, killed three times, followed to its end.

use std::path::Path;

use serde_json::json;
use steadfast_core::content::{CallOutput, Stored, ToolOutput};
use steadfast_core::event::{Event, Settlement, TurnOutcome};

use super::node::TourNode;
use super::report::Report;
use super::tool_server::{Arrival, Side, ToolServer};
use super::{Tool, in_time};
use crate::client::{Follow, Happening};

const SESSION: &str = "tour";

/// What the turn left behind.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// Requests that reached the tools.
    pub(crate) arrivals: Vec<Arrival>,
    /// How each call ended and what the model was told, in the order of the calls.
    pub(crate) told: Vec<(Tool, Settlement, String)>,
    /// Crashes that the log counted.
    pub(crate) crashes: usize,
    /// The events' numbers are 1, 2, 3, ... without gap or repetition.
    pub(crate) gapless: bool,
    /// The turn ended with an answer.
    pub(crate) completed: bool,
}

impl Story {
    /// Plays it.
    pub(crate) async fn play(
        folder: &Path,
        tools: &ToolServer,
        report: &mut Report,
    ) -> anyhow::Result<Self> {
        let mut node = TourNode::start(folder, tools).await?;
        report.node_started();
        let body = json!({ "id": "message-1", "agent": "tour", "content": script() });
        let path = format!("/v1/sessions/{SESSION}/messages");
        node.client().command(&path, &body).await?;
        report.asked();
        for tool in Tool::ALL {
            let what = format!("the call of {}", tool.name());
            let first = in_time(&what, tools.arrival(Side::Durable, tool, 1)).await??;
            report.request(&first, 1);
            node.kill().await?;
            report.killed(tool);
            node.start_again().await?;
            report.started_again();
            if tool != Tool::SendRefund {
                let second = in_time(&what, tools.arrival(Side::Durable, tool, 2)).await??;
                report.request(&second, 2);
            }
        }
        let mut story = in_time("the end of the turn", Self::read(&node)).await??;
        story.arrivals = tools.arrivals(Side::Durable);
        report.answered(&story);
        node.kill().await?;
        Ok(story)
    }

    /// Reads the session's events up to the end of its turn.
    async fn read(node: &TourNode) -> anyhow::Result<Self> {
        let mut story = Self {
            gapless: true,
            ..Self::default()
        };
        let mut follow = Follow::after(node.client(), SESSION, 0);
        let mut calls = Vec::new();
        let mut next = 1;
        loop {
            let Happening::Committed { seq, event, .. } = follow.next().await? else {
                continue;
            };
            story.gapless &= seq == next;
            next = seq + 1;
            match *event {
                Event::ModelReplied { calls: asked, .. } => {
                    calls.extend(asked.iter().filter_map(|call| Tool::named(&call.tool)));
                }
                Event::TurnCrashed { .. } => story.crashes += 1,
                Event::CallSettled {
                    settlement, output, ..
                } => {
                    // The script asks for one call a step: the newest is the one that ended.
                    if let Some(tool) = calls.last() {
                        story.told.push((*tool, settlement, told(&output)));
                    }
                }
                Event::TurnEnded { outcome, .. } => {
                    story.completed = matches!(outcome, TurnOutcome::Completed { .. });
                    return Ok(story);
                }
                _ => {}
            }
        }
    }
}

/// What the scripted model does: three calls, one after the other, then an answer.
fn script() -> String {
    let mut steps: Vec<serde_json::Value> = Tool::ALL
        .into_iter()
        .map(|tool| json!({ "tool": tool.name(), "input": { "order": "A-17" } }))
        .collect();
    steps.push(json!({ "text": "The return of order A-17 is taken care of." }));
    format!("SCRIPT: {}", serde_json::Value::Array(steps))
}

fn told(output: &CallOutput) -> String {
    let said = match (&output.model_view, &output.output) {
        (Some(view), _) => view.as_ref(),
        (None, Stored::Inline(said)) => said,
        (None, Stored::Blob(_)) => return "[a large result]".to_owned(),
    };
    match said {
        ToolOutput::Text { text } | ToolOutput::ErrorText { text } => text.clone(),
        ToolOutput::Json { value } | ToolOutput::ErrorJson { value } => value.to_string(),
        ToolOutput::Content { .. } => "[parts]".to_owned(),
        ToolOutput::ExecutionDenied { .. } => "[denied]".to_owned(),
    }
}
