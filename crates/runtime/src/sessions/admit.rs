//! Admission: the one path on which a command becomes durable.
//!
//! ```text
//!   in memory here ------------------------> its owner decides --> the log
//!   not in memory: open it, decide --nothing follows--> answer, nothing is written
//!                                  --else--> Activated + the command's events, one Record
//!   owned elsewhere, lost three times, no room, or for the queue --> the mailbox
//!                                  then its answer is awaited in the log, whoever decides
//! ```

use std::sync::Arc;

use steadfast_core::command::{Command, CommandBody};
use steadfast_core::id::{Epoch, SessionKey};
use steadfast_core::session::Existence;
use steadfast_protocol::mail::{self, Mail};
use steadfast_store::error::WriteError;
use steadfast_store::mailbox::{Lane, MailSeq, SendError};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::decided::{Decided, known_answer};
use super::{Admission, AdmitError, Sessions};
use crate::agent::Drive;
use crate::doors::{Door, EnterError, Entered, Knock, Refusal, Unheard};
use crate::driver::Start;
use crate::open;
use crate::spill::{Patience, Spill, SpillError};
use crate::trace;

/// How often a command is given to another owner before it goes to the mailbox.
const LOST_MAX: u32 = 3;

/// Why a session could not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KnockError {
    /// Its owner let go meanwhile: ask again once it is gone.
    Gone,
    /// There is no room for another session in memory.
    Full,
    /// It is not opened now.
    NotNow(String),
}

impl Sessions {
    /// Makes a command durable and gives its answer.
    pub async fn admit(&self, key: &SessionKey, command: Command) -> Result<Admission, AdmitError> {
        self.admit_driven(key, command, None).await
    }

    /// The same with a word about who is to run the turn if the session is idle; `None`: as its
    /// agent is configured.
    pub async fn admit_driven(
        &self,
        key: &SessionKey,
        mut command: Command,
        drive: Option<Drive>,
    ) -> Result<Admission, AdmitError> {
        if self.is_draining() {
            return Err(AdmitError::Draining);
        }
        let span = trace::admission(key, &mut command.body);
        // In boxes, as what is done seldom: callers move the future of this function about.
        Box::pin(self.admit_traced(key, command, drive))
            .instrument(span)
            .await
    }

    /// The client whose request began a turn went away before its end. A node that does not drive
    /// hands the session over at the next safe point; one that does goes on.
    pub fn client_left(&self, key: &SessionKey) {
        if self.shared.host.options.drives {
            return;
        }
        if let Some(door) = self.shared.doors.find(key) {
            // One that is not heard costs time only: the session is handed over later.
            let _heard = door.hint(Knock::ClientLeft);
        }
    }

    async fn admit_traced(
        &self,
        key: &SessionKey,
        mut command: Command,
        drive: Option<Drive>,
    ) -> Result<Admission, AdmitError> {
        self.spill(key, &mut command.body).await?;
        let patience = self.shared.host.options.admission_patience;
        match tokio::time::timeout(patience, self.admit_directly(key, &command, drive)).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Box::pin(self.admit_by_mail(key, command)).await,
            Err(_) => Err(AdmitError::OutcomeUnknown(
                "its owner did not decide in time".into(),
            )),
        }
    }

    /// Asks the session's owner here. `None`: it cannot be owned here now.
    async fn admit_directly(
        &self,
        key: &SessionKey,
        command: &Command,
        drive: Option<Drive>,
    ) -> Option<Result<Admission, AdmitError>> {
        let mut lost = 0;
        // An owner that died with the question may have decided it.
        let mut in_doubt = false;
        loop {
            let (reply, answer) = oneshot::channel();
            let command = Box::new(command.clone());
            let knock = Knock::Command {
                command,
                drive,
                reply,
            };
            match self.knock(key, knock).await {
                Ok(door) => {
                    match answer.await {
                        Ok(Ok(admission)) => return Some(Ok(admission)),
                        Ok(Err(Refusal::Error(error))) => return Some(Err(error)),
                        Ok(Err(Refusal::Elsewhere(_) | Refusal::ForTheQueue)) => return None,
                        Ok(Err(Refusal::Releasing)) if self.is_draining() => {
                            return Some(Err(AdmitError::Draining));
                        }
                        Ok(Err(Refusal::Again | Refusal::Releasing)) => {}
                        Err(_) => in_doubt = true,
                    }
                    door.gone().await;
                }
                Err(KnockError::Gone) => {}
                Err(KnockError::Full) => return None,
                Err(KnockError::NotNow(detail)) if in_doubt => {
                    return Some(Err(AdmitError::OutcomeUnknown(detail)));
                }
                Err(KnockError::NotNow(_)) if self.is_draining() => {
                    return Some(Err(AdmitError::Draining));
                }
                Err(KnockError::NotNow(detail)) => {
                    return Some(Err(AdmitError::Unavailable(detail)));
                }
            }
            lost += 1;
            if lost > LOST_MAX {
                return None;
            }
        }
    }

    /// Asks a session something; brings it into memory if it is not.
    pub(crate) async fn knock(
        &self,
        key: &SessionKey,
        knock: Knock,
    ) -> Result<Arc<Door>, KnockError> {
        let doors = &self.shared.doors;
        match doors.enter(key) {
            Ok(Entered::Present(door)) => match doors.knock(&door, knock).await {
                Ok(()) => Ok(door),
                Err(Unheard::Leaving) => {
                    door.gone().await;
                    Err(KnockError::Gone)
                }
                Err(Unheard::NotWoken(detail)) => Err(KnockError::NotNow(detail)),
            },
            Ok(Entered::Made(door, seat)) => {
                // Before anybody sits there: an owner whom nobody asks anything leaves at once.
                door.hint(knock);
                let spawned = doors.spawn(Start::New(seat)).await;
                spawned.map_err(|error| KnockError::NotNow(error.to_string()))?;
                Ok(door)
            }
            Err(EnterError::Full(_)) => Err(KnockError::Full),
            Err(error @ (EnterError::Resting(_) | EnterError::Closed)) => {
                Err(KnockError::NotNow(error.to_string()))
            }
        }
    }

    /// Makes sure that a session has an owner if it needs one; answers once that is durable.
    /// `timer`: the epoch of the timer that is due, if it is one.
    pub(crate) async fn wake(
        &self,
        key: &SessionKey,
        timer: Option<Epoch>,
    ) -> Result<(), KnockError> {
        let (reply, answer) = oneshot::channel();
        let door = self.knock(key, Knock::Wake { timer, reply }).await?;
        match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Refusal::Error(error))) => Err(KnockError::NotNow(error.to_string())),
            // Its owner there needs no waking; whether a timer is still its affair, it was not asked.
            Ok(Err(Refusal::Elsewhere(_))) if timer.is_none() => Ok(()),
            Ok(Err(Refusal::Again | Refusal::Releasing | Refusal::Elsewhere(_))) => {
                door.gone().await;
                Err(KnockError::Gone)
            }
            Ok(Err(Refusal::ForTheQueue)) => {
                Err(KnockError::NotNow("it is left to other nodes".into()))
            }
            Err(_) => Err(KnockError::NotNow("its actor failed".into())),
        }
    }

    /// Moves what is too large into blobs, unless the session's answer will be that it is not there:
    /// then nothing may be written.
    async fn spill(&self, key: &SessionKey, body: &mut CommandBody) -> Result<(), AdmitError> {
        let spill = Spill {
            host: &self.shared.host,
            key,
            patience: Patience::Once,
        };
        if spill.is_needed(body) && !makes_session(body) {
            let session = self.load(key).await;
            if session.is_ok_and(|session| matches!(session.existence, Existence::Absent)) {
                return Ok(());
            }
        }
        spill.command(body).await.map_err(|error| match error {
            SpillError::TooLarge(detail) => AdmitError::TooLarge(detail),
            SpillError::Write(error) => error.into(),
        })
    }

    /// Puts a command into the session's mailbox, for whoever owns it now or next, and waits for
    /// its answer in the log. Without one in time, the command is accepted all the same.
    async fn admit_by_mail(
        &self,
        key: &SessionKey,
        command: Command,
    ) -> Result<Admission, AdmitError> {
        let host = &self.shared.host;
        if let Some(agent) = new_agent(&command.body)
            && host.agent(agent).is_none()
        {
            return Err(AdmitError::AgentUnknown(agent.to_string()));
        }
        let asked = command.clone();
        let decided = Decided::watch(self, key, &command.id).await;
        let decided = decided.map_err(|error| AdmitError::Unavailable(error.to_string()))?;
        let lane = lane(&command.body);
        let id = command.id.to_string();
        let at = host.now();
        let letter = mail::encode(&Mail::Command { command, at });
        let letter = letter.map_err(|error| AdmitError::TooLarge(error.to_string()))?;
        match host
            .stores
            .mailbox
            .send(key, lane, &id, letter.into())
            .await
        {
            Ok(seq) => {
                let answered = async {
                    self.tell_owner_here(key, seq).await;
                    decided.answer().await
                };
                let patience = host.options.admission_patience;
                let answered = tokio::time::timeout(patience, answered).await;
                match answered {
                    Ok(admission) => Ok(admission),
                    // A repetition leaves nothing in the log.
                    Err(_) => Ok(self.answered_before(key, asked).await),
                }
            }
            Err(SendError::Full) => Err(AdmitError::MailboxFull),
            Err(SendError::Write(WriteError::Full(detail))) => Err(AdmitError::StoreFull(detail)),
            Err(SendError::Write(WriteError::Unknown(detail))) => {
                Err(AdmitError::OutcomeUnknown(detail))
            }
            Err(SendError::Write(error)) => Err(AdmitError::Unavailable(error.to_string())),
        }
    }
}

impl Sessions {
    /// What became of a command in the mailbox whose answer did not come.
    async fn answered_before(&self, key: &SessionKey, command: Command) -> Admission {
        let host = &self.shared.host;
        let opened = open::open_whole(&host.stores, key, host.options.read_batch_records);
        let opened = tokio::time::timeout(host.options.admission_patience, opened).await;
        let known = match opened {
            Ok(Ok(opened)) => known_answer(&Arc::new(opened.session), command, host.now()),
            Ok(Err(_)) | Err(_) => None,
        };
        known.unwrap_or(Admission::Accepted)
    }

    /// An owner here reads a letter before whatever is asked next; one elsewhere is told by the
    /// queue.
    async fn tell_owner_here(&self, key: &SessionKey, up_to: MailSeq) {
        let doors = &self.shared.doors;
        if let Some(door) = doors.find(key) {
            let (reply, _answer_stands_in_the_log) = oneshot::channel();
            // Who is gone by now read nothing: the queue finds the next.
            let _gone = doors.knock(&door, Knock::Mail { up_to, reply }).await;
        }
    }
}

fn makes_session(body: &CommandBody) -> bool {
    new_agent(body).is_some()
}

fn new_agent(body: &CommandBody) -> Option<&steadfast_core::id::AgentName> {
    match body {
        CommandBody::Create { new } | CommandBody::Fork { new, .. } => Some(&new.agent),
        CommandBody::Submit { new, .. } => new.as_ref().map(|new| &new.agent),
        CommandBody::Withdraw { .. }
        | CommandBody::Cancel { .. }
        | CommandBody::Compact
        | CommandBody::DecideApproval { .. }
        | CommandBody::SettleCall { .. }
        | CommandBody::AnswerCalls { .. }
        | CommandBody::SkipCall { .. }
        | CommandBody::RetryCall { .. }
        | CommandBody::Delete => None,
    }
}

/// Messages have their own bound, so that a flood of them never locks out what ends a turn.
fn lane(body: &CommandBody) -> Lane {
    match body {
        CommandBody::Create { .. } | CommandBody::Fork { .. } | CommandBody::Submit { .. } => {
            Lane::Messages
        }
        CommandBody::Withdraw { .. }
        | CommandBody::Cancel { .. }
        | CommandBody::Compact
        | CommandBody::DecideApproval { .. }
        | CommandBody::SettleCall { .. }
        | CommandBody::AnswerCalls { .. }
        | CommandBody::SkipCall { .. }
        | CommandBody::RetryCall { .. }
        | CommandBody::Delete => Lane::Control,
    }
}
