//! `GET /v1/sessions/{session}/events`

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use steadfast_core::id::{Seq, SessionKey};

use crate::app::Api;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::query::{self, Parameters, Query};
use crate::input::target::Target;
use crate::options::Limits;
use crate::stream::subscriber::{self, OpenLog, Source, Subscription};

const LAST_EVENT_ID: &str = "last-event-id";

/// What to follow.
pub(crate) struct Wanted {
    after: Option<u64>,
    follow: bool,
}

impl Parameters for Wanted {
    fn read(query: &mut Query, _: &Limits) -> Result<Self, Problem> {
        Ok(Self {
            after: query.number("after")?,
            follow: query.flag("follow")?.unwrap_or(true),
        })
    }
}

/// Follows a session.
///
/// A stream of server-sent events:
///
/// * one for each committed event, `event:` its type, `id:` its number, `data:` `{"seq", "at",
///   "epoch", "type", ...}` with the event's own fields. The number is the cursor: `Last-Event-ID`
///   or `after` resumes after it, at any node, without gap and without repetition.
/// * `delta`, without id: `{"epoch", "turn", "step", "attempt", "n", "delta"}`, a piece of the open
///   step. `delta` is of `type` `text` or `reasoning` `{part, text}`, `tool_input` `{index, tool,
///   text}`, `tool_progress` `{call, output}`, or `withdrawn`: all that was shown of this attempt is
///   void. `n` counts the pieces of an attempt from 0; a piece that stands for several has the first
///   one's number in `first_n`. What a step's deltas showed is repeated by its committed event.
/// * `caught_up` `{"seq"}`: all that is committed was sent, and deltas now begin at the start of the
///   open step. It comes again when a slow client was left behind: forget the deltas shown so far.
/// * `error`, a problem document: the stream cannot go on and ends.
///
/// A comment comes every 10 s. Ending the stream ends no turn.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/events",
    tag = "messages",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("after" = Option<u64>, Query, description = "Only events after this number; default 0"),
        ("follow" = Option<bool>, Query, description = "`false`: the stream ends once all that is committed was sent"),
        ("Last-Event-ID" = Option<u64>, Header, description = "As `after`, and before it"),
    ),
    responses(
        (status = 200, description = "The stream", body = String, content_type = "text/event-stream"),
        (status = "4XX", description = "`session_not_found`, `cursor_ahead`, `tenant_streams_full`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`streams_full`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn events(
    State(api): State<Api>,
    target: Target<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let key = target.session()?;
    let Wanted { after, follow } = target.query;
    let cursor = Seq(last_event_id(&headers)?.or(after).unwrap_or(0));
    let limits = &api.options().limits;
    let permit = api.streams().open(limits, &target.caller.tenant)?;
    if api.shutdown().is_cancelled() {
        let detail = "the node is shutting down; follow the session at another one";
        return Err(Problem::new(ErrorCode::Draining, detail));
    }
    let session = api.backend().load(&key).await?;
    if cursor > session.seq {
        let detail = format!(
            "the cursor {cursor} is beyond the session's last event {}; begin at 0",
            session.seq
        );
        return Err(Problem::new(ErrorCode::CursorAhead, detail));
    }
    let source = if follow {
        let upstream = |after| api.backend().follow(&key, after, true);
        Source::Hub(api.hubs().of(&key, session.seq, upstream))
    } else {
        Source::Until(session.seq)
    };
    api.metrics().stream_opened();
    let frames = subscriber::frames(Subscription {
        cursor,
        source,
        open_log: open_log(&api, &key),
        comment: Duration::from_millis(limits.stream_comment_ms),
        shutdown: api.shutdown().clone(),
        permit,
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that gather answers would hold frames back.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let body = Body::from_stream(frames.map(Ok::<_, Infallible>));
    Ok((headers, body).into_response())
}

fn open_log(api: &Api, key: &SessionKey) -> OpenLog {
    let (api, key) = (api.clone(), Arc::new(key.clone()));
    Box::new(move |after| api.backend().follow(&key, after, false))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or("?");
    // A client that saw no event with an id may send an empty one.
    if text.is_empty() {
        return Ok(None);
    }
    query::whole_number(text).map(Some).ok_or_else(|| {
        let detail = "the header `Last-Event-ID` must be the number of an event";
        Problem::new(ErrorCode::HeaderInvalid, detail).with_field(LAST_EVENT_ID)
    })
}
