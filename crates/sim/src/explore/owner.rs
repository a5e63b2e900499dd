//! An owner: a driver without IO. Its three states are what is committed, what is in flight on top
//! of it, and what is decided on top of that.

use std::collections::BTreeMap;

use serde::Serialize;
use steadfast_core::effect::Effect;
use steadfast_core::event::Event;
use steadfast_core::id::{Fence, NodeId, Timestamp};
use steadfast_core::input::{Activate, Input, Policy, RuleToday};
use steadfast_core::session::{Ownership, Session};
use steadfast_core::{Answer, apply, decide, may_run_ahead, outstanding};

use super::mutant::Mutant;
use super::scope::{Scope, triage};
use super::world::{Mail, World};

/// An append: its bytes are its events, its fence is `expected`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Append {
    pub(super) writer: usize,
    pub(super) expected: u64,
    pub(super) events: Vec<(Timestamp, Event)>,
}

/// An owner, or one that tries to be.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Owner {
    pub(super) committed: Session,
    pub(super) flying: Session,
    pub(super) decided: Session,
    pub(super) in_flight: Option<Append>,
    pub(super) pending: Vec<(Timestamp, Event)>,
    /// The log's token after what is committed.
    pub(super) tail: u64,
    /// Its own `Activated` is committed.
    pub(super) active: bool,
    /// What runs, and whether it took effect already.
    pub(super) running: BTreeMap<Effect, bool>,
}

/// Why a node takes a session over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grounds {
    /// Mail, a timer or a sweep asks for an owner.
    Wanted,
    /// Its owner seems to be gone, whether it is or not.
    Suspicion,
}

/// A node takes the session over, and decides the mail that waits. Whatever led here: one that is
/// not suspected keeps its session.
pub(super) fn activate(world: &mut World, index: usize, scope: &Scope, grounds: Grounds) {
    if grounds != Grounds::Suspicion && world.holder().is_some_and(|holder| holder != index) {
        world.breaks("an owner that is alive and reachable was taken over");
    }
    let session = world.log.clone();
    let calls = session.turn.iter().flat_map(|turn| turn.calls.iter());
    let open_calls = calls
        .map(|call| {
            let today = triage(&call.tool);
            (
                call.id,
                RuleToday {
                    rule: today.rule,
                    has_check: today.has_check,
                },
            )
        })
        .collect();
    let activate = Activate {
        node: NodeId::new(["a", "b"][index]).unwrap_or_else(|_| unreachable!("a literal")),
        epoch_min: steadfast_core::id::Epoch(0),
        policy: Policy {
            durability: scope.durability,
            ..Policy::default()
        },
        open_calls,
    };
    world.owners[index] = Some(Owner {
        committed: session.clone(),
        flying: session.clone(),
        decided: session,
        in_flight: None,
        pending: Vec::new(),
        tail: world.tail,
        active: false,
        running: BTreeMap::new(),
    });
    decide_on(world, index, &Input::Activate(activate));
    take_mail(world, index);
    launch(world, index);
    reconcile(world, index);
}

/// Decides, in order, the mail that the state has not taken.
pub(super) fn take_mail(world: &mut World, index: usize) {
    for mail in world.mailbox.clone() {
        let input = match mail {
            Mail::Command(command) => {
                let known = |owner: &Owner| owner.decided.receipts.get(&command.id).is_some();
                if world.owners[index].as_ref().is_some_and(known) && !world.is(Mutant::NoDedupe) {
                    continue;
                }
                Input::Command {
                    command: *command,
                    receipted: true,
                }
            }
            Mail::Answer { call, attempt } => super::steps::answer(call, attempt),
        };
        decide_on(world, index, &input);
    }
}

/// Decides one input on the newest state.
pub(super) fn decide_on(world: &mut World, index: usize, input: &Input) -> Option<Answer> {
    let (clock, mutant) = (world.clock, world.mutant);
    let owner = world.owners[index].as_mut()?;
    let mut decision = decide(&owner.decided, input, clock);
    if let (Some(Mutant::NoDedupe), Input::Command { command, .. }) = (mutant, input)
        && decision.answer.is_some_and(|answer| answer.repeated)
    {
        decision = decide(&forgetful(&owner.decided), input, clock);
        let _ = command;
    }
    let at = clock.max(owner.decided.at);
    for event in decision.events {
        let event = mutant.map_or_else(|| event.clone(), |mutant| mutant.distort(event.clone()));
        apply(&mut owner.decided, at, &event);
        owner.pending.push((at, event));
    }
    decision.answer
}

/// A state without receipts, for the bug that forgets them.
fn forgetful(session: &Session) -> Session {
    Session {
        receipts: Default::default(),
        ..session.clone()
    }
}

/// Sends what is pending as one Record, if none is in flight.
pub(super) fn launch(world: &mut World, index: usize) {
    let Some(owner) = world.owners[index].as_mut() else {
        return;
    };
    if owner.in_flight.is_some() || owner.pending.is_empty() {
        return;
    }
    let events = std::mem::take(&mut owner.pending);
    owner.in_flight = Some(Append {
        writer: index,
        expected: owner.tail,
        events,
    });
    owner.flying = owner.decided.clone();
}

/// The append in flight is acknowledged, or found in the log.
pub(super) fn committed(world: &mut World, index: usize) {
    let tail = world.tail;
    let Some(owner) = world.owners[index].as_mut() else {
        return;
    };
    owner.in_flight = None;
    owner.committed = owner.flying.clone();
    owner.tail = tail;
    owner.active = true;
    if matches!(owner.committed.ownership, Ownership::Released { .. }) {
        world.owners[index] = None;
        return;
    }
    launch(world, index);
    reconcile(world, index);
}

/// Starts what is wanted and aborts what is not.
pub(super) fn reconcile(world: &mut World, index: usize) {
    let Some(owner) = world.owners[index].clone() else {
        return;
    };
    let wanted = outstanding(&owner.decided);
    for effect in startable(world, &owner) {
        let still_wanted = wanted.contains(&effect) || world.is(Mutant::CancelLetsDecidedCallStart);
        if still_wanted && !owner.running.contains_key(&effect) {
            begin(world, index, effect);
        }
    }
    let Some(owner) = world.owners[index].as_mut() else {
        return;
    };
    let epoch = owner.decided.epoch;
    let unwanted: Vec<Effect> = owner
        .running
        .keys()
        .filter(|effect| !wanted.contains(effect))
        .copied()
        .collect();
    for effect in unwanted {
        let happened = owner.running.remove(&effect);
        // A tool that is told to stop may still act, and answer.
        if let (Effect::ToolCall { call, attempt }, Some(false)) = (effect, happened) {
            let fence = Fence { epoch, attempt };
            world.outside.leftovers.insert((index, call, fence));
        }
    }
}

fn startable(world: &World, owner: &Owner) -> Vec<Effect> {
    let mut effects = Vec::new();
    if owner.active {
        effects.extend(outstanding(&owner.committed));
    }
    if owner.active || world.is(Mutant::EffectBeforeActivated) {
        let all = world.is(Mutant::NeverRunsAhead);
        let ahead = |effect: &Effect| all || may_run_ahead(&owner.flying, effect);
        effects.extend(outstanding(&owner.flying).into_iter().filter(ahead));
    }
    if owner.active && world.is(Mutant::TwoStepsAhead) {
        let ahead = |effect: &Effect| may_run_ahead(&owner.decided, effect);
        effects.extend(outstanding(&owner.decided).into_iter().filter(ahead));
    }
    effects
}

fn begin(world: &mut World, index: usize, effect: Effect) {
    if let Some(promise) = super::checks::start(world, index, effect) {
        world.breaks(promise);
    }
    if let Some(owner) = world.owners[index].as_mut() {
        owner.running.insert(effect, false);
    }
}
