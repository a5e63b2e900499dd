//! `GET /openapi.json`

use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::error::{ErrorCode, Problem};
use crate::input::query::Asked;
use crate::openapi;

/// The description of this surface.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "node",
    security(()),
    responses((status = 200, description = "An OpenAPI 3.1 document", body = Object, content_type = "application/json")),
)]
pub(crate) async fn document(_: Asked) -> Result<Response, Problem> {
    let text = openapi::text().map_err(|error| {
        tracing::error!(%error, "the description could not be written");
        Problem::new(ErrorCode::Internal, "the description could not be written")
    })?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}
