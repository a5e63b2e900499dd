//! The body of an answer.

use std::time::Duration;

use bytes::Bytes;
use eventsource_stream::{EventStreamError, Eventsource};
use futures_util::stream::{self, Stream, StreamExt};
use reqwest::Response;
use steadfast_core::content::ModelReply;
use steadfast_core::input::ModelFailure;
use steadfast_protocol::live::Delta;
use tokio::sync::mpsc;

use crate::failure::{broken_stream, fatal, retryable};
use crate::transport::client::broken;
use crate::wire::{Decoder, Event};

/// An error's body, at most.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// And no longer than this.
const ERROR_TIME_MAX: Duration = Duration::from_secs(10);

/// How much and how slowly a body may come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) silence: Duration,
    pub(super) bytes_max: usize,
}

/// No byte came for too long.
pub(super) fn silent(silence: Duration) -> ModelFailure {
    retryable(
        "silent",
        format!("the provider was silent for {} s", silence.as_secs_f32()),
    )
}

/// A reply as server-sent events.
pub(super) async fn events(
    response: Response,
    mut decoder: Decoder,
    limits: Limits,
    deltas: &mpsc::Sender<Delta>,
) -> Result<ModelReply, ModelFailure> {
    // A server may leave the blank line after its last event to the end of the stream.
    let last_line = stream::once(async { Ok(Bytes::from_static(b"\n\n")) });
    let chunks = chunks(response, limits).chain(last_line);
    let mut events = std::pin::pin!(chunks.eventsource());
    let mut grown = Vec::new();
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| match error {
            EventStreamError::Transport(failure) => failure,
            EventStreamError::Utf8(_) | EventStreamError::Parser(_) => {
                broken_stream("the stream holds what is not text")
            }
        })?;
        let event = Event {
            name: &event.event,
            data: &event.data,
        };
        let reply = decoder.event(event, &mut grown);
        show(&mut grown, deltas).await;
        if let Some(reply) = reply? {
            return Ok(reply);
        }
    }
    decoder.end()
}

/// A reply as one piece of JSON, from a server that does not stream.
pub(super) async fn whole(
    response: Response,
    mut decoder: Decoder,
    limits: Limits,
    deltas: &mpsc::Sender<Delta>,
) -> Result<ModelReply, ModelFailure> {
    let mut body = Vec::new();
    let mut chunks = std::pin::pin!(chunks(response, limits));
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk?);
    }
    let data = std::str::from_utf8(&body)
        .map_err(|_| broken_stream("the reply holds what is not text"))?;
    let event = Event {
        name: "message",
        data,
    };
    let mut grown = Vec::new();
    let reply = decoder.event(event, &mut grown);
    show(&mut grown, deltas).await;
    match reply? {
        Some(reply) => Ok(reply),
        None => decoder.end(),
    }
}

async fn show(grown: &mut Vec<Delta>, deltas: &mpsc::Sender<Delta>) {
    for delta in grown.drain(..) {
        // A closed channel means that nobody looks on; the reply is wanted all the same.
        if deltas.send(delta).await.is_err() {
            break;
        }
    }
}

/// The chunks of a body within its limits.
fn chunks(response: Response, limits: Limits) -> impl Stream<Item = Result<Bytes, ModelFailure>> {
    stream::try_unfold(
        (response, 0_usize),
        move |(mut response, taken)| async move {
            let chunk = match tokio::time::timeout(limits.silence, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(error)) => return Err(broken(error)),
                Err(_) => return Err(silent(limits.silence)),
            };
            let taken = taken.saturating_add(chunk.len());
            if taken > limits.bytes_max {
                return Err(fatal(
                    "reply_too_large",
                    format!("the reply is larger than {} bytes", limits.bytes_max),
                ));
            }
            Ok(Some((chunk, (response, taken))))
        },
    )
}

/// What an answer that is no success says, as far as it comes soon and is not too long.
pub(super) async fn error_text(mut response: Response) -> String {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = ERROR_BYTES_MAX.saturating_sub(body.len());
            body.extend(chunk.iter().take(room));
            if chunk.len() > room {
                break;
            }
        }
    };
    // Whatever came by then has to do.
    let _ = tokio::time::timeout(ERROR_TIME_MAX, reading).await;
    String::from_utf8_lossy(&body).into_owned()
}
