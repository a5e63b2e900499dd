//! What is knocked at the door: commands, wake-ups, the wish to let go.

use std::sync::Arc;

use steadfast_core::Answer;
use steadfast_core::command::{CallAnswer, Command, CommandBody};
use steadfast_core::id::{AgentName, CallId, Epoch, Seq};
use steadfast_core::input::Input;
use steadfast_core::session::Existence;
use steadfast_protocol::record::Cause;
use steadfast_store::mailbox::MailSeq;
use tokio::sync::oneshot;

use super::held::Reply;
use super::{Driver, End, Stance};
use crate::agent::Drive;
use crate::doors::{Knock, Refusal, Seat};
use crate::load::{self, ValueError};
use crate::open::OpenError;
use crate::sessions::{Admission, AdmitError, known_answer};
use crate::triage::{self, Slot};

/// Who waits until all that was decided so far is committed.
pub(super) struct Waiter {
    seq: Seq,
    /// Which proof it needs.
    number: u64,
    what: Waiting,
}

enum Waiting {
    Command {
        answer: Answer,
        reply: oneshot::Sender<Result<Admission, Refusal>>,
    },
    Wake {
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
    Mail {
        up_to: MailSeq,
    },
    Taken {
        up_to: MailSeq,
        reply: oneshot::Sender<Result<MailSeq, Refusal>>,
    },
}

/// A command with what the owner found out about it.
pub(super) struct Prepared {
    pub(super) command: Command,
    /// Reserved for calls that are approved.
    pub(super) slots: Vec<(CallId, Slot)>,
}

impl Driver {
    pub(super) async fn knocked(&mut self, knock: Knock) {
        match knock {
            Knock::Command {
                command,
                drive,
                reply,
            } => {
                return self.command_came(*command, drive, reply).await;
            }
            Knock::Mail { up_to, reply } => self.mail_came(up_to, reply),
            Knock::Wake { timer, reply } if self.stance == Stance::Elsewhere => {
                let _ = reply.send(self.woken_elsewhere(timer));
            }
            Knock::Wake { timer, reply } => match self.woken(timer).await {
                Ok(()) => self.wait(Waiting::Wake { reply }),
                // Who asked does so again.
                Err(detail) => {
                    let error = AdmitError::Unavailable(detail);
                    let _ = reply.send(Err(Refusal::Error(error)));
                }
            },
            Knock::ClientLeft => self.client_left(),
            Knock::Drain => self.drain(),
            // The loop ends for it.
            Knock::Superseded { .. } => {}
        }
        self.mail_was_read_since();
    }

    /// An owner elsewhere needs no waking. But a timer is set by who has let go: one of the owner
    /// that was read here says that the session was let go since.
    fn woken_elsewhere(&self, timer: Option<Epoch>) -> Result<(), Refusal> {
        match timer {
            Some(epoch) if epoch >= self.journal.committed().epoch => Err(Refusal::Again),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) async fn commanded(&mut self, command: Command, drive: Option<Drive>, reply: Reply) {
        if let Err(detail) = self.remember(&command).await {
            let error = AdmitError::Unavailable(detail);
            let _ = reply.send(Err(Refusal::Error(error)));
            return;
        }
        if let Some(refusal) = self.not_here(&command.body, drive) {
            let _ = reply.send(self.repeated(command).ok_or(refusal));
            return;
        }
        if let Some(agent) = self.missing_agent(&command.body) {
            let error = AdmitError::AgentUnknown(agent.to_string());
            let _ = reply.send(Err(Refusal::Error(error)));
            return;
        }
        let prepared = match self.prepare(command).await {
            Ok(prepared) => prepared,
            Err(detail) => {
                let error = AdmitError::Unavailable(detail);
                let _ = reply.send(Err(Refusal::Error(error)));
                return;
            }
        };
        // A client that left does not need the answer; what was decided stands.
        if let Some(answer) = self.decide_command(prepared, false) {
            self.wait(Waiting::Command { answer, reply });
        }
    }

    /// Why a command is not decided here.
    fn not_here(&self, body: &CommandBody, drive: Option<Drive>) -> Option<Refusal> {
        if let Some(owner) = &self.owner {
            return Some(Refusal::Elsewhere(owner.clone()));
        }
        let session = self.journal.decided();
        let profile = session.profile().map(|profile| &profile.agent);
        let agent = self.host.agent(profile.or_else(|| new_agent(body))?)?;
        let looks = self.stance == Stance::Looking;
        let options = &self.host.options;
        let queued = !options.may_own() || agent.is_for_the_queue(options.drives, drive);
        (looks && queued).then_some(Refusal::ForTheQueue)
    }

    /// The answer to a command that the log has answered before, whoever owns the session.
    fn repeated(&self, command: Command) -> Option<Admission> {
        known_answer(self.journal.committed(), command, self.host.now())
    }

    /// Decides about a command. A session is taken over only if something follows.
    pub(super) fn decide_command(&mut self, prepared: Prepared, receipted: bool) -> Option<Answer> {
        let Prepared { command, slots } = prepared;
        let looked = self.stance == Stance::Looking;
        let makes_one = match self.journal.decided().existence {
            Existence::Absent => new_agent(&command.body),
            Existence::Open(_) | Existence::Deleting(_) => None,
        };
        if looked || makes_one.is_some() {
            // A session that is made while it is owned already gets its agent's limits, too.
            self.own(makes_one, self.host.now());
        }
        let cause = Cause::Command {
            id: command.id.clone(),
        };
        let input = Input::Command { command, receipted };
        let decided = self.journal.decide(&input, cause, self.host.now());
        if looked && decided.events == 0 {
            self.disown();
        }
        self.dispatcher.hold_slots(slots, self.journal.decided());
        decided.answer
    }

    /// The agent that a command needs and that is not configured here.
    fn missing_agent<'a>(&'a self, body: &'a CommandBody) -> Option<&'a AgentName> {
        let name = match (&self.journal.decided().existence, body) {
            (Existence::Open(profile), CommandBody::Submit { .. }) => &profile.agent,
            (Existence::Absent, body) => new_agent(body)?,
            (Existence::Open(_) | Existence::Deleting(_), _) => return None,
        };
        self.host.agent(name).is_none().then_some(name)
    }

    /// An approval takes today's triage of its call with it. `Err`: the store cannot be reached.
    pub(super) async fn prepare(&mut self, mut command: Command) -> Result<Prepared, String> {
        self.remember(&command).await?;
        let mut slots = Vec::new();
        match &mut command.body {
            CommandBody::DecideApproval {
                approval,
                approved: true,
                triage,
                ..
            } => {
                let (today, slot) = self.triage_agreed(approval.0).await?;
                *triage = today;
                slots.extend(slot);
            }
            CommandBody::AnswerCalls { answers } => {
                for answer in answers {
                    if let CallAnswer::Approval {
                        approval,
                        approved: true,
                        triage,
                        ..
                    } = answer
                    {
                        let (today, slot) = self.triage_agreed(approval.0).await?;
                        *triage = today;
                        slots.extend(slot);
                    }
                }
            }
            _ => {}
        }
        Ok(Prepared { command, slots })
    }

    async fn triage_agreed(
        &mut self,
        id: CallId,
    ) -> Result<
        (
            Option<steadfast_core::input::CallTriage>,
            Option<(CallId, Slot)>,
        ),
        String,
    > {
        let session = self.journal.decided();
        let Some((turn, call)) = session.turn.as_ref().zip(session.call(id)) else {
            return Ok((None, None));
        };
        let profile = session.profile();
        let Some(agent) = profile.and_then(|profile| self.host.agent(&profile.agent)) else {
            return Ok((None, None));
        };
        let blobs = &*self.host.stores.blobs;
        let input = match load::value(blobs, &session.key, &call.input).await {
            Ok(input) => input,
            Err(ValueError::Unavailable(detail)) => return Err(detail),
            // The tool then says that it was not run, and why.
            Err(ValueError::Damaged(_)) => return Ok((None, None)),
        };
        let (mut triage, slot) =
            triage::agreed(&self.host.pools, agent, session, turn, &call.tool, &input);
        if matches!(self.stance, Stance::Draining { .. }) {
            triage.slot = false;
        }
        Ok((Some(triage), slot.map(|slot| (id, slot))))
    }

    /// Answers once all that was decided so far is committed.
    pub(super) fn answer_taken(
        &mut self,
        up_to: MailSeq,
        reply: oneshot::Sender<Result<MailSeq, Refusal>>,
    ) {
        self.wait(Waiting::Taken { up_to, reply });
    }

    pub(super) fn wait_for_mail(&mut self, up_to: MailSeq) {
        self.wait(Waiting::Mail { up_to });
    }

    fn wait(&mut self, what: Waiting) {
        let seq = self.journal.decided_seq();
        let number = self.number_of_question();
        self.waiters.push_back(Waiter { seq, number, what });
        self.answer_committed();
    }

    /// Tells all whose answer is committed.
    pub(super) fn answer_committed(&mut self) {
        let committed = Arc::clone(self.journal.committed());
        while self
            .waiters
            .front()
            .is_some_and(|waiter| waiter.seq <= committed.seq && self.proof.covers(waiter.number))
        {
            let Some(waiter) = self.waiters.pop_front() else {
                return;
            };
            // Who left before the answer does not need it.
            match waiter.what {
                Waiting::Command { answer, reply } => {
                    let _ = reply.send(Ok(Admission::Decided {
                        verdict: answer.verdict,
                        session: Arc::clone(&committed),
                        first: !answer.repeated,
                    }));
                }
                Waiting::Wake { reply } => {
                    let _ = reply.send(Ok(()));
                }
                Waiting::Mail { up_to } => self.acknowledge(up_to),
                Waiting::Taken { up_to, reply } => {
                    let _ = reply.send(Ok(up_to));
                }
            }
        }
    }

    /// Tells all who still wait that this owner gives no answer.
    pub(super) async fn refuse_all(&mut self, end: &End) {
        let alone = self.host.members.are_alone();
        let refusal = refusal(end, self.is_in_doubt(), alone);
        for waiter in self.waiters.drain(..) {
            match waiter.what {
                Waiting::Command { reply, .. } => {
                    let _ = reply.send(Err(refusal.clone()));
                }
                Waiting::Wake { reply } => {
                    let _ = reply.send(Err(refusal.clone()));
                }
                Waiting::Taken { reply, .. } => {
                    let _ = reply.send(Err(refusal.clone()));
                }
                // It stays in the mailbox for the next owner.
                Waiting::Mail { .. } => {}
            }
        }
        self.mailroom.refuse_all(&refusal);
        refuse_inbox(&mut self.seat, end, alone).await;
    }
}

/// Refuses all that knocked and was not looked at.
pub(super) async fn refuse_inbox(seat: &mut Seat, end: &End, alone: bool) {
    seat.inbox.close();
    let refusal = refusal(end, false, alone);
    while let Some(knock) = seat.inbox.recv().await {
        match knock {
            Knock::Command { reply, .. } => {
                let _ = reply.send(Err(refusal.clone()));
            }
            Knock::Wake { reply, .. } => {
                let _ = reply.send(Err(refusal.clone()));
            }
            Knock::Mail { reply, .. } => {
                let _ = reply.send(Err(refusal.clone()));
            }
            Knock::ClientLeft | Knock::Drain | Knock::Superseded { .. } => {}
        }
    }
}

/// A session of a newer release is left to the nodes of that release, where there may be any.
fn refusal(end: &End, in_doubt: bool, alone: bool) -> Refusal {
    match end {
        End::NotNeeded | End::Parked | End::Released | End::Lost => Refusal::Again,
        End::Elsewhere(owner) => Refusal::Elsewhere(owner.clone()),
        End::NotOpened(OpenError::NewerVersion(_)) if !alone => Refusal::ForTheQueue,
        End::NotOpened(error) => Refusal::Error(match error {
            OpenError::Quarantined { .. } => AdmitError::Quarantined(error.to_string()),
            OpenError::Unavailable(_) | OpenError::NewerVersion(_) => {
                AdmitError::Unavailable(error.to_string())
            }
        }),
        End::GaveUp(detail) | End::NoRoom(detail) if in_doubt => {
            Refusal::Error(AdmitError::OutcomeUnknown(detail.clone()))
        }
        End::GaveUp(detail) => Refusal::Error(AdmitError::Unavailable(detail.clone())),
        End::NoRoom(detail) => Refusal::Error(AdmitError::StoreFull(detail.clone())),
    }
}

/// The agent of the session that a command makes.
fn new_agent(body: &CommandBody) -> Option<&AgentName> {
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
