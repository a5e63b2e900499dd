//! One append, until it is known whether its Record stands in the log.
//!
//! *Done*: it stands. *Conflict*: another Record stands there, so somebody else owns the session,
//! unless the tail has not moved: then another append is in flight, and may come to nothing.
//! *Unknown or unavailable*: the very same bytes are sent again under the same fence; a conflict
//! after that may be our own first try that landed late, which the hash at the tail tells.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use steadfast_core::id::SessionKey;
use steadfast_store::error::WriteError;
use steadfast_store::log::{Append, AppendError, Tail};
use tokio::time::Instant;

use super::{Driver, End, Stance};
use crate::host::{Host, backoff};
use crate::journal::Departure;

/// An append on its way.
pub(super) struct Landing {
    departure: Departure,
    tries: u32,
    failing_since: Option<Instant>,
    /// An earlier try may have landed, or may still.
    in_doubt: bool,
    round: BoxFuture<'static, Round>,
}

/// What one try said.
pub(super) struct Round {
    /// Version of the index entry, once it is written.
    claim: Option<u64>,
    outcome: Outcome,
}

enum Outcome {
    Landed(Tail),
    Lost,
    Again { in_doubt: bool, detail: String },
    NoRoom(String),
    Never(String),
}

/// Waits for the try in flight; for ever when there is none.
pub(super) async fn next(landing: &mut Option<Box<Landing>>) -> Round {
    match landing {
        Some(landing) => (&mut landing.round).await,
        None => std::future::pending().await,
    }
}

impl Landing {
    pub(super) fn begin(
        host: &Arc<Host>,
        key: &SessionKey,
        departure: Departure,
        claim: Option<u64>,
    ) -> Self {
        let round = Try {
            host: Arc::clone(host),
            key: key.clone(),
            expected: departure.expected,
            append: departure.append.clone(),
            claim,
            in_doubt: false,
            wait: Duration::ZERO,
        };
        Self {
            departure,
            tries: 1,
            failing_since: None,
            in_doubt: false,
            round: round.run().boxed(),
        }
    }

    fn again(&mut self, host: &Arc<Host>, key: &SessionKey, claim: Option<u64>) {
        let options = &host.options;
        let round = Try {
            host: Arc::clone(host),
            key: key.clone(),
            expected: self.departure.expected,
            append: self.departure.append.clone(),
            claim,
            in_doubt: self.in_doubt,
            wait: backoff(
                options.append_retry_min,
                options.append_retry_max,
                self.tries,
            ),
        };
        self.tries += 1;
        self.round = round.run().boxed();
    }
}

impl Driver {
    /// A try of the append in flight ended.
    pub(super) async fn appended(&mut self, round: Round) -> Option<End> {
        // A newer entry may have been written meanwhile.
        self.claim = self.claim.max(round.claim);
        match round.outcome {
            Outcome::Landed(tail) => {
                let departure = self.landing.take()?.departure;
                self.landed(tail, departure.expected, departure.append.bytes.len());
                if self.stance != Stance::Releasing || !self.journal.is_settled() {
                    return None;
                }
                Some(Box::pin(self.finish_release()).await)
            }
            Outcome::Lost => {
                tracing::info!(session = %self.seat.key, "session lost to another owner");
                Some(End::Lost)
            }
            Outcome::Again { in_doubt, detail } => self.try_again(in_doubt, detail),
            // The outcome of a tool that runs here would be lost with this owner.
            Outcome::NoRoom(detail) if self.dispatcher.runs_calls() => {
                self.try_again(false, detail)
            }
            // Nobody waits for somebody to make room: who asked is told at once.
            Outcome::NoRoom(detail) => Some(End::NoRoom(detail)),
            Outcome::Never(detail) => Some(End::GaveUp(detail)),
        }
    }

    fn try_again(&mut self, in_doubt: bool, detail: String) -> Option<End> {
        let landing = self.landing.as_mut()?;
        landing.in_doubt |= in_doubt;
        let since = *landing.failing_since.get_or_insert_with(Instant::now);
        let patience = self.host.options.append_patience;
        tracing::warn!(
            session = %self.seat.key, tries = landing.tries, in_doubt = landing.in_doubt,
            detail, "append not acknowledged, again"
        );
        // The outcome of a tool that runs here would be lost with this owner.
        if since.elapsed() >= patience && !self.dispatcher.runs_calls() {
            return Some(End::GaveUp(detail));
        }
        landing.again(&self.host, &self.seat.key, self.claim);
        None
    }

    /// Whether a Record was sent whose outcome nobody knows.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.landing
            .as_ref()
            .is_some_and(|landing| landing.in_doubt)
    }
}

/// One try.
struct Try {
    host: Arc<Host>,
    key: SessionKey,
    expected: Tail,
    append: Append,
    claim: Option<u64>,
    in_doubt: bool,
    wait: Duration,
}

impl Try {
    async fn run(mut self) -> Round {
        if !self.wait.is_zero() {
            tokio::time::sleep(self.wait).await;
        }
        let outcome = match self.claim().await {
            Ok(()) => self.append().await,
            Err(error) => not_claimed(error),
        };
        Round {
            claim: self.claim,
            outcome,
        }
    }

    /// The index names the session before its log says that it is owned, so that whoever looks for
    /// a dead node's sessions finds it.
    async fn claim(&mut self) -> Result<(), WriteError> {
        if self.claim.is_none() {
            let host = &self.host;
            let index = &host.stores.active;
            let version = index.add(&host.node, &self.key, host.now()).await?;
            self.claim = Some(version);
        }
        Ok(())
    }

    async fn append(&self) -> Outcome {
        let log = &self.host.stores.log;
        match log
            .append(&self.key, self.expected, self.append.clone())
            .await
        {
            Ok(tail) => Outcome::Landed(tail),
            Err(AppendError::Conflict) => self.settle().await,
            Err(AppendError::Write(WriteError::Unknown(detail))) => Outcome::Again {
                in_doubt: true,
                detail,
            },
            Err(AppendError::Write(WriteError::Unavailable(detail))) => Outcome::Again {
                in_doubt: false,
                detail,
            },
            Err(AppendError::Write(WriteError::Full(detail))) => Outcome::NoRoom(detail),
            Err(AppendError::Write(WriteError::Refused(detail))) => Outcome::Never(detail),
        }
    }

    /// After a conflict: which Record stands there, or is on its way there?
    async fn settle(&self) -> Outcome {
        let in_doubt = self.in_doubt;
        match self.host.stores.log.tail(&self.key).await {
            Ok(info) => match info.last {
                Some(last) if last.hash == self.append.hash => Outcome::Landed(info.tail),
                // Nothing came between: who yields to an append that comes to nothing leaves a
                // session that names it as its owner and has none.
                _ if info.tail == self.expected => Outcome::Again {
                    in_doubt,
                    detail: "another append is in flight".into(),
                },
                Some(_) | None => Outcome::Lost,
            },
            Err(error) => Outcome::Again {
                in_doubt,
                detail: error.to_string(),
            },
        }
    }
}

/// Without its entry in the index nothing was appended.
fn not_claimed(error: WriteError) -> Outcome {
    match error {
        WriteError::Refused(detail) => Outcome::Never(detail),
        WriteError::Full(detail) => Outcome::NoRoom(detail),
        WriteError::Unavailable(detail) | WriteError::Unknown(detail) => Outcome::Again {
            in_doubt: false,
            detail,
        },
    }
}
