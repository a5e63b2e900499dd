//! `GET /v1/agents` and `GET /v1/agents/{agent}`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Value, json};
use steadfast_core::id::AgentName;
use steadfast_runtime::agent::Agent;
use utoipa::ToSchema;

use crate::app::Api;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::query::Asked;
use crate::input::target::Target;

/// The configured agents.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentList {
    /// Ordered by name.
    agents: Vec<AgentView>,
}

/// A configured agent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Agent)]
pub(crate) struct AgentView {
    /// Its name.
    name: String,
    /// `provider/model`, as configured.
    model: String,
    /// Name of the provider's section in the configuration.
    provider: String,
    /// What runs its loop.
    harness: &'static str,
    /// `on`, or `strict`: every call waits for the log.
    #[schema(value_type = String)]
    durability: Value,
    /// Its tools: `name`, `description`, `input_schema`, `kind`, `place`, `replay`, `check`,
    /// `in_doubt`, `approval`, `exclusive`, limits, and whether it is `active`.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Value>,
}

impl AgentView {
    fn of(agent: &Agent) -> Self {
        let tools = agent.catalog.listing(&agent.filter);
        Self {
            name: agent.name.to_string(),
            model: agent.model.clone(),
            provider: agent.provider_name.clone(),
            harness: "native",
            durability: json!(agent.policy.durability),
            tools: tools.iter().map(|tool| json!(tool)).collect(),
        }
    }
}

/// Lists the configured agents.
#[utoipa::path(
    get,
    path = "/v1/agents",
    tag = "agents",
    responses(
        (status = 200, description = "The agents", body = AgentList),
        (status = "4XX", description = "`unauthorized`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(State(api): State<Api>, _: Asked) -> Json<AgentList> {
    let agents = api.backend().agents().values();
    let agents = agents.map(|agent| AgentView::of(agent)).collect();
    Json(AgentList { agents })
}

/// Shows an agent.
#[utoipa::path(
    get,
    path = "/v1/agents/{agent}",
    tag = "agents",
    params(("agent" = String, Path, description = "Name of the agent")),
    responses(
        (status = 200, description = "The agent", body = AgentView),
        (status = "4XX", description = "`agent_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    target: Target,
) -> Result<Json<AgentView>, Problem> {
    let name: AgentName = target.param("agent")?;
    let agent = api.backend().agents().get(&name).ok_or_else(|| {
        let detail = format!("there is no agent `{name}`");
        Problem::new(ErrorCode::AgentNotFound, detail)
    })?;
    Ok(Json(AgentView::of(agent)))
}
