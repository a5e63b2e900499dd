//! Letters of the session's mailbox: read in order, decided, and removed once that is committed.
//!
//! A letter's sender holds a receipt, so nothing that comes later overtakes it: while the mailbox is
//! read, what stands at the door waits.

use std::sync::Arc;
use std::time::Duration;

use steadfast_protocol::DecodeError;
use steadfast_protocol::mail::{self, Mail};
use steadfast_store::error::ReadError;
use steadfast_store::mailbox::{Letter, MailSeq};
use tokio::sync::oneshot;

use super::chores::Chore;
use super::held::Held;
use super::{Driver, Stance};
use crate::doors::Refusal;

/// What is known of the mailbox.
#[derive(Default)]
pub(super) struct Mailroom {
    /// The newest letter that was decided about.
    taken: MailSeq,
    reading: bool,
    /// Readings begun so far; the first was begun before the driver.
    pub(super) readings: u64,
    /// The last reading that found all there was.
    pub(super) read_whole: u64,
    /// How many of those at the door stood there when the last whole reading began.
    pub(super) covered: usize,
    covered_by_reading: usize,
    /// The command that waits for a reading.
    pub(super) held: Option<Box<Held>>,
    /// More came while it was read.
    read_again: bool,
    /// A letter of a newer release stands in the way: what its decoder said.
    newer_release: Option<String>,
    asked: Vec<Asked>,
}

/// Who waits until the mail up to a letter is taken.
struct Asked {
    up_to: MailSeq,
    /// The reading that finds all of it.
    found_by: u64,
    reply: oneshot::Sender<Result<MailSeq, Refusal>>,
}

/// Those who wait, at most; further ones are not answered and ask again.
const ASKED_MAX: usize = 256;

impl Mailroom {
    /// Whether letters may stand before what is at the door.
    pub(super) fn stands_first(&self) -> bool {
        self.reading || self.newer_release.is_some()
    }

    /// Whether nobody waits for anything here.
    pub(super) fn is_idle(&self) -> bool {
        !self.reading && self.held.is_none() && self.asked.is_empty()
    }

    /// Nobody here takes the mail, nor decides what waits for it.
    pub(super) fn refuse_all(&mut self, refusal: &Refusal) {
        if let Some(held) = self.held.take() {
            // Who left needs no answer.
            let _ = held.reply.send(Err(refusal.clone()));
        }
        self.refuse_asked(refusal);
    }

    fn refuse_asked(&mut self, refusal: &Refusal) {
        for asked in self.asked.drain(..) {
            let _ = asked.reply.send(Err(refusal.clone()));
        }
    }

    /// Why this node leaves the session to others, if it does.
    pub(super) fn newer_release(&self) -> Option<String> {
        self.newer_release.clone()
    }
}

/// Why a letter is not taken now.
pub(super) enum Left {
    /// It is tried again soon, and nothing overtakes it.
    Soon,
    /// It comes again by itself; it asks for nothing that could be overtaken.
    Later,
    /// It is for a node of a newer release.
    ToOthers,
}

impl Driver {
    /// Mail was announced.
    pub(super) fn mail_came(
        &mut self,
        up_to: MailSeq,
        reply: oneshot::Sender<Result<MailSeq, Refusal>>,
    ) {
        let refusal = match self.stance {
            Stance::Elsewhere => self.owner.clone().map(Refusal::Elsewhere),
            Stance::Draining { .. } | Stance::Releasing => Some(Refusal::Releasing),
            Stance::Looking | Stance::Owning { .. } => None,
        };
        let refusal = refusal.filter(|_| !self.takes_mail());
        if let Some(refusal) = refusal {
            let _ = reply.send(Err(refusal));
            return;
        }
        if self.mailroom.taken >= up_to {
            self.answer_taken(up_to, reply);
            return;
        }
        self.mailroom.asked.retain(|asked| !asked.reply.is_closed());
        if self.mailroom.asked.len() < ASKED_MAX {
            self.mailroom.asked.push(Asked {
                up_to,
                found_by: self.mailroom.readings + 1,
                reply,
            });
        }
        self.read_mail();
    }

    /// What was read before the driver began. Of a session that is owned elsewhere it is not ours.
    pub(super) async fn first_letters(&mut self, letters: Vec<Letter>) {
        if self.stance != Stance::Elsewhere {
            self.take_letters(letters).await;
        }
    }

    /// Reads the mailbox, if it is not being read.
    pub(super) fn read_mail(&mut self) {
        if !self.takes_mail() || self.mailroom.newer_release.is_some() {
            return;
        }
        if self.mailroom.reading {
            self.mailroom.read_again = true;
            return;
        }
        self.begin_reading(Duration::ZERO);
    }

    pub(super) fn begin_reading(&mut self, wait: Duration) {
        self.mailroom.reading = true;
        self.mailroom.readings += 1;
        self.mailroom.covered_by_reading = self.seat.inbox.len();
        let (mailbox, key) = (Arc::clone(&self.host.stores.mailbox), self.seat.key.clone());
        let (after, limit) = (self.mailroom.taken, self.host.options.mail_batch_max);
        self.chores.spawn(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            Chore::MailRead(mailbox.pending(&key, after, limit).await)
        });
    }

    pub(super) async fn mail_read(&mut self, letters: Result<Vec<Letter>, ReadError>) {
        self.mailroom.reading = false;
        match letters {
            Ok(letters) => {
                self.take_letters(letters).await;
                self.decide_held().await;
            }
            Err(error) => {
                tracing::warn!(session = %self.seat.key, %error, "mailbox not read, again");
                self.begin_reading(self.host.options.mail_delay);
                return;
            }
        }
        if std::mem::take(&mut self.mailroom.read_again) {
            self.read_mail();
        }
    }

    /// Decides about letters in their order.
    pub(super) async fn take_letters(&mut self, letters: Vec<Letter>) {
        if !self.takes_mail() {
            return;
        }
        let full = letters.len() >= self.host.options.mail_batch_max;
        for letter in letters {
            if letter.seq <= self.mailroom.taken {
                continue;
            }
            match self.take_letter(&letter).await {
                Ok(()) => {}
                Err(Left::Soon) => return self.begin_reading(self.host.options.mail_delay),
                Err(Left::Later) => {
                    self.mailroom.refuse_asked(&Refusal::ForTheQueue);
                    self.mailroom.read_whole = self.mailroom.readings;
                    return;
                }
                Err(Left::ToOthers) => return self.mailroom.refuse_all(&Refusal::ForTheQueue),
            }
            self.mailroom.taken = letter.seq;
            self.wait_for_mail(letter.seq);
        }
        self.answer_asked(!full);
        if full {
            self.read_mail();
        }
    }

    /// Answers those whose mail is taken; `all`: the last reading found all that there was.
    fn answer_asked(&mut self, all: bool) {
        if all && self.mailroom.readings > 0 {
            self.mailroom.read_whole = self.mailroom.readings;
            self.mailroom.covered = self.mailroom.covered_by_reading;
        }
        let Mailroom {
            taken, readings, ..
        } = self.mailroom;
        let (done, wait) = std::mem::take(&mut self.mailroom.asked)
            .into_iter()
            .partition(|asked| asked.up_to <= taken || (all && asked.found_by <= readings));
        self.mailroom.asked = wait;
        for Asked { up_to, reply, .. } in done {
            // A letter that is not there was removed: an earlier owner decided about it.
            self.mailroom.taken = self.mailroom.taken.max(up_to);
            self.answer_taken(up_to, reply);
        }
    }

    async fn take_letter(&mut self, letter: &Letter) -> Result<(), Left> {
        let mail = match mail::decode(&letter.bytes) {
            Ok(mail) => mail,
            Err(error @ DecodeError::Version { .. }) => {
                tracing::warn!(session = %self.seat.key, %error, "session left to newer releases");
                self.mailroom.newer_release = Some(error.to_string());
                self.drain();
                return Err(Left::ToOthers);
            }
            Err(error @ DecodeError::Corrupt { .. }) => {
                tracing::error!(
                    session = %self.seat.key, letter = letter.seq.0, %error, "mail dropped"
                );
                return Ok(());
            }
        };
        match mail {
            Mail::WakeUp { dead_owner } => {
                if dead_owner.as_ref() == Some(&self.host.node) {
                    self.claim_again().await?;
                }
                if let Err(detail) = self.woken(None).await {
                    tracing::warn!(session = %self.seat.key, detail, "wake-up waits");
                    return Err(Left::Later);
                }
            }
            Mail::Answer { answer } => return self.take_answer(answer).await,
            Mail::Command { command, .. } => match self.prepare(command).await {
                Ok(prepared) => {
                    // Its sender holds a receipt and asks for the answer by the command's id.
                    let _ = self.decide_command(prepared, true);
                }
                Err(detail) => {
                    tracing::warn!(session = %self.seat.key, detail, "mail waits");
                    return Err(Left::Soon);
                }
            },
        }
        Ok(())
    }

    /// Others took this node for dead, and the index names the session no more.
    async fn claim_again(&mut self) -> Result<(), Left> {
        if self.stance == Stance::Looking {
            return Ok(());
        }
        let index = &self.host.stores.active;
        let added = index.add(&self.host.node, &self.seat.key, self.host.now());
        match added.await {
            Ok(version) => {
                tracing::warn!(session = %self.seat.key, "taken for dead, and still its owner");
                self.claim = self.claim.max(Some(version));
                Ok(())
            }
            Err(error) => {
                tracing::warn!(session = %self.seat.key, %error, "index entry not written, again");
                Err(Left::Soon)
            }
        }
    }

    /// All up to this letter is decided and committed.
    pub(super) fn acknowledge(&mut self, up_to: MailSeq) {
        let (mailbox, key) = (Arc::clone(&self.host.stores.mailbox), self.seat.key.clone());
        self.chores.spawn(async move {
            let done = mailbox.acknowledge(&key, up_to).await;
            // One that stays is delivered again, and its command is then known.
            Chore::Done(
                "mail acknowledgement",
                done.map_err(|error| error.to_string()),
            )
        });
    }
}
