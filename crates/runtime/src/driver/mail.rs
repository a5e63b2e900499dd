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

use super::chores::Chore;
use super::{Driver, Stance};

/// What is known of the mailbox.
#[derive(Default)]
pub(super) struct Mailroom {
    /// The newest letter that was decided about.
    taken: MailSeq,
    reading: bool,
    /// More came while it was read.
    read_again: bool,
    /// A letter of a newer release stands in the way: what its decoder said.
    newer_release: Option<String>,
}

impl Mailroom {
    /// Whether letters may stand before what is at the door.
    pub(super) fn stands_first(&self) -> bool {
        self.reading || self.newer_release.is_some()
    }

    /// Why this node leaves the session to others, if it does.
    pub(super) fn newer_release(&self) -> Option<String> {
        self.newer_release.clone()
    }
}

/// Why a letter is not taken now.
enum Left {
    /// It is tried again soon, and nothing overtakes it.
    Soon,
    /// It comes again by itself; it asks for nothing that could be overtaken.
    Later,
    /// It is for a node of a newer release.
    ToOthers,
}

impl Driver {
    /// Reads the mailbox, if it is not being read.
    pub(super) fn read_mail(&mut self) {
        let takes_mail = matches!(self.stance, Stance::Looking | Stance::Owning { .. });
        if !takes_mail || self.mailroom.newer_release.is_some() {
            return;
        }
        if self.mailroom.reading {
            self.mailroom.read_again = true;
            return;
        }
        self.begin_reading(Duration::ZERO);
    }

    fn begin_reading(&mut self, wait: Duration) {
        self.mailroom.reading = true;
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
            Ok(letters) => self.take_letters(letters).await,
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
        if matches!(self.stance, Stance::Draining { .. } | Stance::Releasing) {
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
                Err(Left::Later | Left::ToOthers) => return,
            }
            self.mailroom.taken = letter.seq;
            self.wait_for_mail(letter.seq);
        }
        if full {
            self.read_mail();
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
            Mail::WakeUp { .. } => {
                if let Err(detail) = self.woken().await {
                    tracing::warn!(session = %self.seat.key, detail, "wake-up waits");
                    return Err(Left::Later);
                }
            }
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
