//! What owners do, and what befalls them.

use std::collections::BTreeMap;

use steadfast_core::effect::{Effect, Wake};
use steadfast_core::input::Input;
use steadfast_core::session::Ownership;
use steadfast_core::{next_deadline, outstanding};

use super::outcomes::{late, outcomes};
use super::{Next, add, feed};
use crate::explore::mutant::Mutant;
use crate::explore::owner::{self, Grounds, Owner};
use crate::explore::scope::Scope;
use crate::explore::world::{Mail, World};

pub(super) fn activations(world: &World, scope: &Scope, index: usize, next: &mut Next) {
    let other = world.owners[1 - index].as_ref();
    let wake = match &world.log.ownership {
        Ownership::Never => false,
        Ownership::Released { wake } => match wake {
            Wake::Now | Wake::At(_) => true,
            Wake::Never => false,
        },
        // The owner is gone, and the index of owned sessions says so.
        Ownership::Owned { .. } => true,
    };
    let mail = world.mailbox.iter().any(|mail| match mail {
        Mail::Command(command) => world.log.receipts.get(&command.id).is_none(),
        Mail::Answer { call, .. } => {
            world.log.call(*call).is_some() || world.log.in_doubt.contains_key(call)
        }
    });
    if !wake && !mail {
        return;
    }
    if other.is_none() {
        add(next, world, format!("{index} activates"), |world| {
            if let Ownership::Released { wake: Wake::At(at) } = world.log.ownership
                && !mail
            {
                world.clock = world.clock.max(at);
            }
            owner::activate(world, index, scope, Grounds::Wanted);
        });
    } else if world.budget.suspicions > 0 {
        add(
            next,
            world,
            format!("{index} suspects the owner and activates"),
            |world| {
                world.budget.suspicions -= 1;
                owner::activate(world, index, scope, Grounds::Suspicion);
            },
        );
    }
}

pub(super) fn owned(world: &World, scope: &Scope, index: usize, owner: &Owner, next: &mut Next) {
    if world.budget.crashes > 0 {
        add(next, world, format!("{index} crashes"), |world| {
            world.budget.crashes -= 1;
            for (&effect, &happened) in &owner.running {
                if let (Effect::ToolCall { call, attempt }, false) = (effect, happened) {
                    late(world, index, call, attempt);
                }
            }
            world.owners[index] = None;
        });
    }
    append_outcomes(world, scope, index, owner, next);
    if owner.active {
        // An owner that does not know yet that it lost the log goes on like any other.
        for (&effect, &happened) in &owner.running {
            outcomes(world, scope, index, (effect, happened), next);
        }
        idle_steps(world, index, owner, next);
    }
}

fn append_outcomes(world: &World, scope: &Scope, index: usize, owner: &Owner, next: &mut Next) {
    let Some(append) = &owner.in_flight else {
        return;
    };
    add(
        next,
        world,
        format!("append of {index} is answered"),
        |world| {
            // Found at the tail: a lost acknowledgement, made good by reading the tail.
            let landed = world.last.as_ref() == Some(append) || world.land(append);
            if landed {
                owner::committed(world, index);
            } else {
                world.owners[index] = None;
                if world.is(Mutant::ConflictReactivates) {
                    owner::activate(world, index, scope, Grounds::Wanted);
                }
            }
        },
    );
    if append.expected != world.tail {
        return;
    }
    if world.budget.lost_acks > 0 {
        add(
            next,
            world,
            format!("append of {index} lands, answer lost"),
            |world| {
                world.budget.lost_acks -= 1;
                world.land(append);
                taken_as_failed(world, index);
            },
        );
    }
    if world.budget.ghosts > 0 && !world.ghosts.contains(append) {
        add(
            next,
            world,
            format!("append of {index} is delayed"),
            |world| {
                world.budget.ghosts -= 1;
                world.ghosts.push(append.clone());
                taken_as_failed(world, index);
            },
        );
    }
}

/// The bug: the owner drops what it sent and decides anew on what it knows to be committed.
fn taken_as_failed(world: &mut World, index: usize) {
    if !world.is(Mutant::UnknownTakenAsFailed) {
        return;
    }
    let Some(owner) = world.owners[index].as_mut() else {
        return;
    };
    owner.in_flight = None;
    owner.pending.clear();
    owner.decided = owner.committed.clone();
    owner.flying = owner.committed.clone();
    owner.running = BTreeMap::new();
    owner::reconcile(world, index);
}

fn idle_steps(world: &World, index: usize, owner: &Owner, next: &mut Next) {
    let untaken = world.mailbox.iter().any(|mail| match mail {
        Mail::Command(command) => owner.decided.receipts.get(&command.id).is_none(),
        Mail::Answer { call, .. } => {
            owner
                .decided
                .call(*call)
                .is_some_and(|call| !call.is_settled())
                || owner.decided.in_doubt.contains_key(call)
        }
    });
    if untaken {
        add(next, world, format!("{index} takes its mail"), |world| {
            owner::take_mail(world, index);
            owner::launch(world, index);
            owner::reconcile(world, index);
        });
    }
    if let Some(at) = next_deadline(&owner.decided) {
        add(next, world, format!("timer of {index}"), |world| {
            world.clock = world.clock.max(at);
            feed(world, index, &Input::TimerFired);
            let after = world.owners[index]
                .as_ref()
                .and_then(|owner| next_deadline(&owner.decided));
            if after.is_some_and(|after| after <= world.clock) {
                world.breaks("a timer fired and its deadline stayed");
            }
        });
    }
    let at_rest = outstanding(&owner.decided).is_empty()
        && owner.in_flight.is_none()
        && owner.pending.is_empty();
    if at_rest && !untaken && !matches!(owner.decided.ownership, Ownership::Released { .. }) {
        add(next, world, format!("{index} releases"), |world| {
            feed(world, index, &Input::Release);
            forget_wake_up(world, index);
        });
    }
}

/// The bug: `Released` says «never» although a deadline comes.
fn forget_wake_up(world: &mut World, index: usize) {
    use steadfast_core::event::Event;
    if !world.is(Mutant::ReleaseLosesWakeUp) {
        return;
    }
    let in_flight = world.owners[index]
        .as_mut()
        .and_then(|owner| owner.in_flight.as_mut());
    for (_, event) in in_flight
        .into_iter()
        .flat_map(|append| append.events.iter_mut())
    {
        if let Event::Released { wake } = event {
            *wake = Wake::Never;
        }
    }
}
