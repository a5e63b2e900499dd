//! The tiny world: one log, one mailbox, two owners, and the outside that tools act on.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use steadfast_core::command::Command;
use steadfast_core::event::Event;
use steadfast_core::id::{CallId, CommandId, Fence, SessionId, SessionKey, TenantId, Timestamp};
use steadfast_core::session::Session;
use steadfast_core::{apply, outstanding};

use super::checks::History;
use super::mutant::Mutant;
use super::owner::{Append, Owner};
use super::scope::{Budget, Scope};

/// All that exists.
#[derive(Debug, Clone, Serialize)]
pub(super) struct World {
    pub(super) clock: Timestamp,
    /// The fold of the committed log.
    pub(super) log: Session,
    /// The log's token.
    pub(super) tail: u64,
    /// Who wrote the last Record.
    pub(super) last: Option<Append>,
    pub(super) owners: [Option<Owner>; 2],
    /// Appends that may land late.
    pub(super) ghosts: Vec<Append>,
    pub(super) mailbox: Vec<Mail>,
    pub(super) outside: Outside,
    pub(super) budget: Budget,
    /// How many of the scope's commands were sent.
    pub(super) sent: usize,
    pub(super) cancel_sent: bool,
    /// Approvals that were answered, with the answer.
    pub(super) answered: BTreeMap<CallId, bool>,
    /// Commands decided at a door, with the mail that had waited longer.
    pub(super) doors: Vec<(CommandId, Vec<CommandId>)>,
    pub(super) history: History,
    #[serde(skip)]
    pub(super) mutant: Option<Mutant>,
    /// The first broken promise.
    #[serde(skip)]
    pub(super) broken: Option<String>,
}

/// A letter in the mailbox.
#[derive(Debug, Clone, Serialize)]
pub(super) enum Mail {
    /// A client's.
    Command(Box<Command>),
    /// A remote worker's answer.
    Answer { call: CallId, attempt: u32 },
}

/// What tools did, and what is still under way outside the owners.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Outside {
    /// How often each call took effect.
    pub(super) effects: BTreeMap<CallId, u32>,
    /// A check under this fence said «not done»: attempts up to it are refused.
    pub(super) refused_up_to: BTreeMap<CallId, Fence>,
    /// Calls whose owner no longer wants them, and that may still happen.
    pub(super) leftovers: BTreeSet<(usize, CallId, Fence)>,
    /// Requests that nobody listens to any more, and that may still arrive.
    pub(super) late: BTreeSet<(CallId, Fence)>,
    /// Jobs in the tool queue.
    pub(super) jobs: BTreeSet<(CallId, u32)>,
    /// Jobs delivered and not acknowledged, by worker.
    pub(super) deliveries: BTreeSet<(u8, CallId, u32)>,
    /// `never` jobs that a worker, or a cancel, has claimed.
    pub(super) claims: BTreeSet<CallId>,
    /// Those of them that a cancel or a deadline has claimed: told as never run.
    pub(super) withdrawn: BTreeSet<CallId>,
}

impl World {
    pub(super) fn new(scope: &Scope, mutant: Option<Mutant>) -> Self {
        let key = SessionKey {
            tenant: TenantId::new("t").unwrap_or_else(|_| unreachable!("a literal")),
            session: SessionId::new("s").unwrap_or_else(|_| unreachable!("a literal")),
        };
        Self {
            clock: Timestamp(1_000),
            log: Session::new(key),
            tail: 0,
            last: None,
            owners: [None, None],
            ghosts: Vec::new(),
            mailbox: Vec::new(),
            outside: Outside::default(),
            budget: scope.budget,
            sent: 0,
            cancel_sent: false,
            answered: BTreeMap::new(),
            doors: Vec::new(),
            history: History::default(),
            mutant,
            broken: None,
        }
    }

    /// Two worlds with one hash are taken for the same.
    pub(super) fn hash(&self) -> u128 {
        let bytes = rmp_serde::to_vec(self).unwrap_or_default();
        let mut first = [0; 16];
        first.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
        // A broken world is never the same as a whole one.
        u128::from_be_bytes(first) ^ u128::from(self.broken.is_some())
    }

    /// Notes the first broken promise.
    pub(super) fn breaks(&mut self, promise: impl Into<String>) {
        if self.broken.is_none() {
            self.broken = Some(promise.into());
        }
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The owner that lives and holds the log, as far as the log says.
    pub(super) fn holder(&self) -> Option<usize> {
        (0..2).find(|&index| {
            self.owners[index]
                .as_ref()
                .is_some_and(|owner| owner.active && owner.decided.epoch == self.log.epoch)
        })
    }

    /// Compare-and-append; `false`: conflict.
    pub(super) fn land(&mut self, append: &Append) -> bool {
        if append.expected != self.tail {
            return false;
        }
        for (at, event) in &append.events {
            self.check_event(event);
            apply(&mut self.log, *at, event);
        }
        self.tail += 1;
        self.last = Some(append.clone());
        true
    }

    fn check_event(&mut self, event: &Event) {
        let broken = self.history.record(&self.log, event);
        if let Some(promise) = broken {
            self.breaks(promise);
        }
        if let Event::CommandSettled { command, .. } = event {
            self.check_order(command);
        }
    }

    /// A command at the door is decided after all mail that waited longer.
    fn check_order(&mut self, command: &CommandId) {
        let overtaken = self
            .doors
            .iter()
            .find(|(door, _)| door == command)
            .and_then(|(_, before)| {
                before
                    .iter()
                    .find(|mail| self.log.receipts.get(mail).is_none())
                    .cloned()
            });
        if let Some(mail) = overtaken {
            self.breaks(format!(
                "{command} was decided before {mail}, which had waited longer"
            ));
        }
    }

    /// Whether anything in the log needs an owner at once.
    pub(super) fn log_wants_owner(&self) -> bool {
        !outstanding(&self.log).is_empty()
    }
}
