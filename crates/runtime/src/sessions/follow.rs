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
use steadfast_core::id::{Epoch, NodeId, Seq, SessionKey, TurnId};
use steadfast_core::session::{Ownership, TurnPhase};
use steadfast_protocol::door::{Answer, Question};
use steadfast_protocol::live::{Delta, LiveFrame};
use steadfast_protocol::record::Record;
use steadfast_store::live::LiveSignal;
use tokio::time::Instant;

use super::read::read_error;
use super::{Followed, Follower, LoadError, Sessions};
use crate::doors::Door;
use crate::feed::{Kept, Shown};

/// An owner that did not answer is asked again after so many times the patience with its door.
const ASK_AGAIN_AFTER: u32 = 2;

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
            came_early: false,
            turn_open: None,
            looks_again: false,
            unanswered: None,
            owner: None,
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
    /// A frame came before the event that starts its step.
    came_early: bool,
    /// Whether a turn is open, as far as is known.
    turn_open: Option<bool>,
    /// Something was told of which a copy of the log that lags may not have shown all.
    looks_again: bool,
    /// When the owner elsewhere last did not answer.
    unanswered: Option<Instant>,
    /// Who owns the session, as far as is known.
    owner: Option<NodeId>,
}

enum Phase {
    New,
    CatchingUp(Sources),
    Following(Sources),
}

struct Sources {
    signals: BoxStream<'static, ()>,
    /// The owner in this process, if there is one: it shows a Record a moment after the log has it.
    owner: Option<Kept>,
    /// No other node appends: of what an owner here shows, the log's signals tell nothing new.
    alone: bool,
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
    /// Nothing was heard for long.
    Silence,
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
                    let news = self.news(&mut sources).await;
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

    /// While a turn is open, silence is no proof: signals may be lost. Nor is one look after a signal
    /// enough.
    async fn news(&mut self, sources: &mut Sources) -> News {
        if self.turn_open != Some(true) && !self.looks_again {
            return sources.next().await;
        }
        let every = self.sessions.shared.host.options.follower_look_every;
        let news = tokio::time::timeout(every, sources.next()).await;
        news.unwrap_or(News::Silence)
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
            alone: self.sessions.shared.host.members.are_alone(),
            frames,
        })
    }

    fn owner(&self) -> Option<Kept> {
        self.sessions.shared.doors.find(&self.key)?.feed.kept()
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
            Event::TurnQueued { .. } | Event::TurnStarted { .. } => self.turn_open = Some(true),
            Event::TurnEnded { .. } => {
                self.step = None;
                self.turn_open = Some(false);
            }
            Event::Activated { node, epoch, .. } => {
                self.owner = Some(node.clone());
                self.withdraw_below(*epoch);
            }
            Event::Released { .. } => self.owner = None,
            _ => {}
        }
    }

    /// What an owner of a lower epoch showed of the open step is void: another is asked again.
    fn withdraw_below(&mut self, epoch: Epoch) {
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

    async fn caught_up(&mut self) {
        self.ready
            .push_back(Followed::CaughtUp { seq: self.cursor });
        self.learn().await;
        if self.live {
            self.resume_frames().await;
        }
    }

    /// What is open may have begun before the cursor: then the state at the cursor names it.
    async fn learn(&mut self) {
        let shared = &self.sessions.shared;
        let session = match shared.doors.find(&self.key) {
            Some(door) if self.step.is_none() => door.committed().borrow().clone(),
            Some(_) => None,
            // Known from the events, unless all came before the cursor.
            None if self.turn_open.is_some() || shared.host.members.are_alone() => None,
            None => self.sessions.load(&self.key).await.ok(),
        };
        let Some(session) = session.filter(|session| session.seq == self.cursor) else {
            return;
        };
        self.turn_open = Some(session.turn.is_some() || !session.queue.is_empty());
        if let Ownership::Owned { node } = &session.ownership {
            self.owner = Some(node.clone());
        }
        let turn = session.turn.as_ref().filter(|turn| turn.step > 0);
        self.step = turn.map(|turn| OpenStep {
            turn: turn.id,
            number: turn.step,
            replied: matches!(turn.phase, TurnPhase::Tools | TurnPhase::Answered { .. }),
        });
    }

    async fn hear(&mut self, news: News) -> Result<(), LoadError> {
        match news {
            News::Signal | News::Silence => {
                let told = matches!(news, News::Signal);
                let cursor = self.cursor;
                let before = self.step.map(|step| (step.turn, step.number));
                // A full batch may leave more behind it.
                while self.read().await? {}
                let alone = self.sessions.shared.host.members.are_alone();
                self.looks_again = !alone && (told || self.cursor > cursor);
                if self.step.is_none() {
                    self.learn().await;
                }
                if self.live && before != self.step.map(|step| (step.turn, step.number)) {
                    self.resume_after_start().await;
                }
            }
            News::Frame(frame) => self.show(frame).await,
            News::FramesLost => {
                self.resume_frames().await;
            }
            News::Closed => {}
        }
        Ok(())
    }

    /// A step has begun. An owner elsewhere is asked only if something of it came too early.
    async fn resume_after_start(&mut self) {
        if self.owner_here().is_some() || std::mem::take(&mut self.came_early) {
            self.resume_frames().await;
        }
    }

    /// Gives the open step's frames that were not given yet; whether its owner could be asked.
    async fn resume_frames(&mut self) -> bool {
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

    /// Gives a frame that came. Where some before it are missing and its owner could not be asked for
    /// them, it is not shown: what is shown of a step has no hole. The reply comes with the log.
    async fn show(&mut self, frame: Arc<LiveFrame>) {
        let shown = Shown::of(&frame);
        let gap = match self.given {
            Some((given, next)) if given == shown => frame.n > next,
            _ => frame.n > 0,
        };
        if gap && !self.resume_frames().await {
            self.came_early = true;
            return;
        }
        self.give(frame);
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

impl Sources {
    async fn next(&mut self) -> News {
        let hears_the_log = self.owner.is_none() || !self.alone;
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
            signal = self.signals.next(), if hears_the_log => match signal {
                Some(()) => News::Signal,
                None => News::Closed,
            },
            stays = owner => {
                if !stays {
                    // The owner is gone; what it did not show any more is read from the log.
                    self.owner = None;
                }
                News::Signal
            }
        }
    }
}
