//! What may happen next: every action with the world that follows from it.

mod clients;
mod outcomes;
mod owners;

use steadfast_core::content::ToolOutput;
use steadfast_core::id::{CallId, Fence};
use steadfast_core::input::{CallOutcome, Input, ReplayRule};

use super::mutant::Mutant;
use super::owner;
use super::scope::Scope;
use super::world::{Mail, World};

type Next = Vec<(String, World)>;

/// Everything that may happen.
pub(super) fn successors(world: &World, scope: &Scope) -> Next {
    let mut next = Next::new();
    clients::clients(world, scope, &mut next);
    ghosts(world, &mut next);
    leftovers(world, &mut next);
    late(world, &mut next);
    remote(world, &mut next);
    for index in 0..2 {
        match &world.owners[index] {
            None => owners::activations(world, scope, index, &mut next),
            Some(owner) => owners::owned(world, scope, index, owner, &mut next),
        }
    }
    next
}

fn add(next: &mut Next, world: &World, label: String, change: impl FnOnce(&mut World)) {
    let mut after = world.clone();
    change(&mut after);
    next.push((label, after));
}

fn ghosts(world: &World, next: &mut Next) {
    for (position, _) in world.ghosts.iter().enumerate() {
        add(next, world, format!("ghost {position} lands"), |world| {
            let ghost = world.ghosts.remove(position);
            world.land(&ghost);
        });
        add(next, world, format!("ghost {position} vanishes"), |world| {
            world.ghosts.remove(position);
        });
    }
}

fn leftovers(world: &World, next: &mut Next) {
    for &(index, call, fence) in &world.outside.leftovers {
        let gone = |world: &mut World| {
            world.outside.leftovers.remove(&(index, call, fence));
        };
        add(next, world, format!("aborted {call} did nothing"), gone);
        add(
            next,
            world,
            format!("aborted {call} acts and answers"),
            |world| {
                gone(world);
                if take_effect(world, call, fence) {
                    feed(world, index, &answer(call, fence.attempt));
                }
            },
        );
    }
}

fn late(world: &World, next: &mut Next) {
    for &(call, fence) in &world.outside.late {
        let label = format!("a request of {call} under {fence} arrives late");
        add(next, world, label, |world| {
            world.outside.late.remove(&(call, fence));
            take_effect(world, call, fence);
        });
    }
}

/// The outcome of a tool that did what it was asked.
pub(super) fn answer(call: CallId, attempt: u32) -> Input {
    let outcome = CallOutcome::Done(ToolOutput::text("done").into());
    Input::CallFinished {
        call,
        attempt,
        outcome,
    }
}

fn feed(world: &mut World, index: usize, input: &Input) {
    owner::decide_on(world, index, input);
    owner::launch(world, index);
    owner::reconcile(world, index);
}

/// A call acts on the outside; `false` when the tool refuses its fence.
fn take_effect(world: &mut World, call: CallId, fence: Fence) -> bool {
    let refused = world.outside.refused_up_to.get(&call);
    if refused.is_some_and(|up_to| match world.mutant {
        Some(Mutant::FenceWithoutAttempt) => fence.epoch < up_to.epoch,
        _ => fence <= *up_to,
    }) {
        return false;
    }
    if world.outside.withdrawn.contains(&call) {
        world.breaks(format!("{call} is told as withdrawn and acts"));
    }
    let effects = world.outside.effects.entry(call).or_insert(0);
    *effects += 1;
    let twice = *effects > 1;
    if twice && world.history.rule(call) == Some(ReplayRule::Never) {
        world.breaks(format!("the never call {call} took effect twice"));
    }
    true
}

fn remote(world: &World, next: &mut Next) {
    for &(call, attempt) in &world.outside.jobs {
        for worker in 0..2_u8 {
            let again = world
                .outside
                .deliveries
                .iter()
                .any(|&(_, other, _)| other == call);
            if world.outside.deliveries.contains(&(worker, call, attempt))
                || (again && world.budget.redeliveries == 0)
            {
                continue;
            }
            add(
                next,
                world,
                format!("worker {worker} gets job {call}"),
                |world| {
                    if again {
                        world.budget.redeliveries -= 1;
                    }
                    world.outside.deliveries.insert((worker, call, attempt));
                },
            );
        }
    }
    for &(worker, call, attempt) in &world.outside.deliveries {
        add(
            next,
            world,
            format!("worker {worker} does job {call}"),
            |world| {
                world.outside.deliveries.remove(&(worker, call, attempt));
                // A claim belongs to one delivery: the same worker, given the job again, has it not.
                let claimed = world.outside.claims.insert(call)
                    || (world.is(Mutant::ClaimOfWorker)
                        && !world.outside.withdrawn.contains(&call));
                if claimed || world.is(Mutant::JobWithoutClaim) {
                    // No check of the tool itself is asked of these, so none refuses them.
                    let epoch = world.log.epoch;
                    take_effect(world, call, Fence { epoch, attempt });
                    world.mailbox.push(Mail::Answer { call, attempt });
                }
                world.outside.jobs.remove(&(call, attempt));
            },
        );
    }
}
