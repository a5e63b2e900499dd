//! A model call, or a compaction, ended without a complete reply.

use super::{Draft, end_turn};
use crate::effect::Effect;
use crate::event::{Event, TurnOutcome};
use crate::id::Timestamp;
use crate::input::{FailureClass, ModelFailure};
use crate::limits::DETAIL_BYTES_MAX;
use crate::replay::{backoff_ms, compaction_effect, model_effect};
use crate::session::TurnPhase;
use crate::texts;

/// First wait before a model is asked again, in milliseconds.
const MODEL_BACKOFF_MS: u64 = 1_000;

pub(super) fn decide(draft: &mut Draft, effect: Effect, failure: &ModelFailure) {
    if model_effect(&draft.session) == Some(effect) {
        model_call(draft, failure);
    } else if compaction_effect(&draft.session) == Some(effect) {
        compaction(draft, failure);
    }
}

fn model_call(draft: &mut Draft, failure: &ModelFailure) {
    let Some(turn) = &draft.session.turn else {
        return;
    };
    let TurnPhase::Calling { attempt } = turn.phase else {
        return;
    };
    let (id, step) = (turn.id, turn.step);
    let retried = |retry_at: Timestamp| Event::ModelCallFailed {
        turn: id,
        step,
        attempt,
        code: failure.code.clone(),
        message: texts::cut(&failure.message, DETAIL_BYTES_MAX),
        retry_at,
    };
    let last = attempt >= draft.session.policy.model_attempts_max;
    match failure.class {
        FailureClass::Fatal => fail(draft, &failure.code, &failure.message),
        FailureClass::Retryable { .. } if last => {
            let message = format!("{} attempts failed, the last: {}", attempt, failure.message);
            fail(draft, "model_unavailable", &message);
        }
        FailureClass::Retryable { retry_after_ms } => {
            let event = retried(retry_time(
                draft,
                effect_seed(step, attempt),
                retry_after_ms,
            ));
            draft.emit(event);
        }
        FailureClass::ContextOverflow => {
            let boundary = draft
                .session
                .transcript
                .compaction_boundary(keep_tokens(draft));
            let tried = turn.compaction_tried || last;
            let (false, Some(through)) = (tried, boundary) else {
                return fail(draft, "context_overflow", &failure.message);
            };
            // Asked again as soon as the summary is there.
            let event = retried(draft.now);
            draft.emit(event);
            if draft.session.compaction.is_none() {
                let number = draft.session.compactions + 1;
                draft.emit(Event::CompactionStarted { number, through });
            }
        }
    }
}

/// When the provider says that the history is too long, a quarter of it stays as it was said.
fn keep_tokens(draft: &Draft) -> u64 {
    draft.session.transcript.tokens / 4
}

fn compaction(draft: &mut Draft, failure: &ModelFailure) {
    let Some(compaction) = draft.session.compaction.clone() else {
        return;
    };
    let last = compaction.attempt >= draft.session.policy.model_attempts_max;
    let retry_at = match failure.class {
        FailureClass::Retryable { retry_after_ms } if !last => {
            let seed = effect_seed(compaction.number, compaction.attempt);
            Some(retry_time(draft, seed, retry_after_ms))
        }
        FailureClass::Retryable { .. } | FailureClass::ContextOverflow | FailureClass::Fatal => {
            None
        }
    };
    draft.emit(Event::CompactionFailed {
        number: compaction.number,
        attempt: compaction.attempt,
        code: failure.code.clone(),
        message: texts::cut(&failure.message, DETAIL_BYTES_MAX),
        retry_at,
    });
}

fn effect_seed(of: u32, attempt: u32) -> (u32, u32) {
    (of, attempt)
}

fn retry_time(draft: &Draft, seed: (u32, u32), retry_after_ms: Option<u64>) -> Timestamp {
    let own = backoff_ms(
        &draft.session.key,
        &(seed.0, draft.session.seq),
        MODEL_BACKOFF_MS,
        seed.1,
    );
    draft.now.plus_ms(own.max(retry_after_ms.unwrap_or(0)))
}

fn fail(draft: &mut Draft, code: &str, message: &str) {
    let message = texts::cut(message, DETAIL_BYTES_MAX);
    end_turn::end(
        draft,
        TurnOutcome::Failed {
            code: code.to_owned(),
            message,
        },
    );
}
