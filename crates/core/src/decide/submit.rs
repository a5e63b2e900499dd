//! A message comes in.

use super::{Answer, Asked, Draft, end_turn};
use crate::command::{MessageOptions, NewSession, WhenBusy};
use crate::content::Content;
use crate::event::{Event, Rejection, TurnOutcome, Verdict};
use crate::id::{MessageId, Seq, TurnId};
use crate::receipt::Progress;
use crate::session::{Existence, Session};
use crate::transcript::ItemBody;

pub(super) fn decide(
    draft: &mut Draft,
    asked: &Asked<'_>,
    content: &Content,
    options: &MessageOptions,
    new: Option<&NewSession>,
) -> Answer {
    if let Some(reason) = refusal(&draft.session, options, new) {
        return asked.refuse(draft, reason);
    }
    if let (Existence::Absent, Some(new)) = (&draft.session.existence, new) {
        draft.emit(Event::SessionCreated { new: new.clone() });
    }
    if let Some(message) = &options.replaces {
        rewind(draft, message);
    }
    draft.emit(Event::TurnQueued {
        message: asked.id.clone(),
        content: content.clone(),
        options: options.clone(),
    });
    let turn = TurnId(draft.session.seq);
    let answer = asked.settle(draft, Verdict::Accepted { turn });
    if options.when_busy == WhenBusy::Interrupt {
        end_turn::end(draft, TurnOutcome::Cancelled);
    }
    answer
}

fn refusal(
    session: &Session,
    options: &MessageOptions,
    new: Option<&NewSession>,
) -> Option<Rejection> {
    if let (Existence::Open(profile), Some(new)) = (&session.existence, new)
        && profile.agent != new.agent
    {
        return Some(Rejection::SessionExists);
    }
    if let Some(message) = &options.replaces {
        return rewind_target(session, message).err();
    }
    let busy = session.turn.is_some() || !session.queue.is_empty();
    let full = session.queue.len() >= session.policy.queue_max as usize;
    let wanted_turn_runs = match (options.turn_id, &session.turn) {
        (None, _) => true,
        (Some(wanted), Some(turn)) => turn.id == wanted,
        (Some(_), None) => false,
    };
    match options.when_busy {
        WhenBusy::Reject if busy => Some(Rejection::TurnRunning),
        WhenBusy::Steer if !wanted_turn_runs => Some(Rejection::TurnNotRunning),
        WhenBusy::Queue | WhenBusy::Steer if busy && full => Some(Rejection::QueueFull),
        WhenBusy::Queue | WhenBusy::Steer | WhenBusy::Interrupt | WhenBusy::Reject => None,
    }
}

/// From which event on the transcript is dropped; `None` when the message is still queued.
fn rewind_target(session: &Session, message: &MessageId) -> Result<Option<Seq>, Rejection> {
    let receipt = session
        .receipts
        .get(message)
        .ok_or(Rejection::MessageNotFound)?;
    let Some(progress) = receipt.progress else {
        return Err(Rejection::MessageNotFound);
    };
    if progress == Progress::Queued {
        return Ok(None);
    }
    let shown = receipt.shown.ok_or(Rejection::MessageNotFound)?;
    let summarised = session
        .transcript
        .items
        .front()
        .is_some_and(|item| matches!(item.body, ItemBody::Summary { .. }) && item.seq >= shown);
    if summarised {
        Err(Rejection::MessageCompacted)
    } else {
        Ok(Some(shown))
    }
}

/// Ends the running turn and the queued ones, and drops the transcript from the message on.
fn rewind(draft: &mut Draft, message: &MessageId) {
    end_turn::end(draft, TurnOutcome::Superseded);
    let queued: Vec<TurnId> = draft
        .session
        .queue
        .iter()
        .map(|queued| queued.turn)
        .collect();
    for turn in queued {
        draft.emit(Event::TurnEnded {
            turn,
            outcome: TurnOutcome::Superseded,
        });
    }
    if let Ok(Some(to)) = rewind_target(&draft.session, message) {
        let note = rewound_effects(&draft.session, to);
        draft.emit(Event::TranscriptRewound { to, note });
    }
}

/// What the rewound part did or may have done outside.
fn rewound_effects(session: &Session, to: Seq) -> Option<String> {
    /// More would not help a model, and an event has to stay small.
    const NAMED_MAX: usize = 8;
    let rewound = session
        .transcript
        .items
        .iter()
        .filter(|item| item.seq >= to);
    let results = rewound.filter_map(|item| match &item.body {
        ItemBody::Results { results, .. } => Some(results.iter()),
        ItemBody::User { .. }
        | ItemBody::Reply { .. }
        | ItemBody::Note { .. }
        | ItemBody::Summary { .. }
        | ItemBody::Packed { .. } => None,
    });
    use crate::event::Settlement::{Cancelled, Done, InDoubt, Unknown};
    let acted: Vec<_> = results
        .flatten()
        .filter(|result| matches!(result.settlement, Done | InDoubt | Unknown | Cancelled))
        .collect();
    if acted.is_empty() {
        return None;
    }
    let named: Vec<String> = acted
        .iter()
        .take(NAMED_MAX)
        .map(|result| match result.settlement {
            Done => format!("{} ran", result.tool),
            _ => format!("{} may have run", result.tool),
        })
        .collect();
    let more = acted.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 {
        format!(", and {more} more calls")
    } else {
        String::new()
    };
    Some(format!(
        "The user went back and changed an earlier message. Before that, tools were called whose \
         effects outside stand: {}{more}.",
        named.join(", ")
    ))
}
