//! One follower of a session: the body of its response.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use steadfast_core::id::Seq;
use steadfast_runtime::sessions::{Followed, Follower};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;

use super::frame::{self, Committed};
use super::hub::{Hub, JoinError, News};
use super::permit::StreamPermit;
use crate::error::{ErrorCode, Problem};

/// Frames taken from the broadcast at once.
const BATCH_MAX: usize = 64;

/// Opens an upstream that reads the log after a cursor.
pub(crate) type OpenLog = Box<dyn Fn(Seq) -> Follower + Send + Sync>;

/// Where a follower gets its news.
pub(crate) enum Source {
    /// For ever, from a hub.
    Hub(Arc<Hub>),
    /// Only what is committed up to this event.
    Until(Seq),
}

/// What a follower needs.
pub(crate) struct Subscription {
    pub(crate) cursor: Seq,
    pub(crate) source: Source,
    pub(crate) open_log: OpenLog,
    pub(crate) comment: Duration,
    pub(crate) shutdown: CancellationToken,
    pub(crate) permit: StreamPermit,
}

/// The frames of a subscription, until it ends.
pub(crate) fn frames(subscription: Subscription) -> impl Stream<Item = Bytes> + Send + 'static {
    let mut comments = tokio::time::interval(subscription.comment);
    comments.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    comments.reset();
    let phase = match &subscription.source {
        Source::Hub(_) => Phase::Joining,
        Source::Until(seq) => Phase::Reading(Reading {
            upstream: (subscription.open_log)(subscription.cursor),
            until: *seq,
        }),
    };
    let subscriber = Subscriber {
        cursor: subscription.cursor,
        ready: VecDeque::from([frame::OPENING]),
        phase,
        source: subscription.source,
        open_log: subscription.open_log,
        comments,
        shutdown: subscription.shutdown,
        _permit: subscription.permit,
    };
    stream::unfold(subscriber, |mut subscriber| async move {
        let frame = subscriber.next().await?;
        Some((frame, subscriber))
    })
}

struct Subscriber {
    /// Number of the last event that is sent or ready.
    cursor: Seq,
    ready: VecDeque<Bytes>,
    phase: Phase,
    source: Source,
    open_log: OpenLog,
    comments: Interval,
    shutdown: CancellationToken,
    _permit: StreamPermit,
}

enum Phase {
    /// The next thing is to join the hub at the cursor.
    Joining,
    /// The log is read up to an event.
    Reading(Reading),
    /// The broadcast is listened to.
    Listening(Receiver<News>),
    /// What is ready is the rest.
    Ended,
}

struct Reading {
    upstream: Follower,
    until: Seq,
}

enum Happened {
    Log(Option<Result<Followed, Problem>>),
    News(Result<News, RecvError>),
    Quiet,
    Shutdown,
}

impl Subscriber {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            let happened = match &mut self.phase {
                Phase::Ended => return None,
                Phase::Joining => {
                    self.join();
                    continue;
                }
                Phase::Reading(reading) if self.cursor >= reading.until => {
                    self.read_all();
                    continue;
                }
                Phase::Reading(reading) => tokio::select! {
                    biased;
                    () = self.shutdown.cancelled() => Happened::Shutdown,
                    next = reading.upstream.next() => {
                        Happened::Log(next.map(|next| next.map_err(Problem::from)))
                    }
                    _ = self.comments.tick() => Happened::Quiet,
                },
                Phase::Listening(news) => tokio::select! {
                    biased;
                    () = self.shutdown.cancelled() => Happened::Shutdown,
                    next = news.recv() => Happened::News(next),
                    _ = self.comments.tick() => Happened::Quiet,
                },
            };
            self.take(happened);
        }
    }

    fn take(&mut self, happened: Happened) {
        match happened {
            Happened::Shutdown => self.phase = Phase::Ended,
            Happened::Quiet => self.ready.push_back(frame::COMMENT),
            Happened::Log(next) => self.take_log(next),
            Happened::News(next) => self.take_news(next),
        }
    }

    fn join(&mut self) {
        let Source::Hub(hub) = &self.source else {
            self.phase = Phase::Ended;
            return;
        };
        match hub.join(self.cursor) {
            Ok(joined) => {
                for committed in &joined.recent {
                    self.send(committed);
                }
                self.ready.push_back(frame::caught_up(self.cursor));
                self.ready.extend(joined.backlog);
                self.phase = Phase::Listening(joined.news);
            }
            Err(JoinError::Behind(until)) => {
                let upstream = (self.open_log)(self.cursor);
                self.phase = Phase::Reading(Reading { upstream, until });
            }
            Err(JoinError::Ended(reason)) => self.end(reason.as_ref()),
        }
    }

    fn read_all(&mut self) {
        match self.source {
            Source::Hub(_) => self.phase = Phase::Joining,
            Source::Until(_) => {
                self.ready.push_back(frame::caught_up(self.cursor));
                self.phase = Phase::Ended;
            }
        }
    }

    fn take_log(&mut self, next: Option<Result<Followed, Problem>>) {
        match next {
            // Events that a removed session once had are gone: the log may begin after the cursor.
            Some(Ok(Followed::Record { record, .. })) => match Committed::of(&record) {
                Ok(committed) => self.send(&committed),
                Err(error) => {
                    tracing::error!(%error, "event could not be encoded");
                    let detail = "an event could not be encoded";
                    self.end(Some(&Problem::new(ErrorCode::Internal, detail)));
                }
            },
            Some(Ok(Followed::Live(_) | Followed::CaughtUp { .. })) => {}
            Some(Err(problem)) => self.end(Some(&problem)),
            None => self.end(None),
        }
    }

    fn take_news(&mut self, first: Result<News, RecvError>) {
        let mut news = match first {
            Ok(news) => news,
            // Who is too slow for the broadcast starts again from the log.
            Err(RecvError::Lagged(_)) => return self.rejoin(),
            Err(RecvError::Closed) => return self.end(None),
        };
        for taken in 1.. {
            self.take_one(news);
            let Phase::Listening(receiver) = &mut self.phase else {
                return;
            };
            if taken == BATCH_MAX {
                return;
            }
            news = match receiver.try_recv() {
                Ok(news) => news,
                Err(TryRecvError::Lagged(_)) => return self.rejoin(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            };
        }
    }

    fn take_one(&mut self, news: News) {
        match news {
            News::Committed(committed) if committed.first_seq > self.cursor.next() => {
                self.rejoin();
            }
            News::Committed(committed) => self.take_committed(&committed),
            News::Large => self.take_recent(),
            News::Live(frame) => self.ready.push_back(frame),
            News::End(reason) => self.end(reason.as_ref()),
        }
    }

    fn take_committed(&mut self, committed: &Committed) {
        self.send(committed);
        if committed.ends_session {
            self.end(None);
        }
    }

    fn take_recent(&mut self) {
        let recent = match &self.source {
            Source::Hub(hub) => hub.recent_after(self.cursor),
            Source::Until(_) => None,
        };
        let Some(recent) = recent else {
            return self.rejoin();
        };
        for committed in recent {
            if matches!(self.phase, Phase::Ended) {
                return;
            }
            self.take_committed(&committed);
        }
    }

    fn rejoin(&mut self) {
        self.phase = Phase::Joining;
    }

    fn send(&mut self, committed: &Committed) {
        if let Some(bytes) = committed.after(self.cursor) {
            self.ready.push_back(bytes);
        }
        self.cursor = self.cursor.max(committed.last_seq);
    }

    fn end(&mut self, reason: Option<&Problem>) {
        if let Some(problem) = reason {
            self.ready.push_back(frame::error(problem));
        }
        self.phase = Phase::Ended;
    }
}

#[cfg(test)]
mod tests;
