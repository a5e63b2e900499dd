//! `GET /v1/sessions/{session}/repair`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use steadfast_runtime::sessions::{LostRow, RowState};
use utoipa::ToSchema;

use crate::app::Api;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::target::Target;

/// What a repair would give up.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Damage)]
pub(crate) struct DamageView {
    /// What is wrong: stable code.
    code: String,
    /// The same for people.
    detail: String,
    /// Number of the last event that can be read in one piece from the start.
    readable_through: u64,
    /// The rows of the log after it, in order; at most 1,000.
    rows: Vec<LostRowView>,
    /// How many more rows there are.
    rows_untold: u64,
}

/// A row of a log, which holds a Record.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LostRow)]
pub(crate) struct LostRowView {
    /// Its place in the log, by the store's own count.
    row: u64,
    /// What can be read of it.
    state: LostRowState,
    /// Number of its first event, if anything says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_seq: Option<u64>,
    /// Number of its last event, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seq: Option<u64>,
    /// Ownership generation of its writer, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// What can be read of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LostRowState {
    /// The store cannot give it.
    Unreadable,
    /// The store gives it, and it is no Record.
    Damaged,
    /// It can be read, and does not join what stands before it. Answers, ends of turns and results
    /// of calls in it are kept by a repair.
    Readable,
}

impl From<LostRow> for LostRowView {
    fn from(row: LostRow) -> Self {
        let mut view = Self {
            row: row.row,
            state: LostRowState::Unreadable,
            first_seq: None,
            last_seq: None,
            epoch: None,
            detail: None,
        };
        match row.state {
            RowState::Unreadable { detail } => view.detail = Some(detail),
            RowState::Damaged { first_seq, detail } => {
                view.state = LostRowState::Damaged;
                view.first_seq = Some(first_seq.0);
                view.detail = Some(detail);
            }
            RowState::Record {
                first_seq,
                last_seq,
                epoch,
            } => {
                view.state = LostRowState::Readable;
                view.first_seq = Some(first_seq.0);
                view.last_seq = Some(last_seq.0);
                view.epoch = Some(epoch.0);
            }
        }
        view
    }
}

/// Tells what a repair would give up.
///
/// The rows of the log of a quarantined session that do not join what can be read from its start.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/repair",
    tag = "sessions",
    params(("session" = String, Path, description = "Id of the session")),
    responses(
        (status = 200, description = "The damage", body = DamageView),
        (status = "4XX", description = "`session_not_quarantined`, `session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn damage(
    State(api): State<Api>,
    target: Target,
) -> Result<Json<DamageView>, Problem> {
    let Some(damage) = api.backend().damage(&target.session()?).await? else {
        return Err(Problem::new(
            ErrorCode::SessionNotQuarantined,
            "the session is not quarantined",
        ));
    };
    Ok(Json(DamageView {
        code: damage.code,
        detail: damage.detail,
        readable_through: damage.readable_through.0,
        rows: damage.rows.into_iter().map(LostRowView::from).collect(),
        rows_untold: damage.rows_untold,
    }))
}
