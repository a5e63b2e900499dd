//! Looks at agents, their tools and, when asked, their models.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use steadfast_core::id::{SessionId, SessionKey, TenantId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Finding, remedy};
use crate::config::Config;
use crate::config::tool::{ReplayKind, ToolOptions};
use crate::wiring;

/// How long a model may take for one word.
const PROBE_PATIENCE: Duration = Duration::from_secs(60);

/// What the configuration says about tools, without asking them anything.
pub(super) fn look(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, agent) in &config.agents {
        let subject = format!("agent {name}");
        let count = agent.tools.len();
        findings.push(Finding::good(
            &subject,
            format!("model {}, {count} tools", agent.model),
        ));
        let never: Vec<&ToolOptions> = agent
            .tools
            .iter()
            .filter(|tool| tool.replay == ReplayKind::Never && !tool.client && tool.agent.is_none())
            .collect();
        if !never.is_empty() {
            let names: Vec<&str> = never.iter().map(|tool| tool.name.as_str()).collect();
            findings.push(Finding::doubtful(
                &subject,
                format!("never run again after a crash: {}", names.join(", ")),
                "say replay = \"safe\" of tools that change nothing, \"keyed\" of tools that dedupe by Idempotency-Key; give the rest a check where they can tell what happened",
            ));
        }
        findings.extend(
            agent
                .tools
                .iter()
                .filter_map(|tool| program(&subject, tool)),
        );
    }
    let used: BTreeSet<&str> = config
        .agents
        .values()
        .filter_map(|agent| Some(agent.model.split_once('/')?.0))
        .collect();
    for name in config
        .providers
        .keys()
        .filter(|name| !used.contains(name.as_str()))
    {
        findings.push(Finding::doubtful(
            format!("provider {name}"),
            "no agent uses it, so its key was not looked at",
            "name it in an agent's model, or leave the section out",
        ));
    }
    findings
}

/// A program that is not there.
fn program(subject: &str, tool: &ToolOptions) -> Option<Finding> {
    let program = Path::new(&tool.command.as_ref()?.program);
    let found = if program.components().count() > 1 {
        program.is_file()
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    };
    (!found).then(|| {
        Finding::bad(
            subject,
            format!(
                "tool {}: program `{}` is not there",
                tool.name,
                program.display()
            ),
            "install it, or give its whole path",
        )
    })
}

/// Asks each model for one word.
pub(super) async fn probe(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let models: BTreeSet<&str> = config
        .agents
        .values()
        .map(|agent| agent.model.as_str())
        .collect();
    for model in models {
        let subject = format!("model {model}");
        findings.push(match ask(config, model).await {
            Ok(ms) => Finding::good(
                subject,
                format!("answered in {}", crate::terminal::took(ms)),
            ),
            Err(unanswered) => Finding::bad(subject, unanswered.reason, unanswered.remedy),
        });
    }
    findings
}

/// Why a model did not answer.
struct Unanswered {
    reason: String,
    remedy: String,
}

impl Unanswered {
    fn of_setting(reason: impl ToString, remedy: &str) -> Self {
        Self {
            reason: reason.to_string(),
            remedy: remedy.to_owned(),
        }
    }
}

async fn ask(config: &Config, model: &str) -> Result<u64, Unanswered> {
    let form =
        "write model of the agent as \"PROVIDER/MODEL\", with a section [providers.PROVIDER]";
    let (name, model) = model
        .split_once('/')
        .ok_or_else(|| Unanswered::of_setting("not of the form provider/model", form))?;
    let options = config
        .providers
        .get(name)
        .ok_or_else(|| Unanswered::of_setting("no such provider", form))?;
    let provider = wiring::provider(name, options)
        .map_err(|error| Unanswered::of_setting(error, "see the message"))?;
    let id = |error: steadfast_core::id::InvalidId| Unanswered::of_setting(error, "try again");
    let session = SessionKey {
        tenant: TenantId::new("default").map_err(id)?,
        session: SessionId::new("doctor").map_err(id)?,
    };
    let request = wiring::one_word(session, model);
    let (deltas, mut heard) = mpsc::channel(64);
    let start = std::time::Instant::now();
    let reply = provider.reply(request, deltas, CancellationToken::new());
    let drained = async { while heard.recv().await.is_some() {} };
    let both = async { tokio::join!(reply, drained).0 };
    let (reason, code) = match tokio::time::timeout(PROBE_PATIENCE, both).await {
        Ok(Ok(_)) => return Ok(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)),
        Ok(Err(failure)) => (
            format!("{} ({})", failure.message, failure.code),
            failure.code,
        ),
        Err(_) => ("no answer within a minute".to_owned(), "silent".to_owned()),
    };
    Err(Unanswered {
        reason,
        remedy: remedy::of(&code, name, model, options),
    })
}
