//! `GET /v1/sessions/{session}/messages`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use steadfast_core::session::Session;
use utoipa::ToSchema;

use crate::app::Api;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::query::{self, Parameters, Query};
use crate::input::target::Target;
use crate::messages::load::Loader;
use crate::messages::page::{self, Window};
use crate::messages::view::{Message, Part};
use crate::options::Limits;

const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 200;

/// A page of the conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageList {
    /// Oldest first.
    messages: Vec<Message>,
    /// Messages that wait for their turn, in the order in which they run.
    queued: Vec<QueuedMessage>,
    /// Number of the event up to which this is: the cursor for `events`.
    seq: u64,
    /// Give it as `before` for the page before; left out: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<usize>,
    /// Give it as `after` for the page after; left out: there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<usize>,
}

/// A message that waits for its turn.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueuedMessage {
    /// Its id.
    id: String,
    /// The turn it will be, unless it joins another.
    turn_id: u64,
    /// What it says.
    parts: Vec<Part>,
}

/// Which messages to read.
pub(crate) struct Wanted {
    window: Window,
    limit: usize,
}

impl Parameters for Wanted {
    fn read(query: &mut Query, _: &Limits) -> Result<Self, Problem> {
        let position = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let window = match (query.number("before")?, query.number("after")?) {
            (None, None) => Window::Newest,
            (Some(before), None) => Window::Before(position(before)),
            (None, Some(after)) => Window::After(position(after)),
            (Some(_), Some(_)) => {
                let rule = "it does not go together with `before`";
                return Err(query::invalid("after", rule));
            }
        };
        let limit = query.limit(LIMIT_DEFAULT, LIMIT_MAX)?;
        Ok(Self { window, limit })
    }
}

/// Reads the conversation.
///
/// Without `before` and `after` it is the newest page. Positions never change, except that a
/// message that replaces an earlier one takes away all from that one on.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/messages",
    tag = "messages",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("before" = Option<usize>, Query, description = "Only messages before this position, the newest of them"),
        ("after" = Option<usize>, Query, description = "Only messages after this position, the oldest of them"),
        ("limit" = Option<usize>, Query, description = "1 to 200; default 50"),
    ),
    responses(
        (status = 200, description = "The messages", body = MessageList),
        (status = "4XX", description = "`session_not_found`, `query_invalid`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    target: Target<Wanted>,
) -> Result<Json<MessageList>, Problem> {
    let key = target.session()?;
    let Wanted { window, limit } = target.query;
    // Of a session whose log is damaged further on, what stands before is read Record by Record.
    let (session, batch) = match api.backend().load(&key).await {
        Ok(session) => (session, page::RECORDS_MAX),
        Err(problem) if problem.code() == ErrorCode::SessionQuarantined => {
            match api.backend().readable(&key).await? {
                Some((session, _)) if session.profile().is_some() => (session.into(), 1),
                _ => return Err(problem),
            }
        }
        Err(problem) => return Err(problem),
    };
    let page = page::read(api.backend(), (&*session, batch), window, limit).await?;
    let mut loader = Loader::new(api.backend(), &key);
    let mut messages = Vec::with_capacity(page.drafts.len());
    for draft in page.drafts {
        messages.push(loader.message(draft).await?);
    }
    let queued = if page.range.end == page.len {
        queued(&mut loader, &session).await?
    } else {
        Vec::new()
    };
    Ok(Json(MessageList {
        messages,
        queued,
        seq: session.seq.0,
        before: (page.range.start > 0).then_some(page.range.start),
        after: page
            .range
            .end
            .checked_sub(1)
            .filter(|_| page.range.end < page.len),
    }))
}

async fn queued(loader: &mut Loader<'_>, session: &Session) -> Result<Vec<QueuedMessage>, Problem> {
    let mut messages = Vec::with_capacity(session.queue.len());
    for queued in &session.queue {
        messages.push(QueuedMessage {
            id: queued.message.to_string(),
            turn_id: queued.turn.0.0,
            parts: loader.content(&queued.content).await?,
        });
    }
    Ok(messages)
}
