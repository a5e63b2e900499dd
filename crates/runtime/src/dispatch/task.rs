//! What a running effect is given, and how it ends.

use std::sync::Arc;

use steadfast_core::call::Call;
use steadfast_core::effect::Effect;
use steadfast_core::id::{CallId, SessionKey, Timestamp};
use steadfast_core::input::{CallOutcome, CheckAnswer, FailureClass, Input, ModelFailure};
use steadfast_core::session::Session;
use steadfast_harness::native::kept::KeptHistory;
use steadfast_store::error::WriteError;
use tokio::time::Duration;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::feed::Feed;
use crate::host::{Host, backoff};
use crate::spill::{Patience, Spill};
use crate::triage::Slot;

/// One effect at work.
pub(super) struct Task {
    pub(super) host: Arc<Host>,
    pub(super) feed: Arc<Feed>,
    /// The state that asked for it.
    pub(super) session: Arc<Session>,
    pub(super) effect: Effect,
    /// How far this node's clock is behind that state.
    pub(super) behind_ms: u64,
    /// What the last request to the model was built from.
    pub(super) history: Arc<KeptHistory>,
    pub(super) cancelled: CancellationToken,
}

impl Task {
    /// The session's agent, if it is configured here.
    pub(super) fn agent(&self) -> Option<&Arc<Agent>> {
        self.host.agent(&self.session.profile()?.agent)
    }

    /// The session's time: what asked for this was decided just now, also where this node's clock is
    /// behind that.
    pub(super) fn now(&self) -> Timestamp {
        self.host.now().plus_ms(self.behind_ms)
    }

    /// How long from now until an instant of the session's time.
    pub(super) fn until(&self, at: Timestamp) -> Duration {
        Duration::from_millis(at.0.saturating_sub(self.now().0))
    }

    pub(super) fn call(&self, id: CallId) -> Option<&Call> {
        self.session.call(id)
    }

    /// A write of this effect failed and is tried again, after a wait that grows.
    pub(super) async fn again(&self, what: &'static str, tries: u32, error: &WriteError) {
        tracing::warn!(session = %self.session.key, what, tries, %error, "again");
        let options = &self.host.options;
        let wait = backoff(options.append_retry_min, options.append_retry_max, tries);
        tokio::time::sleep(wait).await;
    }

    pub(super) fn spill(&self) -> Spill<'_> {
        Spill {
            host: &self.host,
            key: &self.session.key,
            patience: Patience::Long,
        }
    }
}

/// How an effect ended.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) input: Option<Input>,
    pub(super) slots: Vec<(u16, Slot)>,
}

impl Ended {
    /// Nobody wants to know.
    pub(super) fn silently() -> Self {
        Self::default()
    }

    pub(super) fn with(input: Input) -> Self {
        Self {
            input: Some(input),
            slots: Vec::new(),
        }
    }

    pub(super) fn failed(effect: Effect, failure: ModelFailure) -> Self {
        Self::with(Input::ModelFailed { effect, failure })
    }

    /// The effect's own code panicked: for a tool nobody knows what happened, a model may be asked
    /// again.
    pub(super) fn panicked(session: &SessionKey, effect: Effect) -> Self {
        tracing::error!(%session, %effect, "an effect panicked");
        match effect {
            Effect::ModelCall { .. } | Effect::Compaction { .. } => Self::failed(
                effect,
                ModelFailure {
                    class: FailureClass::Retryable {
                        retry_after_ms: None,
                    },
                    code: "internal".into(),
                    message: "the model call panicked".into(),
                },
            ),
            Effect::ToolCall { call, attempt } => Self::with(Input::CallFinished {
                call,
                attempt,
                outcome: CallOutcome::Unknown {
                    detail: "the tool panicked".into(),
                },
            }),
            Effect::Check { call, attempt } => Self::with(Input::CheckAnswered {
                call,
                attempt,
                answer: CheckAnswer::Unknown,
            }),
            Effect::SlotReservation { .. } | Effect::Job { .. } | Effect::Notice { .. } => {
                Self::silently()
            }
        }
    }
}
