//! Following a session: committed events without gap or repeat, and what is shown before.
//!
//! ```text
//!   catching up: Records after the cursor ... CaughtUp, frames of the open step from its start
//!   then: a signal of the log, or of the owner in this process --> Records after the cursor
//!         a live frame        --> given, if its step has begun and is still open
//! ```
//!
//! A frame is given only between the event that starts its step and the one that ends it. Frames
//! that were lost, or came too early, are taken from the owner's feed.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use steadfast_core::event::Event;
use steadfast_core::id::{Seq, SessionKey, TurnId};
use steadfast_core::session::TurnPhase;
use steadfast_protocol::live::{Delta, LiveFrame};
use steadfast_protocol::record::Record;
use steadfast_store::live::LiveSignal;
use tokio::sync::watch;

use super::read::read_error;
use super::{Followed, Follower, LoadError, Sessions};
use crate::feed::Shown;

impl Sessions {
    /// Follows a session from after an event on: everything that is committed, then
    /// [`Followed::CaughtUp`], then what comes; with `live` also the frames of open steps. A follower
    /// that is slow reads late and never slows the session. It ends after an error.
    pub fn follow(&self, key: &SessionKey, after: Seq, live: bool) -> Follower {
        let follow = Follow {
            sessions: self.clone(),
            key: key.clone(),
            cursor: after,
            live,
            phase: Phase::New,
            ready: VecDeque::new(),
            step: None,
            given: None,
        };
        stream::unfold(Some(follow), |follow| async {
            let mut follow = follow?;
            match follow.next().await {
                Ok(item) => Some((Ok(item), Some(follow))),
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }
}

struct Follow {
    sessions: Sessions,
    key: SessionKey,
    /// Number of the last event given.
    cursor: Seq,
    live: bool,
    phase: Phase,
    ready: VecDeque<Followed>,
    /// The step whose frames may be given.
    step: Option<OpenStep>,
    /// The attempt whose frames were given last, and the number of its next.
    given: Option<(Shown, u64)>,
}

enum Phase {
    New,
    CatchingUp(Sources),
    Following(Sources),
}

struct Sources {
    signals: BoxStream<'static, ()>,
    /// The owner in this process, if there is one: it shows a Record a moment after the log has it.
    owner: Option<watch::Receiver<u64>>,
    frames: Option<BoxStream<'static, LiveSignal>>,
}

#[derive(Clone, Copy)]
struct OpenStep {
    turn: TurnId,
    number: u32,
    /// Its reply is committed: only its calls are still shown.
    replied: bool,
}

enum News {
    Signal,
    Frame(Arc<LiveFrame>),
    FramesLost,
    Closed,
}

impl Follow {
    async fn next(&mut self) -> Result<Followed, LoadError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(item);
            }
            match std::mem::replace(&mut self.phase, Phase::New) {
                // Heard before the first read, so that nothing falls in between.
                Phase::New => self.phase = Phase::CatchingUp(self.sources().await?),
                Phase::CatchingUp(sources) => {
                    if self.read().await? {
                        self.phase = Phase::CatchingUp(sources);
                    } else {
                        self.phase = Phase::Following(sources);
                        self.caught_up().await;
                    }
                }
                Phase::Following(mut sources) => {
                    let news = sources.next().await;
                    if sources.owner.is_none() {
                        // Before the read that follows, so that nothing falls in between.
                        sources.owner = self.owner();
                    }
                    self.phase = match news {
                        // The store ended the streams: they are opened anew from the cursor.
                        News::Closed => Phase::CatchingUp(self.sources().await?),
                        _ => Phase::Following(sources),
                    };
                    self.hear(news).await?;
                }
            }
        }
    }

    async fn sources(&mut self) -> Result<Sources, LoadError> {
        let stores = &self.sessions.shared.host.stores;
        let signals = stores.log.follow(&self.key).await.map_err(read_error)?;
        let frames = match self.live {
            true => Some(stores.live.subscribe(&self.key).await.map_err(read_error)?),
            false => None,
        };
        Ok(Sources {
            signals,
            owner: self.owner(),
            frames,
        })
    }

    fn owner(&self) -> Option<watch::Receiver<u64>> {
        let door = self.sessions.shared.doors.find(&self.key)?;
        Some(door.feed.kept())
    }

    /// Reads what is committed after the cursor; says whether there was anything.
    async fn read(&mut self) -> Result<bool, LoadError> {
        let limit = self.sessions.shared.host.options.read_batch_records;
        let records = self.sessions.records(&self.key, self.cursor, limit).await?;
        let any = !records.is_empty();
        for record in records {
            self.committed(record);
        }
        Ok(any)
    }

    fn committed(&mut self, record: Arc<Record>) {
        if record.last_seq() <= self.cursor {
            return;
        }
        for event in record.entries.iter().flat_map(|entry| &entry.events) {
            self.see(event);
        }
        let from = self.cursor.next().max(record.first_seq);
        self.cursor = record.last_seq();
        self.ready.push_back(Followed::Record { from, record });
    }

    fn see(&mut self, event: &Event) {
        match event {
            Event::StepStarted { turn, step } => {
                self.step = Some(OpenStep {
                    turn: *turn,
                    number: *step,
                    replied: false,
                });
            }
            Event::ModelReplied { turn, step, .. } => {
                self.step = Some(OpenStep {
                    turn: *turn,
                    number: *step,
                    replied: true,
                });
            }
            Event::TurnEnded { .. } => self.step = None,
            _ => {}
        }
    }

    async fn caught_up(&mut self) {
        self.ready
            .push_back(Followed::CaughtUp { seq: self.cursor });
        if !self.live {
            return;
        }
        self.learn_step();
        self.resume_frames();
    }

    /// The open step may have begun before the cursor: then the state at the cursor names it.
    fn learn_step(&mut self) {
        if self.step.is_none()
            && let Some(door) = self.sessions.shared.doors.find(&self.key)
        {
            let session = door.committed().borrow().clone();
            self.step = session
                .as_ref()
                .filter(|session| session.seq == self.cursor)
                .and_then(|session| session.turn.as_ref())
                .filter(|turn| turn.step > 0)
                .map(|turn| OpenStep {
                    turn: turn.id,
                    number: turn.step,
                    replied: matches!(turn.phase, TurnPhase::Tools | TurnPhase::Answered { .. }),
                });
        }
    }

    async fn hear(&mut self, news: News) -> Result<(), LoadError> {
        match news {
            News::Signal => {
                let before = self.step.map(|step| (step.turn, step.number));
                // A full batch may leave more behind it.
                while self.read().await? {}
                if self.live {
                    self.learn_step();
                }
                if self.live && before != self.step.map(|step| (step.turn, step.number)) {
                    self.resume_frames();
                }
            }
            News::Frame(frame) => self.show(frame),
            News::FramesLost => self.resume_frames(),
            News::Closed => {}
        }
        Ok(())
    }

    /// Gives the open step's frames that were not given yet.
    fn resume_frames(&mut self) {
        if let Some(door) = self.sessions.shared.doors.find(&self.key) {
            for frame in door.feed.frames() {
                self.give(frame);
            }
        }
    }

    fn show(&mut self, frame: Arc<LiveFrame>) {
        let shown = Shown::of(&frame);
        let gap = match self.given {
            Some((given, next)) if given == shown => frame.n > next,
            _ => frame.n > 0,
        };
        if gap {
            self.resume_frames();
        }
        self.give(frame);
    }

    fn give(&mut self, frame: Arc<LiveFrame>) {
        let shown = Shown::of(&frame);
        let Some(step) = self.step else {
            return;
        };
        let of_calls = matches!(frame.delta, Delta::ToolProgress { .. });
        if (step.turn, step.number) != (shown.turn, shown.step) || (step.replied && !of_calls) {
            return;
        }
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

impl Sources {
    async fn next(&mut self) -> News {
        let owner = async {
            match &mut self.owner {
                Some(kept) => kept.changed().await,
                None => std::future::pending().await,
            }
        };
        let frames = async {
            match &mut self.frames {
                Some(frames) => frames.next().await,
                None => std::future::pending().await,
            }
        };
        // Frames first: they were shown before the Record that ends their step.
        tokio::select! { biased;
            frame = frames => match frame {
                Some(LiveSignal::Frame(frame)) => News::Frame(frame),
                Some(LiveSignal::Lost) => News::FramesLost,
                None => News::Closed,
            },
            signal = self.signals.next() => match signal {
                Some(()) => News::Signal,
                None => News::Closed,
            },
            kept = owner => {
                if kept.is_err() {
                    // The owner is gone; what it did not show any more is read from the log.
                    self.owner = None;
                }
                News::Signal
            }
        }
    }
}
