//! From what a client posts to commands, and to the turn whose stream answers it.

use std::sync::Arc;

use serde_json::Value;
use steadfast_core::call::CallState;
use steadfast_core::command::{CallAnswer, CommandBody, MessageOptions, NewSession, WhenBusy};
use steadfast_core::content::Content;
use steadfast_core::event::{Rejection, TurnOutcome, Verdict};
use steadfast_core::id::{AgentName, CommandId, MessageId, Seq, SessionKey, TurnId};
use steadfast_core::limits::ANSWERS_PER_COMMAND_MAX;
use steadfast_core::session::{Existence, Session};
use steadfast_runtime::sessions::Admission;

use super::fold::Turn;
use super::posted::{Ballot, Posted, PostedMessage, Vote};
use super::standing::{self, Wish};
use super::{content, wire_id};
use crate::app::Api;
use crate::backend::session_not_found;
use crate::error::{ErrorCode, Problem};
use crate::routes::one_session::check_metadata;

/// What a stream tells.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) turn: Turn,
    /// The events after this one hold the turn.
    pub(crate) after: Seq,
    /// The client has so many steps of it already.
    pub(crate) has_steps: u32,
}

/// A chat: a session of one agent.
pub(crate) struct Chat<'a> {
    pub(crate) api: &'a Api,
    pub(crate) key: &'a SessionKey,
    pub(crate) agent: &'a AgentName,
}

impl Chat<'_> {
    /// The session, if it exists; one of another agent is not found here.
    pub(crate) async fn session(&self) -> Result<Option<Arc<Session>>, Problem> {
        let session = self.api.backend().load_any(self.key).await?;
        match &session.existence {
            Existence::Absent => Ok(None),
            Existence::Open(profile) if profile.agent == *self.agent => Ok(Some(session)),
            Existence::Open(_) | Existence::Deleting(_) => Err(session_not_found()),
        }
    }

    /// Does what is asked.
    pub(crate) async fn act(&self, posted: Posted) -> Result<Following, Problem> {
        match posted {
            Posted::Message(message) => self.message(message).await,
            Posted::Again(message) => self.again(message).await,
            Posted::Votes(votes) => self.votes(votes).await,
        }
    }

    async fn message(&self, message: PostedMessage) -> Result<Following, Problem> {
        let id = command_id(&message.id)?;
        let content = content::of_parts(&message.parts, "parts")?;
        check_metadata(&message.metadata)?;
        if message.edited {
            let session = self.session().await?;
            let known = session.filter(|session| session.receipts.get(&id).is_some());
            if let Some(session) = known {
                let place = standing::of(&session, &id)?;
                if let Some(turn) = standing::answering(&session, &place, &content) {
                    return Ok(whole(turn));
                }
                let replaces = place.id.clone();
                let new = (replaces, content, message.metadata);
                return self.replace(Wish::Edit, &session, &id, new).await;
            }
        }
        let options = MessageOptions {
            when_busy: WhenBusy::Queue,
            metadata: message.metadata,
            ..MessageOptions::default()
        };
        self.submit(id, content, options).await
    }

    /// Answers a message of the log again, as the log has it.
    async fn again(&self, message: PostedMessage) -> Result<Following, Problem> {
        let id = command_id(&message.id)?;
        let session = self.session().await?.ok_or_else(session_not_found)?;
        let place = standing::of(&session, &id)?;
        let new = (place.id.clone(), place.content.clone(), message.metadata);
        self.replace(Wish::Again, &session, &id, new).await
    }

    /// Sends a message in place of an earlier one. The same request again, while the turn that it
    /// made is open, goes on with that turn.
    async fn replace(
        &self,
        wish: Wish,
        session: &Session,
        id: &MessageId,
        (replaces, content, metadata): (MessageId, Content, Value),
    ) -> Result<Following, Problem> {
        let id = match standing::replacement(session, wish, id, &content) {
            Ok(Ok(id)) => id,
            Ok(Err(turn)) => return Ok(whole(turn)),
            Err(_) => return Err(no_id()),
        };
        let options = MessageOptions {
            replaces: Some(replaces),
            metadata,
            ..MessageOptions::default()
        };
        self.submit(id, content, options).await
    }

    async fn submit(
        &self,
        id: CommandId,
        content: Content,
        options: MessageOptions,
    ) -> Result<Following, Problem> {
        let before = self.api.backend().load_any(self.key).await?.seq;
        let new = Some(NewSession {
            agent: self.agent.clone(),
            metadata: Value::Null,
            tags: Vec::new(),
        });
        let body = CommandBody::Submit {
            content,
            options,
            new,
        };
        match self.api.backend().admit(self.key, id.clone(), body).await? {
            Admission::Decided {
                verdict: Verdict::Accepted { turn },
                ..
            } => Ok(whole(turn)),
            Admission::Decided {
                verdict: Verdict::Rejected { reason },
                ..
            } => Err(reason.into()),
            Admission::Decided {
                verdict: Verdict::Done,
                ..
            } => Err(Rejection::CommandConflict.into()),
            Admission::Accepted => Ok(Following {
                turn: Turn::Of(id),
                after: before,
                has_steps: 0,
            }),
        }
    }

    /// Counts the votes that are about calls which wait for them, and tells what came of all calls
    /// of that step. The first answer to a call counts, whoever gave it.
    async fn votes(&self, votes: Vec<Vote>) -> Result<Following, Problem> {
        let session = self.session().await?.ok_or_else(session_not_found)?;
        let newest = newest_turn(&session).map(|(turn, _)| turn);
        let of_newest = votes
            .into_iter()
            .filter(|vote| Some(vote.call.turn) == newest);
        let of_newest: Vec<Vote> = of_newest.collect();
        let step = of_newest.iter().map(|vote| vote.call.step).max();
        let (Some(turn), Some(step)) = (newest, step) else {
            let detail = "the newest message holds no call of the newest turn; \
                          read the conversation again";
            return Err(Problem::new(ErrorCode::CallNotFound, detail));
        };
        let counted: Vec<CallAnswer> = of_newest
            .into_iter()
            .filter_map(|vote| counted(&session, vote))
            .collect();
        for together in counted.chunks(ANSWERS_PER_COMMAND_MAX) {
            self.answer(together).await?;
        }
        Ok(Following {
            has_steps: step,
            ..whole(turn)
        })
    }

    /// Sends answers as one command, so that all of them count or none does.
    async fn answer(&self, answers: &[CallAnswer]) -> Result<(), Problem> {
        let (id, body) = as_command(answers)?;
        let admitted = match self.api.backend().admit(self.key, id, body).await {
            // Together they are more than one decision may hold: each by itself may not be.
            Err(problem) if problem.code() == ErrorCode::CommandTooLarge && answers.len() > 1 => {
                for answer in answers {
                    Box::pin(self.answer(std::slice::from_ref(answer))).await?;
                }
                return Ok(());
            }
            admitted => admitted?,
        };
        match admitted {
            Admission::Decided {
                verdict: Verdict::Rejected { reason },
                ..
            } if !is_late(reason) => Err(reason.into()),
            Admission::Decided { .. } | Admission::Accepted => Ok(()),
        }
    }
}

/// Answers to calls as one command.
fn as_command(answers: &[CallAnswer]) -> Result<(CommandId, CommandBody), Problem> {
    let said = serde_json::to_string(answers).unwrap_or_default();
    let id = hashed("answers", &[&said])?;
    let answers = answers.to_vec();
    Ok((id, CommandBody::AnswerCalls { answers }))
}

/// Somebody answered before.
fn is_late(reason: Rejection) -> bool {
    matches!(
        reason,
        Rejection::ApprovalDecided
            | Rejection::ApprovalNotFound
            | Rejection::CallNotWaiting
            | Rejection::CallNotFound
    )
}

/// What a vote says, if its call waits for one of that kind.
fn counted(session: &Session, vote: Vote) -> Option<CallAnswer> {
    let turn = session.turn.as_ref();
    let turn = turn.filter(|turn| turn.id == vote.call.turn && turn.step == vote.call.step)?;
    let mut calls = turn.calls.iter();
    let call = calls.find(|call| call.id.index == vote.call.index)?;
    match (&call.state, vote.ballot) {
        (
            CallState::AwaitingApproval { approval, .. },
            Ballot::Approval {
                id,
                approved,
                reason,
            },
        ) if id == approval.to_string() => Some(CallAnswer::Approval {
            approval: *approval,
            approved,
            reason,
            triage: None,
        }),
        (CallState::AwaitingClient | CallState::AwaitingInput, Ballot::Output(output)) => {
            Some(CallAnswer::Result {
                call: call.id,
                output: output.into(),
            })
        }
        _ => None,
    }
}

/// The turn that a client which comes back is told; `None`: there is nothing to tell.
pub(crate) fn resumed(session: &Session) -> Option<Following> {
    let (turn, _) = newest_turn(session)?;
    if is_open(session, turn) {
        return Some(whole(turn));
    }
    let last = session.last_turn.as_ref().filter(|last| last.id == turn)?;
    match last.outcome {
        // Who was cut off at the end gets the end; who has it already gets the same again.
        TurnOutcome::Completed { .. } | TurnOutcome::Failed { .. } => Some(whole(turn)),
        TurnOutcome::Cancelled | TurnOutcome::Superseded | TurnOutcome::Rejected => None,
    }
}

fn whole(turn: TurnId) -> Following {
    Following {
        turn: Turn::Known(turn),
        after: Seq(turn.0.0.saturating_sub(1)),
        has_steps: 0,
    }
}

/// The turn of the newest message that makes one of its own.
pub(super) fn newest_turn(session: &Session) -> Option<(TurnId, MessageId)> {
    let own = |queued: &&Arc<steadfast_core::session::QueuedMessage>| {
        queued.options.when_busy != WhenBusy::Steer
    };
    let queued = session.queue.iter().filter(own);
    let queued = queued.map(|queued| (queued.turn, queued.message.clone()));
    let running = session.turn.iter();
    let running = running.map(|turn| (turn.id, turn.message.clone()));
    let last = session.last_turn.iter();
    let last = last.map(|turn| (turn.id, turn.message.clone()));
    queued.max().or(running.max()).or(last.max())
}

pub(super) fn is_open(session: &Session, turn: TurnId) -> bool {
    session.turn.as_ref().is_some_and(|open| open.id == turn)
        || session.queue.iter().any(|queued| queued.turn == turn)
}

fn command_id(message: &str) -> Result<CommandId, Problem> {
    wire_id::command(message).ok_or_else(no_id)
}

fn hashed(kind: &str, words: &[&str]) -> Result<CommandId, Problem> {
    wire_id::hashed(kind, words).map_err(|_| no_id())
}

fn no_id() -> Problem {
    Problem::new(ErrorCode::Internal, "no id could be made")
}
