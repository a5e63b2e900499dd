//! Mail comes first: a command at the door waits until the mailbox was read after it came.
//!
//! Letters may have been receipted by other nodes, and their senders must not be overtaken. Where
//! no other node is, every letter is told to its owner before it is receipted, and none is read for.

use std::time::Duration;

use steadfast_core::command::Command;
use tokio::sync::oneshot;

use super::{Driver, Haste, Stance};
use crate::agent::Drive;
use crate::doors::Refusal;
use crate::sessions::Admission;

/// Where the answer to a command goes.
pub(super) type Reply = oneshot::Sender<Result<Admission, Refusal>>;

/// A command that waits for a reading of the mailbox.
pub(super) struct Held {
    pub(super) command: Command,
    pub(super) drive: Option<Drive>,
    pub(super) reply: Reply,
    /// The reading that finds all mail from before it.
    pub(super) found_by: u64,
}

impl Driver {
    /// A command stands at the door.
    pub(super) async fn command_came(
        &mut self,
        command: Command,
        drive: Option<Drive>,
        reply: Reply,
    ) {
        let drains = matches!(
            self.stance,
            Stance::Draining {
                haste: Haste::Drain { .. },
                ..
            }
        );
        if drains {
            // Mail is left to the next owner, so commands are too.
            let _ = reply.send(Err(Refusal::Releasing));
            return;
        }
        if self.mail_was_read_since() || !self.takes_mail() {
            return self.commanded(command, drive, reply).await;
        }
        let found_by = self.mailroom.readings + 1;
        self.mailroom.held = Some(Box::new(Held {
            command,
            drive,
            reply,
            found_by,
        }));
        self.begin_reading(Duration::ZERO);
    }

    /// Whether what knocks now stood at the door when the mailbox was read last.
    pub(super) fn mail_was_read_since(&mut self) -> bool {
        let covered = self.mailroom.covered > 0;
        self.mailroom.covered = self.mailroom.covered.saturating_sub(1);
        covered || self.host.members.are_alone()
    }

    /// Decides about the command that waited, once all mail from before it is decided.
    pub(super) async fn decide_held(&mut self) {
        let read = self.mailroom.read_whole;
        if let Some(held) = self.mailroom.held.take_if(|held| held.found_by <= read) {
            let Held {
                command,
                drive,
                reply,
                ..
            } = *held;
            self.commanded(command, drive, reply).await;
        }
    }

    /// Whether letters are taken: not by an owner that lets go in haste, nor by who is none.
    pub(super) fn takes_mail(&self) -> bool {
        match self.stance {
            Stance::Looking | Stance::Owning { .. } => true,
            Stance::Draining { haste, .. } => haste == Haste::Handover,
            Stance::Elsewhere | Stance::Releasing => false,
        }
    }
}
