//! A model's complete reply.

use super::{Draft, calls, end_turn, model_failed};
use crate::content::{Finish, ModelReply, ToolOutput};
use crate::effect::Effect;
use crate::event::{Event, RecordedCall, TurnOutcome};
use crate::id::CallId;
use crate::input::{CallTriage, FailureClass, Gate, ModelFailure};
use crate::limits::{
    ANSWERS_REFUSED_MAX, CALLS_PER_REPLY_MAX, DETAIL_BYTES_MAX, PARTS_PER_INPUT_MAX,
};
use crate::replay::model_effect;
use crate::session::TurnPhase;
use crate::texts;

pub(super) fn decide(
    draft: &mut Draft,
    effect: Effect,
    reply: &ModelReply,
    triage: &[CallTriage],
    unfit: Option<&str>,
) {
    // A reply to an earlier attempt, or to an earlier owner, is not a reply to this one.
    if model_effect(&draft.session) != Some(effect) {
        return;
    }
    if let Some(failure) = unusable(reply, triage) {
        return model_failed::decide(draft, effect, &failure);
    }
    let Some(turn) = &draft.session.turn else {
        return;
    };
    let (id, step) = (turn.id, turn.step);
    let calls = reply
        .calls
        .iter()
        .zip(triage)
        .map(|(call, triage)| RecordedCall {
            provider_call_id: call.provider_call_id.clone(),
            tool: call.tool.clone(),
            input: call.input.clone(),
            triage: recorded(triage),
        });
    draft.emit(Event::ModelReplied {
        turn: id,
        step,
        wire: reply.wire.clone(),
        model: reply.model.clone(),
        parts: reply.parts.clone(),
        calls: calls.collect(),
        finish: reply.finish,
        usage: reply.usage,
    });
    if let Some(detail) = unfit {
        refuse_answer(draft, detail);
    }
    if over_call_budget(draft) {
        return;
    }
    let (epoch, reply) = (draft.session.epoch, draft.session.seq);
    for (index, triage) in (0_u16..).zip(triage) {
        calls::gate(
            draft,
            CallId {
                epoch,
                reply,
                index,
            },
            triage,
        );
    }
}

/// An answer that should fit a schema and does not is asked for again, a few times. One that was cut
/// off, filtered or refused is not: its finish says so, and asking again would not help.
fn refuse_answer(draft: &mut Draft, detail: &str) {
    let Some(turn) = &draft.session.turn else {
        return;
    };
    let answered = TurnPhase::Answered {
        finish: Finish::Stop,
    };
    if turn.phase != answered {
        return;
    }
    let (id, step) = (turn.id, turn.step);
    let detail = texts::cut(detail, DETAIL_BYTES_MAX);
    if turn.answers_refused < ANSWERS_REFUSED_MAX {
        draft.emit(Event::AnswerRefused {
            turn: id,
            step,
            detail,
        });
        return;
    }
    let outcome = TurnOutcome::Failed {
        code: "answer_unfit".into(),
        message: format!("the answer does not fit the schema that was asked for: {detail}"),
    };
    end_turn::end(draft, outcome);
}

/// The triage without the words of a refusal: those are the call's result, in the same entry, and
/// shall not stand there twice.
fn recorded(triage: &CallTriage) -> CallTriage {
    let mut recorded = triage.clone();
    if let Gate::Refused { output } = &mut recorded.gate {
        *output = ToolOutput::error("");
    }
    recorded
}

fn unusable(reply: &ModelReply, triage: &[CallTriage]) -> Option<ModelFailure> {
    let too_large =
        reply.calls.len() > CALLS_PER_REPLY_MAX || reply.parts.len() > PARTS_PER_INPUT_MAX;
    if !too_large && triage.len() == reply.calls.len() {
        return None;
    }
    let message = format!(
        "the reply has {} parts and {} calls; at most {PARTS_PER_INPUT_MAX} and \
         {CALLS_PER_REPLY_MAX} are taken",
        reply.parts.len(),
        reply.calls.len()
    );
    let class = FailureClass::Retryable {
        retry_after_ms: None,
    };
    Some(ModelFailure {
        class,
        code: "reply_too_large".into(),
        message,
    })
}

/// The calls of a turn are counted before they run: a reply that asks for too many ends the turn.
fn over_call_budget(draft: &mut Draft) -> bool {
    let Some(turn) = &draft.session.turn else {
        return false;
    };
    let Some(limit) = draft.session.policy.turn_calls_max else {
        return false;
    };
    if turn.calls_total <= limit {
        return false;
    }
    let message = format!("the turn may call tools {limit} times");
    end_turn::end(
        draft,
        TurnOutcome::Failed {
            code: "budget".into(),
            message,
        },
    );
    true
}
