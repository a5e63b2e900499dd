//! A session's stream, resumed for as long as it is wanted.

use std::convert::Infallible;
use std::time::Duration;

use eventsource_stream::{Event as Frame, Eventsource};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::Method;
use serde::Deserialize;
use steadfast_core::event::Event;
use steadfast_protocol::live::Delta;

use super::{ClientError, NodeClient};

/// Waits between attempts to come back: doubled from the first to the last.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(3);
/// A node sends a comment every 10 s: silence for longer means that it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(25);

/// Something that a follower sees, in order.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A committed event, each exactly once.
    Committed {
        /// Its number.
        seq: u64,
        /// When, in milliseconds since the Unix epoch.
        at: u64,
        /// Ownership generation in which it was written.
        epoch: u64,
        /// What.
        event: Box<Event>,
    },
    /// A piece of the open step; after a reconnection the step's pieces come again from its start.
    Live(Piece),
    /// All that was committed so far has been seen.
    CaughtUp,
    /// The node is away; it is tried again.
    Lost,
    /// It is back, and the stream goes on where it broke off.
    Back,
}

/// A piece of the open step.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Piece {
    /// Ownership generation.
    pub(crate) epoch: u64,
    /// The turn.
    pub(crate) turn: u64,
    /// The step.
    pub(crate) step: u32,
    /// The attempt of its model call.
    pub(crate) attempt: u32,
    /// What is shown.
    pub(crate) delta: Delta,
}

#[derive(Deserialize)]
struct Numbered {
    seq: u64,
    at: u64,
    epoch: u64,
}

/// Follows one session.
pub(crate) struct Follow {
    client: NodeClient,
    session: String,
    cursor: u64,
    stream: Option<BoxStream<'static, Result<Frame, ()>>>,
    lost: bool,
    wait: Duration,
}

impl Follow {
    /// Follows from the event after `cursor`.
    pub(crate) fn after(client: &NodeClient, session: &str, cursor: u64) -> Self {
        Self {
            client: client.clone(),
            session: session.to_owned(),
            cursor,
            stream: None,
            lost: false,
            wait: RETRY_MIN,
        }
    }

    /// The next happening; an error only if the node refuses to be followed. Safe to drop and call
    /// again.
    pub(crate) async fn next(&mut self) -> Result<Happening, ClientError> {
        loop {
            let Some(stream) = &mut self.stream else {
                if let Some(happening) = self.connect().await? {
                    return Ok(happening);
                }
                continue;
            };
            match stream.next().await {
                Some(Ok(frame)) => {
                    if let Some(happening) = self.take(&frame) {
                        return Ok(happening);
                    }
                }
                Some(Err(())) | None => {
                    self.stream = None;
                    if !std::mem::replace(&mut self.lost, true) {
                        return Ok(Happening::Lost);
                    }
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<Option<Happening>, ClientError> {
        if self.lost {
            tokio::time::sleep(self.wait).await;
            self.wait = (self.wait * 2).min(RETRY_MAX);
        }
        let path = format!("/v1/sessions/{}/events", self.session);
        let request = self
            .client
            .request(Method::GET, &path)
            .header("Last-Event-ID", self.cursor.to_string());
        match self.client.send(request).await {
            Ok(response) => {
                // Comments are bytes and no frames: silence is that of the connection.
                let bytes = stream::unfold(response.bytes_stream().boxed(), |mut bytes| async {
                    let next = tokio::time::timeout(SILENCE_MAX, bytes.next()).await;
                    let chunk = next.ok().flatten()?.ok()?;
                    Some((Ok::<_, Infallible>(chunk), bytes))
                });
                let frames = bytes.eventsource().map(|frame| frame.map_err(|_| ()));
                self.stream = Some(frames.boxed());
                self.wait = RETRY_MIN;
                Ok(std::mem::take(&mut self.lost).then_some(Happening::Back))
            }
            Err(error) if error.is_passing() => {
                let first = !std::mem::replace(&mut self.lost, true);
                Ok(first.then_some(Happening::Lost))
            }
            Err(error) => Err(error),
        }
    }

    /// `None`: nothing to show, for example an event of a kind that this client does not know.
    fn take(&mut self, frame: &Frame) -> Option<Happening> {
        match frame.event.as_str() {
            "delta" => serde_json::from_str(&frame.data).ok().map(Happening::Live),
            "caught_up" => Some(Happening::CaughtUp),
            // The node says why it ends the stream; the next attempt is told it as a status.
            "error" => None,
            _ => {
                let Numbered { seq, at, epoch } = serde_json::from_str(&frame.data).ok()?;
                if seq <= self.cursor {
                    return None;
                }
                self.cursor = seq;
                let event = serde_json::from_str(&frame.data).ok()?;
                Some(Happening::Committed {
                    seq,
                    at,
                    epoch,
                    event: Box::new(event),
                })
            }
        }
    }
}
