//! Configured tools: HTTP endpoints, programs, what the client runs, what workers elsewhere run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use steadfast_core::id::AgentName;
use steadfast_core::input::{InDoubtPolicy, ReplayRule};
use steadfast_tools::command::CommandTool;
use steadfast_tools::definition::ToolDefinition;
use steadfast_tools::http::HttpTool;
use steadfast_tools::spec::{Approval, ProviderType, ToolSpec};

use crate::config::secret::{Secret, SecretError};
use crate::config::tool::{
    ApprovalKind, CommandOptions, HttpOptions, InDoubtKind, ReplayKind, ToolOptions, any_object,
};
use crate::start_error::StartError;

/// One tool of an agent.
pub(super) fn definition(agent: &str, options: &ToolOptions) -> Result<ToolDefinition, StartError> {
    let what = format!("agents.{agent}, tool `{}`", options.name);
    let failed = |error: &dyn std::error::Error| StartError::setup(&what, error);
    let input_schema = Value::Object(options.input_schema.clone());
    if options.client {
        let tool = ToolDefinition::client_side(&options.name, &options.description, input_schema);
        return Ok(limited(tool, options));
    }
    if let Some(name) = &options.agent {
        let name = AgentName::new(name.clone()).map_err(|error| failed(&error))?;
        return Ok(sub_agent(options, name));
    }
    let provider = options.provider.as_ref().map(|id| ProviderType {
        id: id.clone(),
        options: Value::Object(options.provider_options.clone()),
    });
    let defined = |tool: ToolDefinition| match &provider {
        Some(provider) => tool.provider_defined(provider.clone()),
        None => tool,
    };
    let spec = ToolSpec {
        replay: rule(options.replay),
        check: options.check,
        ..ToolSpec::new(&options.name, &options.description, input_schema.clone())
    };
    if let Some(http) = &options.http {
        let worker = HttpTool::new(http_options(http).map_err(|error| failed(&error))?)
            .map_err(|error| failed(&error))?;
        let tool = ToolDefinition::with_worker(spec, Arc::new(worker));
        return Ok(limited(placed(defined(tool), options), options));
    }
    if let Some(command) = &options.command {
        let worker = CommandTool::new(command_options(command).map_err(|error| failed(&error))?)
            .map_err(|error| failed(&error))?;
        let tool = ToolDefinition::with_worker(spec, Arc::new(worker));
        return Ok(limited(placed(defined(tool), options), options));
    }
    if options.remote {
        let tool = ToolDefinition::remote(&options.name, &options.description, input_schema);
        let tool = if options.check { tool.checked() } else { tool };
        return Ok(limited(defined(tool), options));
    }
    if let Some(provider) = provider {
        let (name, description) = (&options.name, &options.description);
        return Ok(ToolDefinition::provider_executed(
            name,
            description,
            provider,
        ));
    }
    Err(StartError::Setup {
        what,
        reason: "nothing runs it: give it `http`, `command`, `client = true` or `remote = true`"
            .to_owned(),
    })
}

/// Another agent as a tool.
fn sub_agent(options: &ToolOptions, agent: AgentName) -> ToolDefinition {
    let mut tool = ToolDefinition::agent(&options.name, &options.description, agent)
        .approval(approval(options.approval));
    if options.input_schema != any_object() {
        tool = tool.input_schema(Value::Object(options.input_schema.clone()));
    }
    if let Some(deadline) = options.deadline {
        tool = tool.deadline(deadline.get());
    }
    if let Some(after) = options.approval_expires_after {
        tool = tool.approval_expires(after.get());
    }
    if options.exclusive {
        tool = tool.exclusive();
    }
    tool
}

/// Where its calls run: here, or as jobs of whichever node has room.
fn placed(tool: ToolDefinition, options: &ToolOptions) -> ToolDefinition {
    if options.remote {
        tool.remotely()
    } else {
        tool
    }
}

/// The options that all kinds of tools have.
fn limited(mut tool: ToolDefinition, options: &ToolOptions) -> ToolDefinition {
    let rule = rule(options.replay);
    tool = tool
        .replay(rule)
        .in_doubt(match options.in_doubt {
            InDoubtKind::TellModel => InDoubtPolicy::TellModel,
            InDoubtKind::Wait => InDoubtPolicy::Wait,
        })
        .approval(approval(options.approval))
        .attempts_max(
            options
                .attempts_max
                .unwrap_or_else(|| ToolSpec::attempts_max_of(rule)),
        )
        .concurrency_max(options.concurrency_max);
    if let Some(deadline) = options.deadline {
        tool = tool.deadline(deadline.get());
    }
    if let Some(after) = options.approval_expires_after {
        tool = tool.approval_expires(after.get());
    }
    if options.exclusive {
        tool = tool.exclusive();
    }
    if let Some(schema) = &options.output_schema {
        tool = tool.output_schema(Value::Object(schema.clone()));
    }
    tool
}

pub(super) fn approval(kind: ApprovalKind) -> Approval {
    match kind {
        ApprovalKind::NotApplicable => Approval::NotApplicable,
        ApprovalKind::Approved => Approval::Approved,
        ApprovalKind::UserApproval => Approval::UserApproval,
        ApprovalKind::Denied => Approval::Denied,
    }
}

pub(super) fn rule(kind: ReplayKind) -> ReplayRule {
    match kind {
        ReplayKind::Safe => ReplayRule::Safe,
        ReplayKind::Keyed => ReplayRule::Keyed,
        ReplayKind::Never => ReplayRule::Never,
    }
}

fn http_options(options: &HttpOptions) -> Result<steadfast_tools::http::HttpOptions, SecretError> {
    Ok(steadfast_tools::http::HttpOptions {
        headers: revealed(&options.headers)?,
        timeout_ms: options.timeout.map(|timeout| timeout.as_ms()),
        ..steadfast_tools::http::HttpOptions::new(&options.url)
    })
}

pub(super) fn command_options(
    options: &CommandOptions,
) -> Result<steadfast_tools::command::CommandOptions, SecretError> {
    Ok(steadfast_tools::command::CommandOptions {
        args: options.args.clone(),
        directory: options.directory.clone(),
        env: revealed(&options.env)?,
        env_passed: options.env_passed.clone(),
        ..steadfast_tools::command::CommandOptions::new(&options.program)
    })
}

/// The values with those that name a secret's place read from there.
pub(super) fn revealed(
    values: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, SecretError> {
    let reveal = |(name, value): (&String, &String)| {
        let value = match value.parse::<Secret>() {
            Ok(secret) => secret.read()?.expose().to_owned(),
            Err(_) => value.clone(),
        };
        Ok((name.clone(), value))
    };
    values.iter().map(reveal).collect()
}
