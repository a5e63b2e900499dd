//! The body of a chat response: a turn from its first chunk to its last.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use steadfast_core::id::{Seq, SessionKey};
use steadfast_protocol::record::Record;
use steadfast_runtime::sessions::{Followed, Follower};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::act::Following;
use super::chunk::{self, Chunk};
use super::fold::Fold;
use super::inline::Budget;
use crate::app::Api;
use crate::error::{ErrorCode, Problem};
use crate::stream::permit::StreamPermit;

/// The frames of a turn. Each reader follows the log for itself: a turn rarely has more than two,
/// and each begins elsewhere.
pub(crate) fn frames(
    api: &Api,
    key: &SessionKey,
    following: Following,
    permit: StreamPermit,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let comment = Duration::from_millis(api.options().limits.stream_comment_ms);
    let mut comments = tokio::time::interval(comment);
    comments.set_missed_tick_behavior(MissedTickBehavior::Delay);
    comments.reset();
    let teller = Teller {
        api: api.clone(),
        key: key.clone(),
        fold: Fold::new(following.turn, following.has_steps),
        cursor: following.after,
        caught_up: false,
        upstream: api.backend().follow(key, following.after, true),
        blobs: Budget::default(),
        ready: VecDeque::from([Ok(chunk::OPENING)]),
        comments,
        shutdown: api.shutdown().clone(),
        over: false,
        _permit: permit,
    };
    stream::unfold(teller, |mut teller| async move {
        let frame = teller.next().await?;
        Some((frame, teller))
    })
}

struct Teller {
    api: Api,
    key: SessionKey,
    fold: Fold,
    /// Number of the last event folded.
    cursor: Seq,
    caught_up: bool,
    upstream: Follower,
    blobs: Budget,
    ready: VecDeque<io::Result<Bytes>>,
    comments: Interval,
    shutdown: CancellationToken,
    /// What is ready is the rest.
    over: bool,
    _permit: StreamPermit,
}

impl Teller {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.over {
                return None;
            }
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => {
                    // The turn goes on elsewhere, so this is no end of it: the client shall see a
                    // connection that broke, and come back.
                    self.over = true;
                    return Some(Err(io::Error::other("the node is shutting down")));
                }
                next = self.upstream.next() => self.take(next.map(|next| next.map_err(Problem::from))).await,
                _ = self.comments.tick() => self.ready.push_back(Ok(chunk::COMMENT)),
            }
        }
    }

    async fn take(&mut self, next: Option<Result<Followed, Problem>>) {
        match next {
            Some(Ok(Followed::Record { record, .. })) => {
                if let Err(problem) = self.fold(&record).await {
                    self.fold.fail(told(&problem));
                }
            }
            Some(Ok(Followed::Live(frame))) => self.fold.frame(&frame),
            Some(Ok(Followed::CaughtUp { .. })) => {
                self.caught_up = true;
                self.fold.caught_up();
            }
            Some(Err(problem)) => self.fold.fail(told(&problem)),
            None => self.fold.fail("the session's log ended"),
        }
        if self.caught_up && !self.fold.has_ended() && self.fold.waits_for_people() {
            self.fold.pause();
        }
        self.send();
    }

    async fn fold(&mut self, record: &Arc<Record>) -> Result<(), Problem> {
        let mut seq = record.first_seq;
        for entry in &record.entries {
            for event in &entry.events {
                if seq > self.cursor {
                    let backend = self.api.backend();
                    let inlined = self.blobs.inlined(backend, &self.key, event).await?;
                    let event = inlined.as_ref().unwrap_or(event);
                    self.fold.event(seq, entry.at, record.epoch, event);
                    self.cursor = seq;
                }
                seq = seq.next();
            }
        }
        Ok(())
    }

    /// Makes the chunks ready that the fold gave; all of one step forward are one piece.
    fn send(&mut self) {
        let mut bytes = Vec::new();
        let mut push = |chunk: &Chunk| chunk.frame().map(|frame| bytes.extend_from_slice(&frame));
        for chunk in self.fold.take() {
            if let Err(error) = push(&chunk) {
                tracing::error!(%error, "chunk could not be encoded");
                let problem = Problem::new(ErrorCode::Internal, "a chunk could not be encoded");
                self.fold.fail(told(&problem));
                break;
            }
        }
        if self.fold.has_ended() {
            self.over = true;
            bytes.extend_from_slice(&chunk::DONE);
        }
        if !bytes.is_empty() {
            self.ready.push_back(Ok(bytes.into()));
        }
    }
}

/// A problem as the client's user reads it.
fn told(problem: &Problem) -> String {
    problem.body().detail
}
