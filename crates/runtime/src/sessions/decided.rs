//! Waiting for a command's answer in the log, whoever decides about it.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::command::Command;
use steadfast_core::decide;
use steadfast_core::event::{Event, Rejection, Verdict};
use steadfast_core::id::{CommandId, Seq, SessionKey, Timestamp};
use steadfast_core::input::{Input, instant};
use steadfast_core::session::Session;
use steadfast_protocol::record::{self, Record};
use steadfast_store::error::ReadError;
use steadfast_store::log::ReadFrom;
use tokio::time::{Duration, timeout};

use super::{Admission, LoadError, Sessions};
use crate::host::Host;
use crate::open;

/// A signal of the log may be lost: it is read again after this long anyway.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Watches a session's log for the answer to one command; made before the command is sent.
pub(super) struct Decided {
    sessions: Sessions,
    key: SessionKey,
    command: CommandId,
    after: Seq,
    signals: BoxStream<'static, ()>,
}

impl Decided {
    /// From the tail of the log on.
    pub(super) async fn watch(
        sessions: &Sessions,
        key: &SessionKey,
        command: &CommandId,
    ) -> Result<Self, ReadError> {
        let log = &sessions.shared.host.stores.log;
        let signals = log.follow(key).await?;
        let tail = log.tail(key).await?;
        Ok(Self {
            sessions: sessions.clone(),
            key: key.clone(),
            command: command.clone(),
            after: tail.last.map_or(Seq(0), |last| last.last_seq),
            signals,
        })
    }

    /// Waits for the answer; for ever if it never stands in the log.
    pub(super) async fn answer(mut self) -> Admission {
        loop {
            match self.look().await {
                Ok(Some(verdict)) => match self.admission(verdict).await {
                    Ok(admission) => return admission,
                    Err(error) => tracing::debug!(session = %self.key, %error, "not read, again"),
                },
                Ok(None) => {}
                Err(error) => tracing::debug!(session = %self.key, %error, "not read, again"),
            }
            if let Ok(None) = timeout(LOOK_EVERY, self.signals.next()).await {
                // The store ended the signals.
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    async fn look(&mut self) -> Result<Option<Verdict>, LoadError> {
        let host: &Host = &self.sessions.shared.host;
        let limit = host.options.read_batch_records;
        loop {
            let from = ReadFrom::Seq(self.after.next());
            let read = host.stores.log.read(&self.key, from, limit).await;
            let stored = read.map_err(super::read::read_error)?;
            for stored in &stored {
                let record = record::decode(&stored.bytes).map_err(super::read::decode_error)?;
                if let Some(verdict) = answer_in(&record, &self.command) {
                    return Ok(Some(verdict));
                }
                self.after = self.after.max(record.last_seq());
            }
            if stored.len() < limit {
                return Ok(None);
            }
        }
    }

    async fn admission(&mut self, verdict: Verdict) -> Result<Admission, LoadError> {
        let host: &Host = &self.sessions.shared.host;
        let batch = host.options.read_batch_records;
        let opened = open::open_whole(&host.stores, &self.key, batch).await?;
        Ok(Admission::Decided {
            verdict,
            session: Arc::new(opened.session),
            first: true,
        })
    }
}

/// The answer to a command that a session has answered before.
pub(crate) fn known_answer(
    session: &Arc<Session>,
    command: Command,
    now: Timestamp,
) -> Option<Admission> {
    let input = Input::Command {
        command,
        receipted: false,
    };
    let answer = decide(session, &input, instant(now, session.at)).answer?;
    let conflict = Verdict::Rejected {
        reason: Rejection::CommandConflict,
    };
    (answer.repeated || answer.verdict == conflict).then(|| Admission::Decided {
        verdict: answer.verdict,
        session: Arc::clone(session),
        first: false,
    })
}

fn answer_in(record: &Record, wanted: &CommandId) -> Option<Verdict> {
    let events = record.entries.iter().flat_map(|entry| &entry.events);
    events.into_iter().find_map(|event| match event {
        Event::CommandSettled {
            command, verdict, ..
        } if command == wanted => Some(*verdict),
        _ => None,
    })
}
