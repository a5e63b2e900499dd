//! How effects end.

use steadfast_core::content::{Finish, ModelReply, ReplyPart, Stored, ToolOutput, Usage};
use steadfast_core::effect::Effect;
use steadfast_core::id::{CallId, Fence};
use steadfast_core::input::{CallOutcome, CheckAnswer, FailureClass, Input, ModelFailure, Place};

use super::{Next, add, answer, feed, take_effect};
use crate::explore::mutant::Mutant;
use crate::explore::scope::{Scope, proposed, triage};
use crate::explore::world::World;

pub(super) fn outcomes(
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
                let withdrawn = cancel_job(world, index, number);
                let notice = number;
                feed(world, index, &Input::NoticeDelivered { notice, withdrawn });
            });
        }
        Effect::Compaction { .. } => {}
    }
}

/// A cancelled `never` job is claimed by the canceller, so that no worker can run it. Whether no
/// worker had claimed it before.
fn cancel_job(world: &mut World, index: usize, number: u64) -> bool {
    use steadfast_core::event::Notice;
    let owner = world.owners[index].as_ref();
    let notice = owner
        .and_then(|owner| owner.decided.outbox.get(&number))
        .cloned();
    match notice {
        Some(Notice::CancelJob {
            call,
            under_claim: true,
            ..
        }) => withdraw(world, call),
        Some(Notice::CancelJob { .. } | Notice::AnswerCall { .. } | Notice::ReportTurn { .. })
        | None => false,
    }
}

/// Claims a job so that no worker runs it; `false`: a worker may have.
fn withdraw(world: &mut World, call: CallId) -> bool {
    if world.outside.effects.contains_key(&call) && world.is(Mutant::CancelWithoutClaim) {
        world.breaks(format!("{call} acted and is told as withdrawn"));
    }
    let withdrawn = world.outside.withdrawn.contains(&call)
        || world.outside.claims.insert(call)
        || world.is(Mutant::CancelWithoutClaim);
    if withdrawn {
        world.outside.withdrawn.insert(call);
    }
    withdrawn
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
                        unfit: None,
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
        let fence = fence(world, index, attempt);
        add(next, world, format!("{call} of {index} acts"), |world| {
            let acted = take_effect(world, call, fence);
            if let Some(owner) = world.owners[index].as_mut() {
                let effect = Effect::ToolCall { call, attempt };
                if acted {
                    owner.running.insert(effect, true);
                } else {
                    owner.running.remove(&effect);
                }
            }
            if !acted {
                // The tool refuses it, in words that say nothing about the call.
                no_outcome(world, index, call, attempt);
            }
        });
        if world.budget.unknowns > 0 && world.budget.late > 0 {
            let label = format!("{call} of {index} seems lost");
            add(next, world, label, |world| {
                late(world, index, call, attempt);
                gives_no_outcome(world, index, call, attempt);
            });
        }
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
            |world| gives_no_outcome(world, index, call, attempt),
        );
    }
}

/// The fence under which an owner runs an attempt.
fn fence(world: &World, index: usize, attempt: u32) -> Fence {
    let owner = world.owners[index].as_ref();
    let epoch = owner.map_or_else(Default::default, |owner| owner.decided.epoch);
    Fence { epoch, attempt }
}

/// Nobody listens to an attempt any more, and it may still arrive.
pub(super) fn late(world: &mut World, index: usize, call: CallId, attempt: u32) {
    if world.budget.late == 0 {
        return;
    }
    world.budget.late -= 1;
    let fence = fence(world, index, attempt);
    world.outside.late.insert((call, fence));
    if let Some(owner) = world.owners[index].as_mut() {
        owner.running.remove(&Effect::ToolCall { call, attempt });
    }
}

fn gives_no_outcome(world: &mut World, index: usize, call: CallId, attempt: u32) {
    world.budget.unknowns -= 1;
    no_outcome(world, index, call, attempt);
}

fn no_outcome(world: &mut World, index: usize, call: CallId, attempt: u32) {
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
}

fn check(world: &World, index: usize, call: CallId, attempt: u32, next: &mut Next) {
    let remote = world.owners[index]
        .as_ref()
        .and_then(|owner| owner.decided.call(call))
        .is_some_and(|call| call.triage.place == Place::Remote);
    if remote {
        add(next, world, format!("{call} is withdrawn"), |world| {
            let answer = if withdraw(world, call) {
                CheckAnswer::Withdrawn
            } else {
                CheckAnswer::Unknown
            };
            let answered = Input::CheckAnswered {
                call,
                attempt,
                answer,
            };
            feed(world, index, &answered);
        });
        return;
    }
    let done = world.outside.effects.contains_key(&call);
    add(next, world, format!("check of {call} answers"), |world| {
        let answer = if done {
            CheckAnswer::Done(ToolOutput::text("done").into())
        } else {
            let fence = fence(world, index, attempt);
            let up_to = world.outside.refused_up_to.entry(call).or_insert(fence);
            *up_to = fence.max(*up_to);
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
