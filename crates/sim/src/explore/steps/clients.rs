//! What clients do.

use steadfast_core::call::CallState;
use steadfast_core::command::{Command, CommandBody};
use steadfast_core::id::ApprovalId;
use steadfast_core::input::Input;
use steadfast_core::session::Session;

use super::Next;
use crate::explore::mutant::Mutant;
use crate::explore::owner;
use crate::explore::scope::{Scope, command_id, triage};
use crate::explore::world::{Mail, World};

pub(super) fn clients(world: &World, scope: &Scope, next: &mut Next) {
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
        after.mailbox.push(Mail::Command(Box::new(command.clone())));
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
