//! `GET /v1/sessions/{session}/blobs/{hash}`

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::app::Api;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::target::Target;

/// Reads content that is too large for the log.
///
/// Events and messages name it by hash. It is the JSON of the value in whose place the name stands.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/blobs/{hash}",
    tag = "sessions",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("hash" = String, Path, description = "64 hexadecimal digits"),
    ),
    responses(
        (status = 200, description = "The value", body = Object, content_type = "application/json"),
        (status = "4XX", description = "`blob_not_found`, `session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get(State(api): State<Api>, target: Target) -> Result<Response, Problem> {
    let key = target.session()?;
    let hash = target.param("hash")?;
    api.backend().load(&key).await?;
    let bytes = api
        .backend()
        .blob(&key, hash)
        .await?
        .ok_or_else(|| Problem::new(ErrorCode::BlobNotFound, "the session has no such blob"))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
}
