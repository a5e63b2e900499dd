//! `POST /v1/sessions/{session}/compact`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use steadfast_core::command::CommandBody;
use utoipa::ToSchema;

use super::command::{self, CommandAnswer};
use crate::app::Api;
use crate::error::{Problem, ProblemBody};
use crate::input::body::OptionalBody;
use crate::input::target::{CommandKey, Target};

/// Takes no fields.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompactBody {}

/// Has the history summarised now.
///
/// The answer says that the compaction is wanted; the event `transcript_compacted` says that it is
/// done. The log keeps everything.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session}/compact",
    tag = "sessions",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("Idempotency-Key" = Option<String>, Header, description = "Id of the command: the same again is not done twice"),
    ),
    request_body(content = Option<CompactBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "The compaction is wanted", body = CommandAnswer),
        (status = 202, description = "The command is durable and will be decided", body = CommandAnswer),
        (status = "4XX", description = "`nothing_to_compact`, `session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn compact(
    State(api): State<Api>,
    target: Target,
    CommandKey(id): CommandKey,
    OptionalBody(CompactBody {}): OptionalBody<CompactBody>,
) -> Result<(StatusCode, Json<CommandAnswer>), Problem> {
    command::send(&api, &target.session()?, id, CommandBody::Compact).await
}
