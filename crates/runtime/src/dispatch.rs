//! Makes what runs equal to what the states want: a reconciler, driven by level and not by edge.
//!
//! ```text
//!   start:  (outstanding(committed) + those of the Record in flight that may run ahead)
//!           that outstanding(decided) still wants, and that do not run
//!   abort:  what runs and outstanding(decided) no longer wants
//! ```
//!
//! So crash recovery, take-over, cancellation and approval are one code path. Each effect is one
//! task; its outcome comes back as an input. A task that panics, hangs or eats its deadline costs
//! its own effect only.

mod blobs;
mod check;
mod child;
mod child_answer;
mod compaction;
mod deltas;
mod job;
mod model_call;
mod notice;
pub(crate) mod offer;
mod progress;
mod remote_check;
mod report;
mod slot;
mod spans;
mod task;
mod tool_call;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use steadfast_core::effect::Effect;
use steadfast_core::id::{CallId, Seq, SessionKey};
use steadfast_core::input::Input;
use steadfast_core::session::Session;
use steadfast_core::{may_run_ahead, outstanding};
use steadfast_harness::native::kept::KeptHistory;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::feed::{Feed, Shown};
use crate::host::Host;
use crate::journal::Journal;
use crate::triage::{self, Slot};
use progress::Progress;
use spans::Spans;
use task::{Ended, Task};

/// An effect that ended.
pub(crate) struct Finished {
    pub(crate) effect: Effect,
    /// What must be decided about it, if anything.
    pub(crate) input: Option<Input>,
    /// Slots reserved for its calls, by index.
    pub(crate) slots: Vec<(u16, Slot)>,
}

/// Which effects may be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Starts {
    /// All that are wanted.
    All,
    /// Calls that the log says were started: left alone, they would be in doubt for no reason.
    StartedCalls,
    /// None.
    Nothing,
}

impl Starts {
    fn allows(self, effect: &Effect) -> bool {
        match self {
            Self::All => true,
            Self::StartedCalls => matches!(effect, Effect::ToolCall { .. }),
            Self::Nothing => false,
        }
    }
}

/// Runs the effects of one session.
pub(crate) struct Dispatcher {
    host: Arc<Host>,
    key: SessionKey,
    feed: Arc<Feed>,
    history: Arc<KeptHistory>,
    tasks: JoinSet<Finished>,
    running: BTreeMap<Effect, CancellationToken>,
    /// Slots of calls that were started, until their task takes them over.
    slots: BTreeMap<CallId, Slot>,
    /// Effects whose outcome changed nothing: not started again before.
    resting: BTreeMap<Effect, Instant>,
    /// Effects that begin anew from what they found out, once that is committed.
    renewed: BTreeMap<Effect, Seq>,
    wants_any: bool,
    spans: Spans,
    progress: Progress,
}

impl Dispatcher {
    pub(crate) fn new(host: Arc<Host>, key: SessionKey, feed: Arc<Feed>) -> Self {
        let history = Arc::new(KeptHistory::new(host.history_room.clone()));
        Self {
            host,
            key,
            feed,
            history,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            slots: BTreeMap::new(),
            resting: BTreeMap::new(),
            renewed: BTreeMap::new(),
            wants_any: false,
            spans: Spans::default(),
            progress: Progress::default(),
        }
    }

    /// Starts what is missing and aborts what is no longer wanted.
    pub(crate) fn reconcile(&mut self, journal: &Journal, starts: Starts) {
        let wanted = outstanding(journal.decided());
        self.wants_any = !wanted.is_empty();
        self.keep_only(&wanted);
        self.spans.keep_only(journal.decided());
        self.progress
            .follow(journal.decided(), &self.host, &self.feed);
        self.hold_slots(Vec::new(), journal.decided());
        if starts == Starts::Nothing || !self.wants_any {
            return;
        }
        let startable = startable(journal, &wanted).into_iter();
        for (effect, state) in startable.filter(|(effect, _)| starts.allows(effect)) {
            let rests = self
                .resting
                .get(&effect)
                .is_some_and(|until| *until > Instant::now());
            let waits = self
                .renewed
                .get(&effect)
                .is_some_and(|after| journal.committed().seq < *after);
            if !rests && !waits && !self.running.contains_key(&effect) {
                self.start(effect, state);
            }
        }
    }

    fn keep_only(&mut self, wanted: &[Effect]) {
        for (effect, cancelled) in &self.running {
            if !wanted.contains(effect) {
                cancelled.cancel();
            }
        }
        if !self.resting.is_empty() {
            self.resting.retain(|effect, _| wanted.contains(effect));
        }
        if !self.renewed.is_empty() {
            self.renewed.retain(|effect, _| wanted.contains(effect));
        }
    }

    fn start(&mut self, effect: Effect, session: Arc<Session>) {
        if let Some(shown) = Shown::by(&effect) {
            self.feed.open(shown);
        }
        self.resting.remove(&effect);
        self.renewed.remove(&effect);
        let cancelled = CancellationToken::new();
        self.running.insert(effect, cancelled.clone());
        let slot = match effect {
            Effect::ToolCall { call, .. } => self.slots.remove(&call),
            _ => None,
        };
        tracing::debug!(session = %self.key, %effect, "effect started");
        let task = Task {
            host: Arc::clone(&self.host),
            feed: Arc::clone(&self.feed),
            behind_ms: session.at.0.saturating_sub(self.host.now().0),
            session,
            effect,
            history: Arc::clone(&self.history),
            cancelled,
        };
        let agent = task.agent().map(Arc::as_ref);
        let span = self.spans.of(&task.session, agent, effect);
        let session = Arc::clone(&task.session);
        let run = async move {
            let run = AssertUnwindSafe(run(task, slot)).catch_unwind();
            let ended = run
                .await
                .unwrap_or_else(|_| Ended::panicked(&session.key, effect));
            Finished {
                effect,
                input: ended.input,
                slots: ended.slots,
            }
        };
        self.tasks.spawn(run.instrument(span));
    }

    /// Waits for the next effect to end; for ever when none runs.
    pub(crate) async fn next(&mut self) -> Finished {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(finished)) => {
                    self.running.remove(&finished.effect);
                    return finished;
                }
                // A task catches its own panics and is aborted only together with its session.
                Some(Err(error)) => tracing::error!(session = %self.key, %error, "effect lost"),
                None => std::future::pending().await,
            }
        }
    }

    /// Keeps the slots of those calls that were started, and gives the others back.
    pub(crate) fn hold_slots(&mut self, slots: Vec<(CallId, Slot)>, decided: &Session) {
        for (call, slot) in slots {
            if triage::holds_slot(decided, call) {
                self.slots.insert(call, slot);
            }
        }
        if !self.slots.is_empty() {
            self.slots
                .retain(|call, _| triage::holds_slot(decided, *call));
        }
    }

    /// An outcome changed nothing: its effect, if it is still wanted, rests for a while, so that a
    /// session never spins.
    pub(crate) fn rest(&mut self, effect: Effect) {
        let until = Instant::now() + self.host.options.futile_rest;
        self.resting.insert(effect, until);
    }

    /// What an effect found out is decided, and it begins anew from there: not before that is
    /// committed, or it would find out the same again.
    pub(crate) fn renew(&mut self, effect: Effect, after: Seq) {
        self.renewed.insert(effect, after);
    }

    /// When the next resting effect may be started again.
    pub(crate) fn rested_at(&self) -> Option<Instant> {
        self.resting
            .values()
            .copied()
            .filter(|until| *until > Instant::now())
            .min()
    }

    /// Gives back the memory of maps that are empty, and of what is soon built anew.
    pub(crate) fn slim(&mut self) {
        self.history.forget_small();
        if self.running.is_empty() {
            self.running = BTreeMap::new();
        }
        if self.slots.is_empty() {
            self.slots = BTreeMap::new();
        }
        if self.resting.is_empty() {
            self.resting = BTreeMap::new();
        }
    }

    /// When a worker elsewhere last said how far a call of this session is.
    pub(crate) fn progressed_at(&self) -> Option<Instant> {
        self.progress.heard_at()
    }

    /// Forgets who waited for effects, when none runs.
    pub(crate) fn forget_waker(&mut self) {
        if self.tasks.is_empty() {
            self.tasks = JoinSet::new();
        }
    }

    /// Nothing runs and nothing is wanted.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && !self.wants_any
    }

    /// Nothing runs.
    pub(crate) fn is_quiet(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether a tool runs whose outcome would be lost with this owner.
    pub(crate) fn runs_calls(&self) -> bool {
        let is_call =
            |effect: &Effect| matches!(effect, Effect::ToolCall { .. } | Effect::Check { .. });
        self.running.keys().any(is_call)
    }

    /// Asks models that are being asked to stop, and who waits for a slot.
    pub(crate) fn cancel_models(&self) {
        for (effect, cancelled) in &self.running {
            match effect {
                Effect::ModelCall { .. }
                | Effect::Compaction { .. }
                | Effect::SlotReservation { .. } => cancelled.cancel(),
                Effect::ToolCall { .. }
                | Effect::Check { .. }
                | Effect::Job { .. }
                | Effect::Notice { .. } => {}
            }
        }
    }

    /// Stops the delivery of notices: they stay in the outbox, for the next owner.
    pub(crate) fn cancel_notices(&self) {
        for (effect, cancelled) in &self.running {
            if matches!(effect, Effect::Notice { .. }) {
                cancelled.cancel();
            }
        }
    }

    /// Asks all that runs to stop.
    pub(crate) fn cancel_all(&self) {
        for cancelled in self.running.values() {
            cancelled.cancel();
        }
    }
}

/// The effects that may start now, each with the state that asks for it.
fn startable(journal: &Journal, wanted: &[Effect]) -> Vec<(Effect, Arc<Session>)> {
    let committed = journal.committed();
    let mut startable: Vec<(Effect, Arc<Session>)> = Vec::new();
    let mut add = |effects: Vec<Effect>, state: &Arc<Session>| {
        let wanted = effects.into_iter().filter(|effect| wanted.contains(effect));
        startable.extend(wanted.map(|effect| (effect, Arc::clone(state))));
    };
    add(outstanding(committed), committed);
    if let Some(in_flight) = journal.in_flight() {
        let mut ahead = outstanding(in_flight);
        ahead.retain(|effect| may_run_ahead(in_flight, effect));
        add(ahead, in_flight);
    }
    startable
}

async fn run(task: Task, slot: Option<Slot>) -> Ended {
    match task.effect {
        Effect::ModelCall { .. } => model_call::run(task).await,
        Effect::Compaction { .. } => compaction::run(task).await,
        Effect::SlotReservation { call } => slot::run(task, call).await,
        Effect::ToolCall { call, attempt } => tool_call::run(task, call, attempt, slot).await,
        Effect::Check { call, attempt } => check::run(task, call, attempt).await,
        Effect::Job { call, attempt } => job::run(task, call, attempt).await,
        Effect::Notice { number } => notice::run(&task, number).await,
    }
}
