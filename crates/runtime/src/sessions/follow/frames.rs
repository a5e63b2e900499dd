//! What a follower is given of the open step before it is committed.

use std::sync::Arc;

use steadfast_core::id::Epoch;
use steadfast_protocol::door::{Answer, Question};
use steadfast_protocol::live::{Delta, LiveFrame};
use tokio::time::Instant;

use super::{Follow, Followed};
use crate::doors::Door;
use crate::feed::Shown;

/// An owner that did not answer is asked again after so many times the patience with its door.
const ASK_AGAIN_AFTER: u32 = 2;

impl Follow {
    /// What an owner of a lower epoch showed of the open step is void: another is asked again.
    pub(super) fn withdraw_below(&mut self, epoch: Epoch) {
        let Some((given, n)) = self.given.filter(|(given, _)| given.epoch < epoch) else {
            return;
        };
        // From here on nothing of a lower epoch is given, and all of this one.
        let attempt = 0;
        self.given = Some((
            Shown {
                epoch,
                attempt,
                ..given
            },
            0,
        ));
        let open = self.step.filter(|step| !step.replied);
        if open.is_some_and(|step| (step.turn, step.number) == (given.turn, given.step)) {
            let frame = LiveFrame {
                epoch: given.epoch,
                turn: given.turn,
                step: given.step,
                attempt: given.attempt,
                n,
                delta: Delta::Withdrawn,
            };
            self.ready.push_back(Followed::Live(Arc::new(frame)));
        }
    }

    /// A step has begun. An owner elsewhere is asked only if something of it came too early.
    pub(super) async fn resume_after_start(&mut self) {
        if self.owner_here().is_some() || std::mem::take(&mut self.came_early) {
            self.resume_frames().await;
        }
    }

    /// Gives the open step's frames that were not given yet; whether its owner could be asked.
    pub(super) async fn resume_frames(&mut self) -> bool {
        let frames = match self.owner_here() {
            Some(door) => Some(door.feed.frames()),
            None if self.step.is_none() => Some(Vec::new()),
            None => self.frames_elsewhere().await,
        };
        let answered = frames.is_some();
        for frame in frames.unwrap_or_default() {
            self.give(frame);
        }
        answered
    }

    /// The door of an owner in this process. A session that is in memory only because somebody asked
    /// about it here shows nothing.
    fn owner_here(&self) -> Option<Arc<Door>> {
        let shared = &self.sessions.shared;
        let door = shared.doors.find(&self.key)?;
        door.owns(&shared.host.node).then_some(door)
    }

    /// The frames that an owner elsewhere still has; `None`: it did not answer.
    async fn frames_elsewhere(&mut self) -> Option<Vec<Arc<LiveFrame>>> {
        let host = &self.sessions.shared.host;
        if host.members.are_alone() {
            return Some(Vec::new());
        }
        let patience = host.options.door_patience;
        let lately = |at: Instant| at.elapsed() < patience * ASK_AGAIN_AFTER;
        if self.unanswered.is_some_and(lately) {
            return None;
        }
        if self.owner.is_none() {
            // It took the session over before the cursor.
            let tail = host.stores.log.tail(&self.key).await;
            let last = tail.ok().and_then(|tail| tail.last);
            self.owner = last.map(|last| last.node);
        }
        let owner = self.owner.clone();
        if owner.as_ref() == Some(&host.node) {
            return Some(Vec::new());
        }
        if let Some(owner) = owner {
            let session = self.key.clone();
            let question = Question::OpenStep { session };
            match host.members.ask(&owner, &question, patience).await {
                Ok(Answer::OpenStep { frames }) => {
                    return Some(frames.into_iter().map(Arc::new).collect());
                }
                // Another one has it by now.
                Ok(Answer::NotMine) => self.owner = None,
                Ok(_) | Err(_) => {}
            }
        }
        self.unanswered = Some(Instant::now());
        None
    }

    /// Gives a frame that came. Where some before it are missing and its owner does not have them, or
    /// could not be asked for them, it is not shown: what is shown of a step has no hole. The reply
    /// comes with the log. Of a call's progress only the newest counts.
    pub(super) async fn show(&mut self, frame: Arc<LiveFrame>) {
        if self.misses_some_before(&frame) {
            let answered = self.resume_frames().await;
            let of_calls = matches!(frame.delta, Delta::ToolProgress { .. });
            // An owner that has the whole reply by now keeps its frames no longer.
            if !answered || (!of_calls && self.misses_some_before(&frame)) {
                self.came_early = true;
                return;
            }
        }
        self.give(frame);
    }

    fn misses_some_before(&self, frame: &LiveFrame) -> bool {
        match self.given {
            Some((given, next)) if given == Shown::of(frame) => frame.n > next,
            _ => frame.n > 0,
        }
    }

    fn give(&mut self, frame: Arc<LiveFrame>) {
        let shown = Shown::of(&frame);
        let Some(step) = self.step else {
            self.came_early = true;
            return;
        };
        self.came_early |= (step.turn, step.number) < (shown.turn, shown.step);
        let of_calls = matches!(frame.delta, Delta::ToolProgress { .. });
        if (step.turn, step.number) != (shown.turn, shown.step) || (step.replied && !of_calls) {
            return;
        }
        // The new owner may be heard before its take-over is read.
        self.withdraw_below(shown.epoch);
        if let Some((given, next)) = self.given {
            let same_step =
                (given.epoch, given.turn, given.step) == (shown.epoch, shown.turn, shown.step);
            let older = given.epoch > shown.epoch || (same_step && given.attempt > shown.attempt);
            if older || (given == shown && frame.n < next) {
                return;
            }
        }
        self.given = Some((shown, frame.n + 1));
        self.ready.push_back(Followed::Live(frame));
    }
}
