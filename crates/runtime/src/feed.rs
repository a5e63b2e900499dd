//! What an owner shows to followers in its process: its newest Records, and the live frames of the
//! open step, so that a follower who comes late sees the step from its start.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steadfast_core::effect::Effect;
use steadfast_core::event::{Event, Verdict};
use steadfast_core::id::{Epoch, Seq, SessionKey, TurnId};
use steadfast_protocol::live::{Delta, LiveFrame};
use steadfast_protocol::record::Record;
use steadfast_store::live::Live;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Newest Records kept, at most.
const RECORDS_MAX: usize = 16;
/// Bytes of the newest Records, at most.
const RECORDS_BYTES_MAX: usize = 64 * 1024;
/// What a frame takes besides its text.
const FRAME_BYTES: usize = 128;

/// The attempt of a step whose frames are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) epoch: Epoch,
    pub(crate) turn: TurnId,
    pub(crate) step: u32,
    pub(crate) attempt: u32,
}

impl Shown {
    /// The attempt that a frame belongs to.
    pub(crate) fn of(frame: &LiveFrame) -> Self {
        Self {
            epoch: frame.epoch,
            turn: frame.turn,
            step: frame.step,
            attempt: frame.attempt,
        }
    }

    /// The attempt that a model call is; `None` for other effects.
    pub(crate) fn by(effect: &Effect) -> Option<Self> {
        match *effect {
            Effect::ModelCall {
                epoch,
                turn,
                step,
                attempt,
            } => Some(Self {
                epoch,
                turn,
                step,
                attempt,
            }),
            Effect::Compaction { .. }
            | Effect::SlotReservation { .. }
            | Effect::ToolCall { .. }
            | Effect::Check { .. }
            | Effect::Job { .. }
            | Effect::Notice { .. } => None,
        }
    }
}

/// One owner's feed.
pub(crate) struct Feed {
    session: SessionKey,
    live: Arc<dyn Live>,
    bytes_max: usize,
    inner: Mutex<Inner>,
    /// How many Records were kept here; [`GONE`] when the owner is gone.
    kept: AtomicU64,
    /// Notified when that has changed.
    changed: Notify,
    /// Notified when a message may be over, and when the owner is gone.
    over: Notify,
}

/// The count of Records of an owner that is gone.
const GONE: u64 = u64::MAX;

/// A follower's view of an owner in its process.
pub(crate) struct Kept {
    feed: Arc<Feed>,
    seen: u64,
}

impl Kept {
    /// From now on. `None`: the owner is gone.
    pub(crate) fn of(feed: &Arc<Feed>) -> Option<Self> {
        let seen = feed.kept.load(Ordering::Acquire);
        (seen != GONE).then(|| Self {
            feed: Arc::clone(feed),
            seen,
        })
    }

    /// Waits until another Record is kept. `false`: the owner is gone.
    pub(crate) async fn changed(&mut self) -> bool {
        loop {
            // Enabled before the look, so that nothing falls in between.
            let mut changed = std::pin::pin!(self.feed.changed.notified());
            changed.as_mut().enable();
            let kept = self.feed.kept.load(Ordering::Acquire);
            if kept != self.seen {
                self.seen = kept;
                return kept != GONE;
            }
            changed.await;
        }
    }
}

#[derive(Default)]
struct Inner {
    records: VecDeque<(Arc<Record>, usize)>,
    records_bytes: usize,
    step: Option<OpenStep>,
}

struct OpenStep {
    shown: Shown,
    next: u64,
    frames: Vec<Arc<LiveFrame>>,
    bytes: usize,
}

impl Feed {
    pub(crate) fn new(session: SessionKey, live: Arc<dyn Live>, bytes_max: usize) -> Self {
        Self {
            session,
            live,
            bytes_max,
            inner: Mutex::default(),
            kept: AtomicU64::new(0),
            changed: Notify::new(),
            over: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Values behind the lock are never half changed: a panic elsewhere means nothing here.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this attempt is shown, and nothing of any other.
    pub(crate) fn open(&self, shown: Shown) {
        self.lock().step = Some(OpenStep {
            shown,
            next: 0,
            frames: Vec::new(),
            bytes: 0,
        });
    }

    /// Shows more of an attempt to all followers, unless another attempt is shown by now.
    pub(crate) fn show(&self, shown: Shown, delta: Delta) {
        let mut inner = self.lock();
        let Some(step) = inner.step.as_mut().filter(|step| step.shown == shown) else {
            return;
        };
        let keep = !matches!(delta, Delta::ToolProgress { .. });
        let frame = Arc::new(LiveFrame {
            epoch: shown.epoch,
            turn: shown.turn,
            step: shown.step,
            attempt: shown.attempt,
            n: step.next,
            delta,
        });
        step.next += 1;
        // A step larger than what is kept is shown to late followers without its middle.
        if keep && step.bytes < self.bytes_max {
            step.bytes += frame_bytes(&frame);
            step.frames.push(Arc::clone(&frame));
        }
        // Under the lock, so that all followers see frames in the order of their numbers.
        self.live.publish(&self.session, frame);
    }

    /// Shows a preliminary result of a call, under the attempt of the model call that asked for it
    /// or, when an earlier owner made that, as the first.
    pub(crate) fn progress(&self, epoch: Epoch, turn: TurnId, number: u32, delta: Delta) {
        let current = self.lock().step.as_ref().map(|step| step.shown);
        let shown = match current {
            Some(shown) if (shown.turn, shown.step) == (turn, number) => shown,
            _ => {
                let shown = Shown {
                    epoch,
                    turn,
                    step: number,
                    attempt: 1,
                };
                self.open(shown);
                shown
            }
        };
        self.show(shown, delta);
    }

    /// Takes back what was shown of an attempt, if anything was.
    pub(crate) fn withdraw(&self, shown: Shown) {
        let any = matches!(&self.lock().step, Some(step) if step.shown == shown && step.next > 0);
        if any {
            self.show(shown, Delta::Withdrawn);
        }
    }

    /// A step's reply is committed: its text stands in the log now.
    pub(crate) fn close_step(&self, turn: TurnId, number: u32) {
        let mut inner = self.lock();
        if let Some(step) = &mut inner.step
            && (step.shown.turn, step.shown.step) == (turn, number)
        {
            step.frames = Vec::new();
            step.bytes = 0;
        }
    }

    /// Ready when a message may be over, or when the owner is gone; to be enabled before the state
    /// is looked at. Of most Records those who wait for a message need not hear.
    pub(crate) fn over(&self) -> Notified<'_> {
        self.over.notified()
    }

    /// Whether nothing more comes from here.
    pub(crate) fn is_gone(&self) -> bool {
        self.kept.load(Ordering::Acquire) == GONE
    }

    /// The owner is gone: nothing more is kept here.
    pub(crate) fn end(&self) {
        self.kept.store(GONE, Ordering::Release);
        self.changed.notify_waiters();
        self.over.notify_waiters();
    }

    /// Forgets the Records that are kept, which stand in the log.
    pub(crate) fn forget_records(&self) {
        let mut inner = self.lock();
        inner.records = VecDeque::new();
        inner.records_bytes = 0;
    }

    /// Keeps a committed Record of this size for followers, and wakes them.
    pub(crate) fn commit(&self, record: Arc<Record>, bytes: usize) {
        let over = may_end_a_message(&record);
        self.keep(record, bytes);
        // Counted by the owner alone, who ends it, too.
        self.kept.fetch_add(1, Ordering::Release);
        self.changed.notify_waiters();
        if over {
            self.over.notify_waiters();
        }
    }

    fn keep(&self, record: Arc<Record>, bytes: usize) {
        let mut inner = self.lock();
        inner.records.push_back((record, bytes));
        inner.records_bytes += bytes;
        while inner.records.len() > RECORDS_MAX || inner.records_bytes > RECORDS_BYTES_MAX {
            let Some((_, bytes)) = inner.records.pop_front() else {
                return;
            };
            inner.records_bytes -= bytes;
        }
    }

    /// The Records after this event, if they are all still here.
    pub(crate) fn records_after(&self, after: Seq) -> Option<Vec<Arc<Record>>> {
        let inner = self.lock();
        let (oldest, _) = inner.records.front()?;
        if oldest.first_seq > after.next() {
            return None;
        }
        let newer = inner.records.iter().map(|(record, _)| record);
        Some(
            newer
                .filter(|record| record.last_seq() > after)
                .cloned()
                .collect(),
        )
    }

    /// The frames of the open step that are still shown, in order.
    pub(crate) fn frames(&self) -> Vec<Arc<LiveFrame>> {
        let inner = self.lock();
        inner
            .step
            .as_ref()
            .map(|step| step.frames.clone())
            .unwrap_or_default()
    }
}

/// Whether some message may be over with a Record that was not before.
pub(crate) fn may_end_a_message(record: &Record) -> bool {
    let events = record.entries.iter().flat_map(|entry| &entry.events);
    events.into_iter().any(|event| {
        matches!(
            event,
            Event::TurnEnded { .. }
                | Event::MessageLost { .. }
                | Event::CommandSettled {
                    verdict: Verdict::Rejected { .. },
                    ..
                }
        )
    })
}

/// What a frame takes.
pub(crate) fn frame_bytes(frame: &LiveFrame) -> usize {
    FRAME_BYTES + delta_bytes(&frame.delta)
}

fn delta_bytes(delta: &Delta) -> usize {
    match delta {
        Delta::Text { text, .. } | Delta::Reasoning { text, .. } => text.len(),
        Delta::ToolInput { tool, text, .. } => tool.len() + text.len(),
        Delta::ToolProgress { .. } | Delta::Withdrawn => 0,
    }
}
