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

mod frames;
mod sources;

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use steadfast_core::event::Event;
use steadfast_core::id::{NodeId, Seq, SessionKey, TurnId};
use steadfast_core::session::{Ownership, TurnPhase};
use steadfast_protocol::record::Record;
use tokio::time::Instant;

use super::read::read_error;
use super::{Followed, Follower, LoadError, Sessions};
use crate::feed::{Kept, Shown};
use sources::{News, Sources};

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

#[derive(Clone, Copy)]
struct OpenStep {
    turn: TurnId,
    number: u32,
    /// Its reply is committed: only its calls are still shown.
    replied: bool,
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
        Kept::of(&self.sessions.shared.doors.find(&self.key)?.feed)
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
            Some(door) if self.step.is_none() => door.committed(),
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
}
