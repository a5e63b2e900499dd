//! `GET /v1/sessions/{session}/log`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use steadfast_core::id::Seq;
use steadfast_protocol::record::{Cause, Record};
use utoipa::ToSchema;

use crate::app::Api;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::query::{Parameters, Query};
use crate::input::target::Target;
use crate::options::Limits;
use crate::stream::frame;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1_000;
/// Records read at once.
const BATCH_RECORDS: usize = 64;
/// Events of one answer; a page ends with the Record that reaches it.
const EVENTS_MAX: u64 = 5_000;
/// Bytes of one answer; a page ends with the Record that reaches it.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// A page of a session's log.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct LogPage {
    /// In order.
    records: Vec<ShownRecord>,
    /// Give it as `after` for the next page; left out: this was the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
    /// The log cannot be read further: why. The session is quarantined.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

/// Decisions that were committed together.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Record)]
pub(crate) struct ShownRecord {
    /// Number of its first event.
    first_seq: u64,
    /// Number of its last event.
    last_seq: u64,
    /// Ownership generation of its writer.
    epoch: u64,
    /// One for each decision.
    entries: Vec<ShownEntry>,
}

/// The facts of one decision.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Entry)]
pub(crate) struct ShownEntry {
    /// What was decided about: `activate`, `command`, `effect`, `timer` or `release`.
    #[schema(value_type = Object)]
    cause: Cause,
    /// When, in milliseconds since the Unix epoch.
    at: u64,
    /// What followed, as in `events`.
    #[schema(value_type = Vec<Object>)]
    events: Vec<Value>,
}

/// Which Records to read.
pub(crate) struct Wanted {
    after: Seq,
    limit: usize,
}

impl Parameters for Wanted {
    fn read(query: &mut Query, _: &Limits) -> Result<Self, Problem> {
        Ok(Self {
            after: Seq(query.number("after")?.unwrap_or(0)),
            limit: query.limit(LIMIT_DEFAULT, LIMIT_MAX)?,
        })
    }
}

/// Reads the log, for people and tools.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/log",
    tag = "sessions",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("after" = Option<u64>, Query, description = "Only Records with events after this number"),
        ("limit" = Option<usize>, Query, description = "Records, 1 to 1000; default 100"),
    ),
    responses(
        (status = 200, description = "The Records", body = LogPage),
        (status = "4XX", description = "`session_not_found`, `query_invalid`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn log(
    State(api): State<Api>,
    target: Target<Wanted>,
) -> Result<Json<LogPage>, Problem> {
    let key = target.session()?;
    let Wanted { after, limit } = target.query;
    // A log that is corrupt further on is shown as far as it can be read, Record by Record.
    let (until, batch) = match api.backend().load(&key).await {
        Ok(session) => (session.seq, BATCH_RECORDS),
        Err(problem) if problem.code() == ErrorCode::SessionQuarantined => (Seq(u64::MAX), 1),
        Err(problem) => return Err(problem),
    };
    let mut page = LogPage::default();
    let (mut cursor, mut events, mut size_bytes) = (after, 0, 0);
    'page: while cursor < until && page.records.len() < limit {
        let batch = (limit - page.records.len()).min(batch);
        let read = match api.backend().records(&key, cursor, batch).await {
            Ok(read) => read,
            Err(problem) if problem.code() == ErrorCode::SessionQuarantined => {
                page.unreadable = Some(problem.body().detail);
                return Ok(Json(page));
            }
            Err(problem) => return Err(problem),
        };
        if read.is_empty() {
            cursor = until;
        }
        for record in read {
            cursor = record.last_seq();
            events += record.events();
            let (shown, bytes) = shown(&record).map_err(|error| not_shown(&error))?;
            size_bytes += bytes;
            page.records.push(shown);
            if events >= EVENTS_MAX || size_bytes >= BYTES_MAX {
                break 'page;
            }
        }
    }
    page.next = (cursor < until).then_some(cursor.0);
    Ok(Json(page))
}

/// A Record for people, and about how many bytes it has.
fn shown(record: &Record) -> Result<(ShownRecord, usize), serde_json::Error> {
    let mut seq = record.first_seq;
    let mut size_bytes = 0;
    let mut entries = Vec::with_capacity(record.entries.len());
    for entry in &record.entries {
        let mut events = Vec::with_capacity(entry.events.len());
        for event in &entry.events {
            let (value, bytes) = frame::event_value(seq, entry.at, record.epoch, event)?;
            size_bytes += bytes;
            events.push(value);
            seq = seq.next();
        }
        entries.push(ShownEntry {
            cause: entry.cause.clone(),
            at: entry.at.0,
            events,
        });
    }
    let shown = ShownRecord {
        first_seq: record.first_seq.0,
        last_seq: record.last_seq().0,
        epoch: record.epoch.0,
        entries,
    };
    Ok((shown, size_bytes))
}

fn not_shown(error: &serde_json::Error) -> Problem {
    tracing::error!(%error, "event could not be encoded");
    Problem::new(ErrorCode::Internal, "an event could not be encoded")
}
