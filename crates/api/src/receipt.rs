//! Where a message stands, and the wait for its end.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use steadfast_core::content::{ReplyPart, Stored};
use steadfast_core::event::{Event, TurnOutcome, Verdict};
use steadfast_core::id::{MessageId, Seq, SessionKey, TurnId};
use steadfast_core::receipt::{End, Progress};
use steadfast_core::session::Session;
use steadfast_core::transcript::ItemBody;
use steadfast_protocol::record::Record;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::backend::Backend;
use crate::error::{ErrorCode, Problem};
use crate::messages::load;
use crate::messages::view::{Failure, State};

/// Records read at once while looking for one event.
const RECORDS_MAX: usize = 64;

/// Where a message stands.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Receipt {
    /// The message.
    pub(crate) message_id: String,
    /// Where it stands.
    pub(crate) state: State,
    /// Its turn, or the turn it joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_id: Option<u64>,
    /// How many messages are in the queue up to and including it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<usize>,
    /// Why it failed or was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failure>,
    /// With `wait`, once completed: the text of the agent's last reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// Number of the event that ended it.
    #[serde(skip)]
    ended: Option<(TurnId, Seq)>,
}

impl Receipt {
    /// The receipt of a message that is in the mailbox.
    pub(crate) fn accepted(id: &MessageId) -> Self {
        Self {
            message_id: id.to_string(),
            state: State::Accepted,
            turn_id: None,
            position: None,
            error: None,
            text: None,
            ended: None,
        }
    }

    /// The receipt of a message in a session's state; `None`: the session does not know it.
    pub(crate) fn in_session(session: &Session, id: &MessageId) -> Option<Self> {
        let found = session.receipts.get(id)?;
        let mut receipt = Self::accepted(id);
        match (found.verdict, found.progress) {
            (Verdict::Accepted { turn }, Some(Progress::Queued) | None) => {
                receipt.state = State::Queued;
                receipt.turn_id = Some(turn.0.0);
                let queue = session.queue.iter();
                receipt.position = queue
                    .zip(1..)
                    .find(|(queued, _)| queued.message == *id)
                    .map(|(_, position)| position);
            }
            (Verdict::Accepted { .. }, Some(Progress::Running { turn })) => {
                receipt.state = State::Running;
                receipt.turn_id = Some(turn.0.0);
            }
            (Verdict::Accepted { .. }, Some(Progress::Ended { turn, end, seq })) => {
                receipt.state = match end {
                    End::Completed => State::Completed,
                    End::Failed => State::Failed,
                    End::Cancelled => State::Cancelled,
                    End::Superseded => State::Superseded,
                    End::Rejected => State::Rejected,
                };
                receipt.turn_id = Some(turn.0.0);
                receipt.ended = Some((turn, seq));
            }
            (Verdict::Rejected { reason }, _) => {
                receipt.state = State::Rejected;
                let problem = Problem::from(reason).body();
                receipt.error = Some(Failure {
                    code: problem.code.to_owned(),
                    message: problem.detail,
                });
            }
            // The id is that of another kind of command.
            (Verdict::Done, _) => return None,
        }
        Some(receipt)
    }

    /// Whether it will not change any more.
    pub(crate) fn is_final(&self) -> bool {
        match self.state {
            State::Accepted | State::Queued | State::Running => false,
            State::Completed
            | State::Failed
            | State::Cancelled
            | State::Superseded
            | State::Rejected => true,
        }
    }

    /// Adds the error of a failed message, which stands in the log.
    pub(crate) async fn with_error(
        mut self,
        backend: &Backend,
        key: &SessionKey,
        session: &Session,
    ) -> Result<Self, Problem> {
        let Some((turn, seq)) = self.ended.filter(|_| self.state == State::Failed) else {
            return Ok(self);
        };
        let last = session.last_turn.as_ref().filter(|last| last.id == turn);
        let outcome = match last {
            Some(last) => Some(last.outcome.clone()),
            None => {
                let after = Seq(seq.0.saturating_sub(1));
                let records = backend.records(key, after, 1).await?;
                find_last(&records, after, seq, |event| match event {
                    Event::TurnEnded { outcome, .. } | Event::MessageLost { outcome, .. } => {
                        Some(outcome.clone())
                    }
                    _ => None,
                })
            }
        };
        if let Some(TurnOutcome::Failed { code, message }) = outcome {
            self.error = Some(Failure { code, message });
        }
        Ok(self)
    }

    /// Adds the text of the last reply of a completed message's turn.
    pub(crate) async fn with_text(
        mut self,
        backend: &Backend,
        key: &SessionKey,
        session: &Session,
    ) -> Result<Self, Problem> {
        if let Some((turn, seq)) = self.ended.filter(|_| self.state == State::Completed) {
            let parts = match said_last(session, turn) {
                Some(parts) => Some(parts.to_vec()),
                None => said_in_log(backend, key, turn, seq).await?,
            };
            self.text = match parts {
                Some(parts) => Some(text_of(backend, key, parts).await?),
                None => None,
            };
        }
        Ok(self)
    }
}

/// The last reply of a turn, if the state holds it and tells that it is: nothing came after the turn.
fn said_last(session: &Session, turn: TurnId) -> Option<&[Stored<ReplyPart>]> {
    let ended_last = session
        .last_turn
        .as_ref()
        .is_some_and(|last| last.id == turn);
    if !ended_last || session.turn.is_some() || !session.queue.is_empty() {
        return None;
    }
    for item in session.transcript.items.iter().rev() {
        match &item.body {
            ItemBody::Reply {
                turn: of, parts, ..
            } => return (*of == turn).then_some(parts),
            ItemBody::User { .. } | ItemBody::Results { .. } | ItemBody::Note { .. } => {}
            ItemBody::Summary { .. } | ItemBody::Packed { .. } => return None,
        }
    }
    None
}

/// The last found thing among the events after `after`, up to `until`.
fn find_last<T>(
    records: &[Arc<Record>],
    after: Seq,
    until: Seq,
    find: impl Fn(&Event) -> Option<T>,
) -> Option<T> {
    let mut found = None;
    for record in records {
        let events = record.entries.iter().flat_map(|entry| &entry.events);
        for (seq, event) in (record.first_seq.0..).zip(events) {
            if seq > after.0 && seq <= until.0 {
                found = find(event).or(found);
            }
        }
    }
    found
}

/// What the last reply of a turn that ended with the event `ended` said, as the log tells.
async fn said_in_log(
    backend: &Backend,
    key: &SessionKey,
    turn: TurnId,
    ended: Seq,
) -> Result<Option<Vec<Stored<ReplyPart>>>, Problem> {
    // The reply stands shortly before the end; further back only if much was decided meanwhile.
    let mut span = 32_u64;
    loop {
        let after = Seq(ended.0.saturating_sub(span).max(turn.0.0));
        let parts = last_reply(backend, key, turn, after, ended).await?;
        if parts.is_some() || after == turn.0 {
            return Ok(parts);
        }
        span = span.saturating_mul(8);
    }
}

async fn text_of(
    backend: &Backend,
    key: &SessionKey,
    parts: Vec<Stored<ReplyPart>>,
) -> Result<String, Problem> {
    let mut text = String::new();
    for part in parts {
        let part = match part {
            Stored::Inline(part) => part,
            Stored::Blob(blob) => load::read(backend, key, blob).await?,
        };
        if let ReplyPart::Text { text: more, .. } = part {
            text.push_str(&more);
        }
    }
    Ok(text)
}

async fn last_reply(
    backend: &Backend,
    key: &SessionKey,
    turn: TurnId,
    after: Seq,
    until: Seq,
) -> Result<Option<Vec<Stored<ReplyPart>>>, Problem> {
    let mut cursor = after;
    let mut found = None;
    while cursor < until {
        let records = backend.records(key, cursor, RECORDS_MAX).await?;
        let Some(last) = records.last() else {
            break;
        };
        let reply = find_last(&records, cursor, until, |event| match event {
            Event::ModelReplied {
                turn: of, parts, ..
            } if *of == turn => Some(parts.clone()),
            _ => None,
        });
        found = reply.or(found);
        cursor = last.last_seq();
    }
    Ok(found)
}

/// Where a message stands now: in the session's state, else in its mailbox.
pub(crate) async fn look_up(
    backend: &Backend,
    key: &SessionKey,
    id: &MessageId,
) -> Result<Receipt, Problem> {
    let session = backend.load_any(key).await?;
    if let Some(receipt) = Receipt::in_session(&session, id) {
        return receipt.with_error(backend, key, &session).await;
    }
    if backend.has_mail(key, id).await? {
        return Ok(Receipt::accepted(id));
    }
    // It may have been decided between the two looks, or at another node.
    let session = backend.load_newest(key).await?;
    match Receipt::in_session(&session, id) {
        Some(receipt) => receipt.with_error(backend, key, &session).await,
        None => Err(Problem::new(
            ErrorCode::MessageNotFound,
            "the session knows no message of this id",
        )),
    }
}

/// Waits until a message is over, at most so long; then says where it stands.
pub(crate) async fn wait(
    backend: &Backend,
    key: &SessionKey,
    id: &MessageId,
    patience: Duration,
    shutdown: &CancellationToken,
) -> Result<Receipt, Problem> {
    let deadline = tokio::time::Instant::now() + patience;
    let mut session = backend.load_any(key).await?;
    let mut receipt = Receipt::in_session(&session, id).unwrap_or_else(|| Receipt::accepted(id));
    if !receipt.is_final() {
        let over = tokio::select! {
            over = backend.message_over(key, id) => Some(over?),
            () = shutdown.cancelled() => None,
            () = tokio::time::sleep_until(deadline) => None,
        };
        session = match over {
            Some(session) => session,
            None => backend.load_any(key).await?,
        };
        receipt = Receipt::in_session(&session, id).unwrap_or(receipt);
    }
    let receipt = receipt.with_error(backend, key, &session).await?;
    receipt.with_text(backend, key, &session).await
}
