//! What may happen next: every action with the world that follows from it.

use std::collections::BTreeMap;

use steadfast_core::call::CallState;
use steadfast_core::command::{Command, CommandBody};
use steadfast_core::content::{Finish, ModelReply, ReplyPart, Stored, ToolOutput, Usage};
use steadfast_core::effect::{Effect, Wake};
use steadfast_core::id::{ApprovalId, CallId};
use steadfast_core::input::{
    CallOutcome, CheckAnswer, FailureClass, Input, ModelFailure, ReplayRule,
};
use steadfast_core::session::{Ownership, Session};
use steadfast_core::{next_deadline, outstanding};

use super::mutant::Mutant;
use super::owner::{self, Owner};
use super::scope::{Scope, command_id, proposed, triage};
use super::world::{Mail, World};

type Next = Vec<(String, World)>;

/// Everything that may happen.
pub(super) fn successors(world: &World, scope: &Scope) -> Next {
    let mut next = Next::new();
    clients(world, scope, &mut next);
    ghosts(world, &mut next);
    leftovers(world, &mut next);
    remote(world, &mut next);
    for index in 0..2 {
        match &world.owners[index] {
            None => activations(world, scope, index, &mut next),
            Some(owner) => owned(world, scope, index, owner, &mut next),
        }
    }
    next
}

fn add(next: &mut Next, world: &World, label: String, change: impl FnOnce(&mut World)) {
    let mut after = world.clone();
    change(&mut after);
    next.push((label, after));
}

fn clients(world: &World, scope: &Scope, next: &mut Next) {
    if let Some(command) = scope.commands.get(world.sent) {
        send(
            world,
            command,
            &mut |world: &mut World| world.sent += 1,
            next,
        );
    }
    for command in scope.commands.iter().take(world.sent) {
        if is_lost(world, command) {
            // The client got no answer, so it repeats.
            send(world, command, &mut |_: &mut World| {}, next);
        } else if world.budget.duplicates > 0 {
            send(
                world,
                command,
                &mut |world: &mut World| world.budget.duplicates -= 1,
                next,
            );
        }
    }
    if scope.cancel && !world.cancel_sent && world.log.turn.is_some() {
        let turn = world.log.turn.as_ref().map(|turn| turn.id);
        let command = Command {
            id: command_id("c"),
            body: CommandBody::Cancel { turn },
        };
        send(
            world,
            &command,
            &mut |world: &mut World| world.cancel_sent = true,
            next,
        );
    }
    if scope.approvals {
        answers(world, next);
    }
}

/// Neither decided nor on its way.
fn is_lost(world: &World, command: &Command) -> bool {
    let waits = world
        .mailbox
        .iter()
        .any(|mail| matches!(mail, Mail::Command(other) if other.id == command.id));
    let known = |session: &Session| session.receipts.get(&command.id).is_some();
    let decided = world
        .owners
        .iter()
        .flatten()
        .any(|owner| known(&owner.decided));
    !waits && !decided && !known(&world.log)
}

fn send(world: &World, command: &Command, sent: &mut dyn FnMut(&mut World), next: &mut Next) {
    let holder = world.holder();
    for index in 0..2 {
        if world.owners[index]
            .as_ref()
            .is_some_and(|owner| owner.active)
        {
            let mut after = world.clone();
            sent(&mut after);
            door(&mut after, index, command);
            next.push((format!("{} at the door of {index}", command.id), after));
        }
    }
    if holder.is_none() || world.budget.mails > 0 {
        let mut after = world.clone();
        sent(&mut after);
        if holder.is_some() {
            after.budget.mails -= 1;
        }
        after.mailbox.push(Mail::Command(command.clone()));
        next.push((format!("{} into the mailbox", command.id), after));
    }
}

fn door(world: &mut World, index: usize, command: &Command) {
    let waiting = world.mailbox.iter().filter_map(|mail| match mail {
        Mail::Command(command) => Some(command.id.clone()),
        Mail::Answer { .. } => None,
    });
    let before = waiting.filter(|id| *id != command.id).collect();
    if !world.doors.iter().any(|(id, _)| *id == command.id) {
        world.doors.push((command.id.clone(), before));
    }
    if !world.is(Mutant::AdmissionOvertakesMail) {
        owner::take_mail(world, index);
    }
    let input = Input::Command {
        command: command.clone(),
        receipted: false,
    };
    owner::decide_on(world, index, &input);
    owner::launch(world, index);
    owner::reconcile(world, index);
}

fn answers(world: &World, next: &mut Next) {
    let calls = world.log.turn.iter().flat_map(|turn| turn.calls.iter());
    let open = calls.filter(|call| matches!(call.state, CallState::AwaitingApproval { .. }));
    for call in open.filter(|call| !world.answered.contains_key(&call.id)) {
        for approved in [true, false] {
            let id = call.id;
            let command = Command {
                id: command_id(&format!("decide-{id}-{approved}")),
                body: CommandBody::DecideApproval {
                    approval: ApprovalId(id),
                    approved,
                    reason: None,
                    triage: Some(triage("never")),
                },
            };
            let mut note = |world: &mut World| {
                world.answered.insert(id, approved);
            };
            send(world, &command, &mut note, next);
        }
    }
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
    for &(index, call, attempt) in &world.outside.leftovers {
        let gone = |world: &mut World| {
            world.outside.leftovers.remove(&(index, call, attempt));
        };
        add(next, world, format!("aborted {call} did nothing"), gone);
        add(
            next,
            world,
            format!("aborted {call} acts and answers"),
            |world| {
                gone(world);
                take_effect(world, call, u64::MAX);
                feed(world, index, &answer(call, attempt));
            },
        );
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

/// A call acts on the outside; `false` when the tool refuses this owner's epoch.
fn take_effect(world: &mut World, call: CallId, epoch: u64) -> bool {
    if world
        .outside
        .refused_below
        .get(&call)
        .is_some_and(|&below| epoch < below)
    {
        return false;
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
                let claimed = world.outside.claims.insert(call);
                if claimed || world.is(Mutant::JobWithoutClaim) {
                    take_effect(world, call, u64::MAX);
                    world.mailbox.push(Mail::Answer { call, attempt });
                }
                world.outside.jobs.remove(&(call, attempt));
            },
        );
    }
}

fn activations(world: &World, scope: &Scope, index: usize, next: &mut Next) {
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
            owner::activate(world, index, scope);
        });
    } else if world.budget.suspicions > 0 {
        add(
            next,
            world,
            format!("{index} suspects the owner and activates"),
            |world| {
                world.budget.suspicions -= 1;
                owner::activate(world, index, scope);
            },
        );
    }
}

fn owned(world: &World, scope: &Scope, index: usize, owner: &Owner, next: &mut Next) {
    if world.budget.crashes > 0 {
        add(next, world, format!("{index} crashes"), |world| {
            world.budget.crashes -= 1;
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
                    if world.holder().is_some() {
                        world.breaks("an owner that is alive and reachable was taken over");
                    }
                    owner::activate(world, index, scope);
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

fn outcomes(
    world: &World,
    scope: &Scope,
    index: usize,
    (effect, happened): (Effect, bool),
    next: &mut Next,
) {
    match effect {
        Effect::ModelCall { step, .. } => model(world, scope, index, effect, step, next),
        Effect::ToolCall { call, attempt } => tool(world, index, (call, attempt), happened, next),
        Effect::Check { call, attempt } => check(world, index, call, attempt, next),
        Effect::SlotReservation { call } => {
            add(next, world, format!("slot for {call}"), |world| {
                feed(world, index, &Input::SlotReady { call });
            });
        }
        Effect::Job { call, attempt } => {
            add(next, world, format!("job {call} queued"), |world| {
                world.outside.jobs.insert((call, attempt));
                feed(world, index, &Input::JobQueued { call, attempt });
            });
        }
        Effect::Notice { number } => {
            add(next, world, format!("notice {number} delivered"), |world| {
                cancel_job(world, index, number);
                feed(world, index, &Input::NoticeDelivered { notice: number });
            });
        }
        Effect::Compaction { .. } => {}
    }
}

/// A cancelled `never` job is claimed by the canceller, so that no worker can run it.
fn cancel_job(world: &mut World, index: usize, number: u64) {
    use steadfast_core::event::Notice;
    let owner = world.owners[index].as_ref();
    let notice = owner
        .and_then(|owner| owner.decided.outbox.get(&number))
        .cloned();
    if let Some(Notice::CancelJob { call, .. }) = notice {
        world.outside.claims.insert(call);
    }
}

fn model(world: &World, scope: &Scope, index: usize, effect: Effect, step: u32, next: &mut Next) {
    let none = vec![Vec::new()];
    let replies = if step == 1 { &scope.replies } else { &none };
    for tools in replies {
        add(
            next,
            world,
            format!("model of {index} asks for {tools:?}"),
            |world| {
                let triage = tools.iter().map(|tool| triage(tool)).collect();
                let reply = reply(tools);
                feed(
                    world,
                    index,
                    &Input::ModelReplied {
                        effect,
                        reply,
                        triage,
                    },
                );
            },
        );
    }
    if world.budget.model_failures > 0 {
        add(next, world, format!("model of {index} fails"), |world| {
            world.budget.model_failures -= 1;
            let class = FailureClass::Retryable {
                retry_after_ms: None,
            };
            let (code, message) = ("overloaded".to_owned(), "overloaded".to_owned());
            let failure = ModelFailure {
                class,
                code,
                message,
            };
            feed(world, index, &Input::ModelFailed { effect, failure });
        });
    }
}

fn reply(tools: &[&str]) -> ModelReply {
    let text = ReplyPart::Text {
        text: "hello".into(),
        native: None,
    };
    let calls: Vec<_> = tools
        .iter()
        .enumerate()
        .map(|(index, tool)| proposed(tool, index))
        .collect();
    let places = (0_u16..).zip(&calls).map(|(index, _)| ReplyPart::Call {
        index,
        native: None,
    });
    ModelReply {
        wire: "scripted".into(),
        model: "m".into(),
        parts: std::iter::once(text)
            .chain(places)
            .map(Stored::Inline)
            .collect(),
        finish: if calls.is_empty() {
            Finish::Stop
        } else {
            Finish::ToolCalls
        },
        calls,
        usage: Usage::default(),
    }
}

fn tool(
    world: &World,
    index: usize,
    (call, attempt): (CallId, u32),
    happened: bool,
    next: &mut Next,
) {
    if !happened {
        add(next, world, format!("{call} of {index} acts"), |world| {
            let epoch = world.owners[index]
                .as_ref()
                .map_or(0, |owner| owner.decided.epoch.0);
            let acted = take_effect(world, call, epoch);
            if let Some(owner) = world.owners[index].as_mut() {
                let effect = Effect::ToolCall { call, attempt };
                if acted {
                    owner.running.insert(effect, true);
                } else {
                    owner.running.remove(&effect);
                }
            }
        });
        return;
    }
    add(next, world, format!("{call} of {index} answers"), |world| {
        feed(world, index, &answer(call, attempt));
    });
    if world.budget.unknowns > 0 {
        add(
            next,
            world,
            format!("{call} of {index} gives no outcome"),
            |world| {
                world.budget.unknowns -= 1;
                let outcome = CallOutcome::Unknown {
                    detail: "timeout".into(),
                };
                feed(
                    world,
                    index,
                    &Input::CallFinished {
                        call,
                        attempt,
                        outcome,
                    },
                );
            },
        );
    }
}

fn check(world: &World, index: usize, call: CallId, attempt: u32, next: &mut Next) {
    let done = world.outside.effects.contains_key(&call);
    add(next, world, format!("check of {call} answers"), |world| {
        let answer = if done {
            CheckAnswer::Done(ToolOutput::text("done").into())
        } else {
            let epoch = world.owners[index]
                .as_ref()
                .map_or(0, |owner| owner.decided.epoch.0);
            world.outside.refused_below.insert(call, epoch);
            CheckAnswer::NotDone
        };
        feed(
            world,
            index,
            &Input::CheckAnswered {
                call,
                attempt,
                answer,
            },
        );
    });
    add(
        next,
        world,
        format!("check of {call} cannot tell"),
        |world| {
            let answer = CheckAnswer::Unknown;
            feed(
                world,
                index,
                &Input::CheckAnswered {
                    call,
                    attempt,
                    answer,
                },
            );
        },
    );
}
