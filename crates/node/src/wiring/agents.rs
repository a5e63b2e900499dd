//! Agents as the runtime runs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use steadfast_core::command::ToolChoice;
use steadfast_core::id::AgentName;
use steadfast_core::input::ReportKind;
use steadfast_harness::native::ModelSettings;
use steadfast_harness::provider::ModelProvider;
use steadfast_runtime::agent::{Agent, Agents, AnswerSchema, LoopControl, StepRule};
use steadfast_tools::catalog::Catalog;
use steadfast_tools::definition::ToolDefinition;
use steadfast_tools::filter::ToolFilter;

use super::{mcp, providers, tools};
use crate::config::Config;
use crate::config::agent::AgentOptions;
use crate::config::webhooks::WebhookEvent;
use crate::start_error::StartError;

/// Builds all agents with their providers and tools.
pub(super) fn all(
    config: &Config,
    mut rust_tools: BTreeMap<String, Vec<ToolDefinition>>,
) -> Result<Agents, StartError> {
    let mut providers = BTreeMap::new();
    let mut agents = BTreeMap::new();
    for (name, options) in &config.agents {
        let (provider_name, model) = split(&options.model);
        if !providers.contains_key(provider_name)
            && let Some(provider) = config.providers.get(provider_name)
        {
            let built = providers::provider(provider_name, provider)?;
            providers.insert(provider_name.to_owned(), built);
        }
        let provider = providers
            .get(provider_name)
            .cloned()
            .ok_or_else(|| StartError::Setup {
                what: format!("agents.{name}.model"),
                reason: format!("no provider `{provider_name}` is configured"),
            })?;
        let own = rust_tools.remove(name).unwrap_or_default();
        let catalog = catalog(name, options, own)?;
        let name =
            AgentName::new(name.clone()).map_err(|error| StartError::setup("agent", &error))?;
        let mut agent = agent(&name, options, provider_name, model, provider, catalog)?;
        agent.policy.reports = reports(config);
        agents.insert(name, Arc::new(agent));
    }
    Ok(Arc::new(agents))
}

/// What the webhook is told of turns, if there is one.
fn reports(config: &Config) -> Vec<ReportKind> {
    let events = config.webhooks.iter().flat_map(|webhooks| &webhooks.events);
    let kind = |event: &WebhookEvent| match event {
        WebhookEvent::Waiting => ReportKind::Waiting,
        WebhookEvent::Ended => ReportKind::Ended,
    };
    events.map(kind).collect()
}

fn agent(
    name: &AgentName,
    options: &AgentOptions,
    provider_name: &str,
    model: &str,
    provider: Arc<dyn ModelProvider>,
    catalog: Catalog,
) -> Result<Agent, StartError> {
    let filter = catalog
        .admit_filter(
            options.active_tools.as_deref(),
            options.inactive_tools.as_deref(),
        )
        .map_err(|error| StartError::setup(&format!("agents.{name}"), &error))?;
    let agent = Agent {
        name: name.clone(),
        model: options.model.clone(),
        provider_name: provider_name.to_owned(),
        provider,
        settings: ModelSettings {
            model: model.to_owned(),
            instructions: options.instructions.clone(),
            tools: Arc::default(),
            output_tokens_max: options.output_tokens_max,
            options: Value::Object(options.model_options.clone()),
            tool_choice: ToolChoice::Auto,
            output_schema: None,
        },
        policy: options.policy(),
        catalog: Arc::new(catalog),
        filter,
        control: control(name, options)?,
        drive: options.drive(),
    };
    Ok(agent.offering())
}

fn control(name: &AgentName, options: &AgentOptions) -> Result<LoopControl, StartError> {
    let at = |key: &str| format!("agents.{name}.{key}");
    let schema = options.output_schema.clone().map(Value::Object);
    let answer = schema.map(AnswerSchema::new).transpose();
    let rules = options.steps.iter().map(|rule| StepRule {
        first: rule.first,
        last: rule.last,
        filter: ToolFilter::new(rule.active_tools.as_deref(), rule.inactive_tools.as_deref()),
        tool_choice: rule.tool_choice.clone(),
    });
    Ok(LoopControl {
        tool_choice: options.tool_choice.clone(),
        answer: answer.map_err(|error| StartError::setup(&at("output_schema"), &error))?,
        steps: rules.collect(),
    })
}

fn catalog(
    agent: &str,
    options: &AgentOptions,
    own: Vec<ToolDefinition>,
) -> Result<Catalog, StartError> {
    let mut builder = Catalog::builder();
    for tool in &options.tools {
        builder = builder.with(tools::definition(agent, tool)?);
    }
    for (name, server) in &options.mcp {
        builder = builder.with_source(Arc::new(mcp::server(agent, name, server)?));
    }
    builder
        .with_all(own)
        .build()
        .map_err(|source| StartError::Tools {
            agent: agent.to_owned(),
            source,
        })
}

fn split(model: &str) -> (&str, &str) {
    model.split_once('/').unwrap_or((model, ""))
}
