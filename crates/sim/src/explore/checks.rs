//! The promises, checked on what is committed and at each start of an effect.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use steadfast_core::effect::Effect;
use steadfast_core::event::{Event, Settlement};
use steadfast_core::id::{CallId, CommandId, TurnId};
use steadfast_core::input::{Durability, ReplayRule};
use steadfast_core::receipt::Progress;
use steadfast_core::session::Session;
use steadfast_core::transcript::ItemBody;
use steadfast_core::waiting;

use super::world::World;

/// What the committed log has said so far.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct History {
    queued: BTreeSet<TurnId>,
    ended: BTreeSet<TurnId>,
    settled: BTreeMap<CallId, Settlement>,
    resolved: BTreeSet<CallId>,
    commands: BTreeSet<CommandId>,
    messages: BTreeSet<CommandId>,
    started: BTreeSet<(CallId, u32)>,
    asked: BTreeSet<(TurnId, u32, u32)>,
    rules: BTreeMap<CallId, ReplayRule>,
    excused: bool,
}

impl History {
    /// The strictest rule of a call, as recorded.
    pub(super) fn rule(&self, call: CallId) -> Option<ReplayRule> {
        self.rules.get(&call).copied()
    }

    /// Takes a fact that is being committed on top of `log`; gives the promise that it breaks.
    pub(super) fn record(&mut self, log: &Session, event: &Event) -> Option<String> {
        match event {
            Event::Activated { epoch, .. } if *epoch <= log.epoch => {
                Some(format!("epoch {epoch} follows epoch {}", log.epoch))
            }
            Event::CommandSettled { command, .. } => once(
                &mut self.commands,
                command.clone(),
                "command answered twice",
            ),
            Event::TurnQueued { message, .. } => {
                self.queued.insert(TurnId(log.seq.next()));
                once(
                    &mut self.messages,
                    message.clone(),
                    "message became two turns",
                )
            }
            Event::TurnStarted { turn } => {
                let beside = |open: &steadfast_core::session::Turn| {
                    format!("turn {turn} started beside {}", open.id)
                };
                log.turn.as_ref().map(beside)
            }
            Event::TurnEnded { turn, .. } => once(&mut self.ended, *turn, "turn ended twice"),
            Event::StepStarted { turn, step } => {
                self.asked.insert((*turn, *step, 1));
                None
            }
            Event::ModelCallRetried {
                turn,
                step,
                attempt,
            } => {
                self.asked.insert((*turn, *step, *attempt));
                None
            }
            Event::ModelReplied { calls, .. } => {
                for (index, call) in (0_u16..).zip(calls) {
                    let id = CallId {
                        epoch: log.epoch,
                        reply: log.seq.next(),
                        index,
                    };
                    self.rules.insert(id, call.triage.rule);
                }
                None
            }
            Event::CallStarted { call, attempt, .. } => {
                self.started.insert((*call, *attempt));
                None
            }
            Event::CallSettled {
                call, settlement, ..
            } => self.settle(log, *call, *settlement),
            Event::CallResolved { call, .. } => {
                once(&mut self.resolved, *call, "call resolved twice")
            }
            _ => None,
        }
    }

    fn settle(&mut self, log: &Session, id: CallId, settlement: Settlement) -> Option<String> {
        if self.settled.insert(id, settlement).is_some() {
            return Some(format!("call {id} settled twice"));
        }
        let started = log.call(id).is_some_and(|call| call.has_started());
        let never_ran = matches!(
            settlement,
            Settlement::Refused
                | Settlement::Denied
                | Settlement::Expired
                | Settlement::Superseded
                | Settlement::ToolGone
        );
        if started && never_ran {
            return Some(format!(
                "call {id} was started and is told as {settlement:?}"
            ));
        }
        None
    }
}

fn once<T: Ord + std::fmt::Debug>(
    seen: &mut BTreeSet<T>,
    what: T,
    promise: &str,
) -> Option<String> {
    let text = format!("{promise}: {what:?}");
    if seen.insert(what) { None } else { Some(text) }
}

/// The promise that starting this effect now would break.
pub(super) fn start(world: &World, index: usize, effect: Effect) -> Option<String> {
    let owner = world.owners[index].as_ref()?;
    if !owner.active {
        return Some(format!(
            "{effect} started before its owner's own Activated was committed"
        ));
    }
    let flying = owner
        .in_flight
        .iter()
        .flat_map(|append| append.events.iter());
    let in_flight =
        |wanted: &dyn Fn(&Event) -> bool| flying.clone().any(|(_, event)| wanted(event));
    let ahead = owner.decided.policy.durability == Durability::On;
    match effect {
        Effect::ModelCall {
            turn,
            step,
            attempt,
            ..
        } => {
            let committed = world.history.asked.contains(&(turn, step, attempt));
            let asks = |event: &Event| match event {
                Event::StepStarted { turn: t, step: s } => (*t, *s, 1) == (turn, step, attempt),
                Event::ModelCallRetried {
                    turn: t,
                    step: s,
                    attempt: a,
                } => (*t, *s, *a) == (turn, step, attempt),
                _ => false,
            };
            let allowed = committed || (ahead && in_flight(&asks));
            if !allowed {
                return Some(format!("{effect} started before its event"));
            }
            invalid_transcript(&owner.decided)
        }
        Effect::ToolCall { call, attempt } => {
            if owner.decided.call(call).is_none() {
                return Some(format!("{effect} started after its cancel was decided"));
            }
            let committed = world.history.started.contains(&(call, attempt));
            let asks = |event: &Event| {
                matches!(event, Event::CallStarted { call: c, attempt: a, .. }
                    if (*c, *a) == (call, attempt))
            };
            let safe = owner
                .decided
                .call(call)
                .is_some_and(|c| c.triage.rule == ReplayRule::Safe);
            let allowed = committed || (ahead && safe && in_flight(&asks));
            (!allowed).then(|| format!("{effect} started before its event"))
        }
        Effect::Compaction { .. }
        | Effect::SlotReservation { .. }
        | Effect::Check { .. }
        | Effect::Job { .. }
        | Effect::Notice { .. } => None,
    }
}

/// A transcript is valid when each call has exactly one result, right after its reply.
fn invalid_transcript(session: &Session) -> Option<String> {
    let mut open: Vec<CallId> = Vec::new();
    for item in &session.transcript.items {
        match &item.body {
            ItemBody::Reply { calls, .. } => {
                if !open.is_empty() {
                    return Some(format!("the model is asked while {open:?} have no result"));
                }
                open = calls.iter().map(|call| call.id).collect();
            }
            ItemBody::Results { results, .. } => {
                let answered: Vec<CallId> = results.iter().map(|result| result.id).collect();
                if answered != open {
                    return Some(format!("results {answered:?} follow calls {open:?}"));
                }
                open.clear();
            }
            ItemBody::User { .. } | ItemBody::Note { .. } if !open.is_empty() => {
                return Some(format!(
                    "something stands between calls {open:?} and their results"
                ));
            }
            ItemBody::User { .. }
            | ItemBody::Note { .. }
            | ItemBody::Summary { .. }
            | ItemBody::Packed { .. } => {}
        }
    }
    let unanswered = !open.is_empty();
    unanswered.then(|| format!("the model is asked while {open:?} have no result"))
}

/// The promise broken by a world in which nothing more can happen.
pub(super) fn stuck(world: &World) -> Option<String> {
    if !waiting(&world.log).is_empty() {
        return None;
    }
    if world.log_wants_owner() || world.log.turn.is_some() || !world.log.queue.is_empty() {
        return Some("the session is stuck: something is open and nothing can happen".into());
    }
    let open = world.history.messages.iter().find(|message| {
        let receipt = world.log.receipts.get(message);
        !receipt.is_some_and(|receipt| matches!(receipt.progress, Some(Progress::Ended { .. })))
    });
    open.map(|message| format!("message {message} never ended"))
}
