//! A client of one session: sends anything, repeats what it got no answer to, answers what waits
//! for people.

use std::time::Duration;

use steadfast_core::command::{
    Command, CommandBody, MessageOptions, NewSession, Settler, WhenBusy,
};
use steadfast_core::content::{ContentPart, Stored, ToolOutput};
use steadfast_core::event::{Rejection, Verdict};
use steadfast_core::id::{AgentName, CommandId, SessionKey};
use steadfast_core::waiting;
use steadfast_core::why::Waiting;
use steadfast_runtime::sessions::{Admission, AdmitError};
use tokio::task::JoinHandle;

use super::follower;
use super::world::{Part, World};
use crate::invariants::{OPERATOR_SAYS, Seen};

/// A running client.
pub(super) struct Client {
    acts: JoinHandle<()>,
    answers: JoinHandle<()>,
    follows: JoinHandle<()>,
}

/// Starts a client for each session.
pub(super) fn start_all(world: &World) -> Vec<Client> {
    (0..world.setup.sessions)
        .map(|number| {
            let key = World::key(number);
            Client {
                acts: tokio::spawn(act(world.of(&key, Part::Client), key.clone())),
                answers: tokio::spawn(answer(world.of(&key, Part::People), key.clone())),
                follows: tokio::spawn(follower::follow(world.of(&key, Part::Follower), key)),
            }
        })
        .collect()
}

/// Waits until every client has done all it wanted, and nothing is under way.
pub(super) async fn finish(world: &World, clients: &mut [Client]) {
    for client in clients {
        if (&mut client.acts).await.is_err() {
            world.broken("clients", "a client panicked");
        }
        while !world.is_settled() {
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    }
}

/// Ends those that only react: for as long as letters may land late, people answer what they ask.
pub(super) fn end(clients: Vec<Client>) {
    for client in clients {
        client.acts.abort();
        client.answers.abort();
        client.follows.abort();
    }
}

async fn act(world: World, key: SessionKey) {
    let mut sent: Vec<CommandId> = Vec::new();
    for number in 0..world.setup.actions {
        world.pause(world.setup.pause_ms).await;
        if world.chance(5) {
            burst(&world, &key, number).await;
        }
        let name = format!("c{number}");
        let Ok(id) = CommandId::new(name) else {
            continue;
        };
        let body = body(&world, &sent);
        let is_message = matches!(body, CommandBody::Submit { .. });
        let verdict = send(
            &world,
            &key,
            Command {
                id: id.clone(),
                body,
            },
        )
        .await;
        match verdict {
            Some(Verdict::Accepted { .. }) if is_message => sent.push(id),
            // Refused without receipt: the id is free for something else.
            Some(Verdict::Rejected { reason }) if world.chance(50) => {
                reuse(&world, &key, id, reason).await;
            }
            _ => {}
        }
    }
}

/// Several large messages at once: more than one Record takes.
async fn burst(world: &World, key: &SessionKey, number: u64) {
    let part = || {
        Stored::Inline(ContentPart::Text {
            text: "z".repeat(15_000),
        })
    };
    let large = |index: u64| {
        let id = CommandId::new(format!("b{number}-{index}")).ok()?;
        let mut body = message(world, WhenBusy::Queue, None);
        if let CommandBody::Submit { content, .. } = &mut body {
            *content = (0..7).map(|_| part()).collect();
        }
        Some(send(world, key, Command { id, body }))
    };
    let sent: Vec<_> = (0..4).filter_map(large).collect();
    futures_util::future::join_all(sent).await;
}

async fn reuse(world: &World, key: &SessionKey, id: CommandId, reason: Rejection) {
    if matches!(
        reason,
        Rejection::CommandConflict | Rejection::MessageTooOld
    ) {
        return;
    }
    let body = message(world, WhenBusy::Queue, None);
    let again = send(world, key, Command { id, body }).await;
    // With faults, an earlier try may have gone to the mailbox and have been decided by now.
    let conflict = Verdict::Rejected {
        reason: Rejection::CommandConflict,
    };
    if again == Some(conflict) && !world.setup.faults && world.setup.crashes_max == 0 {
        world.broken(
            key.session.as_str(),
            "an id refused without receipt was not free",
        );
    }
}

fn message(world: &World, when_busy: WhenBusy, replaces: Option<CommandId>) -> CommandBody {
    let length = if world.chance(10) { 20_000 } else { 8 };
    let text = ContentPart::Text {
        text: format!("{:x<length$}", world.draw(100)),
    };
    let options = MessageOptions {
        when_busy,
        replaces,
        ..MessageOptions::default()
    };
    let new = AgentName::new("agent").ok().map(|agent| NewSession {
        agent,
        metadata: serde_json::Value::Null,
        tags: Vec::new(),
    });
    CommandBody::Submit {
        content: vec![Stored::Inline(text)],
        options,
        new,
    }
}

fn body(world: &World, sent: &[CommandId]) -> CommandBody {
    let some = |world: &World| {
        let position = world.draw(sent.len().max(1) as u64) as usize;
        sent.get(position).cloned()
    };
    match world.draw(20) {
        0 | 1 => CommandBody::Cancel { turn: None },
        2 => CommandBody::Compact,
        3 => match some(world) {
            Some(message) => CommandBody::Withdraw { message },
            None => CommandBody::Compact,
        },
        4 => message(world, WhenBusy::Queue, some(world)),
        5 if world.chance(30) => CommandBody::Delete,
        6 | 7 => message(world, WhenBusy::Interrupt, None),
        8..=10 => message(world, WhenBusy::Steer, None),
        11 => message(world, WhenBusy::Reject, None),
        _ => message(world, WhenBusy::Queue, None),
    }
}

/// Sends a command until it is known what became of it; sometimes once more than needed.
async fn send(world: &World, key: &SessionKey, command: Command) -> Option<Verdict> {
    world.saw(
        key,
        &Seen::Sent {
            command: &command.id,
        },
    );
    loop {
        let sessions = world.sessions().await;
        let admission = sessions.admit(key, command.clone()).await;
        drop(sessions);
        match admission {
            Ok(Admission::Decided { verdict, .. }) => {
                world.saw(
                    key,
                    &Seen::Answered {
                        command: &command.id,
                        verdict,
                    },
                );
                if !world.chance(10) {
                    return Some(verdict);
                }
                if matches!(verdict, Verdict::Rejected { .. }) {
                    return Some(verdict);
                }
            }
            Ok(Admission::Accepted) => {
                world.receipted(key, &command.id);
                return None;
            }
            Err(AdmitError::MailboxFull) => return None,
            // Without an answer it has no receipt, and gives up.
            Err(AdmitError::OutcomeUnknown(_)) if world.setup.wide && world.chance(20) => {
                return None;
            }
            Err(
                AdmitError::Unavailable(_)
                | AdmitError::StoreFull(_)
                | AdmitError::OutcomeUnknown(_)
                | AdmitError::Draining,
            ) => world.pause(1_000).await,
            Err(error) => {
                world.broken(
                    key.session.as_str(),
                    &format!("{} refused: {error}", command.id),
                );
                return None;
            }
        }
    }
}

/// People: answer approvals, client-side calls and doubts, after a while.
async fn answer(world: World, key: SessionKey) {
    let mut number = 0_u64;
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let open = world.with_log(&key, |log, _| waiting(log));
        let Some(first) = open.into_iter().next() else {
            continue;
        };
        number += 1;
        let Ok(id) = CommandId::new(format!("a{number}")) else {
            continue;
        };
        let body = match first {
            Waiting::Approval { approval, .. } => CommandBody::DecideApproval {
                approval,
                approved: world.chance(60),
                reason: None,
                triage: None,
            },
            Waiting::ClientResult { call, .. } | Waiting::Input { call, .. } => {
                CommandBody::SettleCall {
                    call,
                    output: ToolOutput::text("the client's").into(),
                    by: Settler::Client,
                }
            }
            Waiting::InDoubt { call, .. } => CommandBody::SettleCall {
                call,
                output: ToolOutput::text(OPERATOR_SAYS).into(),
                by: Settler::Operator,
            },
        };
        send(&world, &key, Command { id, body }).await;
    }
}
