//! Tools that act on the outside, and then answer, or do not.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use steadfast_core::content::{CallOutput, ToolOutput};
use steadfast_core::id::AgentName;
use steadfast_core::input::{CallOutcome, CheckAnswer, InDoubtPolicy, Place, ReplayRule};
use steadfast_tools::catalog::{Catalog, CatalogError};
use steadfast_tools::spec::{Approval, ToolSpec};
use steadfast_tools::worker::{Job, ToolIo, ToolWorker};

use super::setup::{Mistake, Setup};
use super::world::{Part, World};
use crate::invariants::Seen;

/// Name, rule, and what is special about each tool.
const TOOLS: [(&str, ReplayRule, Special); 12] = [
    ("safe", ReplayRule::Safe, Special::Nothing),
    ("safe_exclusive", ReplayRule::Safe, Special::Exclusive),
    ("keyed", ReplayRule::Keyed, Special::Nothing),
    ("never", ReplayRule::Never, Special::Nothing),
    ("never_checked", ReplayRule::Never, Special::Check),
    ("never_waits", ReplayRule::Never, Special::Waits),
    ("never_asks", ReplayRule::Never, Special::Approval),
    ("keyed_narrow", ReplayRule::Keyed, Special::Narrow),
    ("client", ReplayRule::Never, Special::Client),
    ("keyed_remote", ReplayRule::Keyed, Special::Remote),
    ("never_remote", ReplayRule::Never, Special::Remote),
    (
        "never_remote_waits",
        ReplayRule::Never,
        Special::RemoteWaits,
    ),
];

/// The tools of a run.
pub(super) fn tools(
    setup: &Setup,
) -> impl Iterator<Item = &'static (&'static str, ReplayRule, Special)> {
    let remote = setup.remote;
    let is_offered =
        move |special| remote || !matches!(special, Special::Remote | Special::RemoteWaits);
    TOOLS
        .iter()
        .filter(move |(_, _, special)| is_offered(*special))
}

/// The simulated agent.
pub(super) fn agent() -> Option<AgentName> {
    AgentName::new("agent").ok()
}

/// What is special about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    Nothing,
    Exclusive,
    Check,
    Waits,
    Approval,
    Narrow,
    Client,
    Remote,
    RemoteWaits,
}

/// The catalog of the simulated agent.
pub(super) fn catalog(world: &World) -> Result<Catalog, CatalogError> {
    let worker = Arc::new(SimulatedTool {
        world: world.clone(),
    });
    let mut builder = Catalog::builder();
    for &(name, replay, special) in tools(&world.setup) {
        let schema = json!({ "type": "object", "properties": { "of": { "type": "string" } } });
        let mut spec = ToolSpec::new(name, "a simulated tool", schema);
        spec.replay = replay;
        spec.deadline_ms = 30_000;
        spec.attempts_max = if replay == ReplayRule::Never { 1 } else { 3 };
        match special {
            Special::Nothing => {}
            Special::Exclusive => spec.exclusive = true,
            Special::Check => spec.check = true,
            Special::Waits => spec.in_doubt = InDoubtPolicy::Wait,
            Special::Approval => {
                spec.approval = Approval::UserApproval;
                spec.approval_expires_ms = Some(120_000);
            }
            Special::Narrow => spec.concurrency_max = 1,
            Special::Client => {}
            Special::Remote | Special::RemoteWaits => {
                spec.place = Place::Remote;
                spec.deadline_ms = 60_000;
                if special == Special::RemoteWaits {
                    spec.in_doubt = InDoubtPolicy::Wait;
                }
            }
        }
        builder = if special == Special::Client {
            builder.with(steadfast_tools::definition::ToolDefinition::client_side(
                spec.name,
                spec.description,
                spec.input_schema,
            ))
        } else {
            builder.tool(spec, worker.clone())
        };
    }
    builder.build()
}

struct SimulatedTool {
    world: World,
}

#[async_trait]
impl ToolWorker for SimulatedTool {
    async fn run(&self, job: Job, io: ToolIo) -> CallOutcome {
        let called = self.of(&job);
        let world = &called.world;
        world.note(format!(
            "{} {} attempt {} starts",
            job.session.session, job.call, job.attempt
        ));
        let broken = world.with_log(&job.session, |log, begun| (log.clone(), begun.to_vec()));
        let seen = Seen::ToolStarted {
            job: &job,
            log: &broken.0,
            begun: &broken.1,
        };
        world.saw(&job.session, &seen);
        let work = called.work(&job);
        tokio::pin!(work);
        tokio::select! { biased;
            outcome = &mut work => return outcome,
            () = io.cancelled.cancelled() => {}
        }
        // It may stop at once, or go on and answer all the same. That it was told to stop is no
        // fault of its own: whoever told it has a reason, or is at fault.
        if world.chance(50) {
            return called.unknown("cancelled");
        }
        work.await
    }

    async fn check(&self, job: Job) -> CheckAnswer {
        let called = self.of(&job);
        called.world.pause(100).await;
        if called.world.chance(20) {
            return CheckAnswer::Unknown;
        }
        if self.world.check(&job.session, job.call, job.fence()) {
            let output = called.answer(&job);
            return CheckAnswer::Done(output);
        }
        CheckAnswer::NotDone
    }
}

impl SimulatedTool {
    fn of(&self, job: &Job) -> Self {
        Self {
            world: self.world.of(&job.session, Part::Tool),
        }
    }

    async fn work(&self, job: &Job) -> CallOutcome {
        let world = &self.world;
        world.pause(500).await;
        if !world.is_calm() && world.chance(8) {
            let retry_after_ms = world.chance(30).then(|| world.draw(5_000));
            return CallOutcome::Retry {
                detail: "busy".into(),
                retry_after_ms,
            };
        }
        let Some(times) = world.act(&job.session, job.call, job.fence()) else {
            let detail = "it was asked about, and said not to have happened".to_owned();
            return CallOutcome::Retry {
                detail,
                retry_after_ms: None,
            };
        };
        let repeatable = !job.tool.starts_with("never");
        let seen = Seen::ToolActed {
            call: job.call,
            repeatable,
            times,
        };
        world.saw(&job.session, &seen);
        world.pause(500).await;
        if !world.is_calm() && world.chance(8) {
            return self.silence(job, "timeout");
        }
        if !world.is_calm() && world.chance(3) {
            // Longer than its deadline.
            let _ = self.silence(job, "hangs");
            tokio::time::sleep(Duration::from_secs(45)).await;
        }
        if !world.is_calm() && world.chance(3) {
            let _ = self.silence(job, "panics");
            panic_as_a_tool_does();
        }
        CallOutcome::Done(self.answer(job))
    }

    fn silence(&self, job: &Job, detail: &str) -> CallOutcome {
        let seen = Seen::ToolAnswered {
            call: job.call,
            output: None,
        };
        self.world.saw(&job.session, &seen);
        self.unknown(detail)
    }

    fn unknown(&self, detail: &str) -> CallOutcome {
        if self.world.setup.mistake == Some(Mistake::UnknownToldAsFailed) {
            return CallOutcome::Retry {
                detail: detail.into(),
                retry_after_ms: None,
            };
        }
        CallOutcome::Unknown {
            detail: detail.into(),
        }
    }

    fn answer(&self, job: &Job) -> CallOutput {
        let output = match self.world.draw(10) {
            0 => ToolOutput::error("it did not work"),
            1 => ToolOutput::text("y".repeat(50_000)),
            _ => ToolOutput::Json {
                value: json!({ "call": job.call, "n": self.world.draw(1_000) }),
            },
        };
        let output = CallOutput::from(output);
        let seen = Seen::ToolAnswered {
            call: job.call,
            output: Some(&output),
        };
        self.world.saw(&job.session, &seen);
        output
    }
}

/// A tool's bug, which must cost its own call only; unwound without a word on standard error.
fn panic_as_a_tool_does() {
    std::panic::resume_unwind(Box::new("a simulated tool panics"));
}
