//! Which message of the log stands where a client's message stood.
//!
//! An edited or repeated message is a new one in the log, while the page keeps its own id. The id of
//! the new one says whose place it took, so a page that edits again reaches it, and a page that has
//! not seen what happened elsewhere reaches nothing.

use steadfast_core::content::Content;
use steadfast_core::event::{Rejection, TurnOutcome};
use steadfast_core::id::{CommandId, InvalidId, MessageId, Seq, TurnId};
use steadfast_core::receipt::Progress;
use steadfast_core::session::Session;
use steadfast_core::transcript::ItemBody;

use super::act::{is_open, newest_turn};
use super::wire_id::hashed;
use crate::error::{ErrorCode, Problem};

/// Why a message is sent in place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// It says something else.
    Edit,
    /// It shall be answered again.
    Again,
}

impl Wish {
    const ALL: [Self; 2] = [Self::Edit, Self::Again];

    /// How the ids begin of messages that took the place of this one.
    fn mark(self, id: &MessageId) -> Result<String, InvalidId> {
        let kind = match self {
            Self::Edit => "edit",
            Self::Again => "again",
        };
        Ok(format!("{}-", hashed(kind, &[id.as_str()])?))
    }
}

/// A message of the log.
#[derive(Debug)]
pub(super) struct Standing<'a> {
    pub(super) id: &'a MessageId,
    pub(super) content: &'a Content,
}

/// The message that stands where this one stood.
pub(super) fn of<'a>(session: &'a Session, id: &'a MessageId) -> Result<Standing<'a>, Problem> {
    let receipt = session.receipts.get(id).ok_or(Rejection::MessageNotFound)?;
    if receipt.progress == Some(Progress::Queued) {
        let queued = session.queue.iter().find(|queued| queued.message == *id);
        let queued = queued.ok_or(Rejection::MessageNotFound)?;
        return Ok(Standing {
            id,
            content: &queued.content,
        });
    }
    let shown = receipt.shown.ok_or(Rejection::MessageNotFound)?;
    if is_compacted(session, shown) {
        return Err(Rejection::MessageCompacted.into());
    }
    let found = user_item(session, shown).ok_or(Rejection::MessageNotFound)?;
    if found.id == id || took_the_place(found.id, id) {
        return Ok(found);
    }
    let detail = "the conversation was changed elsewhere; read it again";
    Err(Problem::new(ErrorCode::MessageNotFound, detail))
}

/// The newest turn, if it answers this very message, or has: then it is a repetition, no edit.
pub(super) fn answering(
    session: &Session,
    standing: &Standing<'_>,
    content: &Content,
) -> Option<TurnId> {
    let (turn, newest) = newest_turn(session)?;
    let last = session.last_turn.as_ref();
    let completed = last.is_some_and(|last| {
        last.id == turn && matches!(last.outcome, TurnOutcome::Completed { .. })
    });
    let same = newest == *standing.id && standing.content == content;
    (same && (completed || is_open(session, turn))).then_some(turn)
}

/// The id of a message that takes the place of `id`, or the open turn that the same wish made.
pub(super) fn replacement(
    session: &Session,
    wish: Wish,
    id: &MessageId,
    content: &Content,
) -> Result<Result<CommandId, TurnId>, InvalidId> {
    let said = serde_json::to_string(content).unwrap_or_default();
    let said = hashed("said", &[&said])?;
    let same = format!(
        "{}{}",
        wish.mark(id)?,
        said.as_str().trim_start_matches("chat-said-")
    );
    let newest = newest_turn(session);
    if let Some((turn, message)) = &newest
        && message.as_str().starts_with(&same)
        && is_open(session, *turn)
    {
        return Ok(Err(*turn));
    }
    // Later the same is a new wish.
    let base = newest.map_or(0, |(turn, _)| turn.0.0);
    CommandId::new(format!("{same}-{base}")).map(Ok)
}

fn took_the_place(found: &MessageId, id: &MessageId) -> bool {
    Wish::ALL.iter().any(|wish| {
        let mark = wish.mark(id);
        mark.is_ok_and(|mark| found.as_str().starts_with(&mark))
    })
}

fn is_compacted(session: &Session, shown: Seq) -> bool {
    let first = session.transcript.items.front();
    first.is_some_and(|item| matches!(item.body, ItemBody::Summary { .. }) && item.seq >= shown)
}

fn user_item(session: &Session, shown: Seq) -> Option<Standing<'_>> {
    let mut items = session.transcript.items.iter();
    items.find_map(|item| match &item.body {
        ItemBody::User {
            message, content, ..
        } if item.seq >= shown => Some(Standing {
            id: message,
            content,
        }),
        _ => None,
    })
}
