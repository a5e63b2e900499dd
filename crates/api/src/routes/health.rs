//! `GET /healthz` and `GET /readyz`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::Api;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::query::Asked;

/// That something is well.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`
    status: &'static str,
}

/// Says that the process lives.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "node",
    security(()),
    responses((status = 200, description = "It does", body = Health)),
)]
pub(crate) async fn healthz(_: Asked) -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Says that the node takes requests: its store answers, and it is not shutting down.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "node",
    security(()),
    responses(
        (status = 200, description = "It does", body = Health),
        (status = 503, description = "`draining`, `store_unavailable`, `timed_out`", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn readyz(State(api): State<Api>, _: Asked) -> Result<Json<Health>, Problem> {
    if api.shutdown().is_cancelled() {
        return Err(Problem::new(
            ErrorCode::Draining,
            "the node is shutting down",
        ));
    }
    api.backend().probe().await?;
    Ok(Json(Health { status: "ok" }))
}
