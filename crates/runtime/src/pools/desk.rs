//! Hands out places in the pools, fairly.
//!
//! A call needs a place in its tool's bound and one in its pool's. When none is free it waits in
//! line: the tools of a pool take turns, and for one tool the sessions do, so a session with many
//! calls waits as long for its next place as one with a single call. Nobody is turned away and
//! nobody overtakes: a place is given at once only if nobody waits for that tool. What waits is
//! bounded by the calls of open steps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steadfast_core::id::SessionKey;
use steadfast_tools::catalog::{Line as Name, Tool};
use steadfast_tools::worker::Executor;
use tokio::sync::oneshot;

use crate::options::PoolOptions;

/// Where places are had.
pub(super) struct Desk {
    state: Mutex<State>,
}

struct State {
    pools: BTreeMap<Executor, Pool>,
    /// Place in `tools` of each line, once somebody asked for it.
    numbers: BTreeMap<Name, usize>,
    tools: Vec<Line>,
    tickets: u64,
}

struct Pool {
    free: usize,
    /// Tools for which somebody waits, in the order of their turns.
    tools: VecDeque<usize>,
}

/// Those who wait for one tool.
struct Line {
    executor: Executor,
    free: usize,
    /// Sessions of which some call waits, in the order of their turns.
    sessions: VecDeque<SessionKey>,
    waiting: BTreeMap<SessionKey, VecDeque<Waiting>>,
}

struct Waiting {
    ticket: u64,
    place: oneshot::Sender<Slot>,
}

/// A place of a call; given back, and on to the next, when it is dropped.
pub(crate) struct Slot {
    desk: Arc<Desk>,
    tool: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.desk.give_back(self.tool);
    }
}

impl Desk {
    pub(super) fn new(options: &PoolOptions) -> Self {
        let pool = |executor| Pool {
            free: options.places_of(executor),
            tools: VecDeque::new(),
        };
        let state = State {
            pools: Executor::ALL
                .map(|executor| (executor, pool(executor)))
                .into(),
            numbers: BTreeMap::new(),
            tools: Vec::new(),
            tickets: 0,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn try_reserve(self: &Arc<Self>, tool: &Arc<Tool>) -> Option<Slot> {
        let mut state = self.lock();
        let tool = state.number(tool)?;
        let taken = state.take(tool);
        drop(state);
        taken.then(|| self.slot(tool))
    }

    pub(super) async fn reserve(
        self: &Arc<Self>,
        tool: &Arc<Tool>,
        session: &SessionKey,
    ) -> Option<Slot> {
        let (tool, (ticket, place)) = {
            let mut state = self.lock();
            let tool = state.number(tool)?;
            if state.take(tool) {
                drop(state);
                return Some(self.slot(tool));
            }
            (tool, state.wait(tool, session))
        };
        let _in_line = InLine {
            desk: self,
            tool,
            session,
            ticket,
        };
        place.await.ok()
    }

    fn slot(self: &Arc<Self>, tool: usize) -> Slot {
        let desk = Arc::clone(self);
        Slot { desk, tool }
    }

    fn give_back(self: &Arc<Self>, tool: usize) {
        let next = self.lock().give_back(tool);
        for (tool, waiting) in next {
            // Somebody who went away just now drops the place, which gives it on.
            let _went_away = waiting.place.send(self.slot(tool));
        }
    }
}

/// Leaves the line when the call is no longer wanted.
struct InLine<'a> {
    desk: &'a Desk,
    tool: usize,
    session: &'a SessionKey,
    ticket: u64,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.desk.lock().leave(self.tool, self.session, self.ticket);
    }
}

impl State {
    /// The line of a tool; `None` if nothing here runs it.
    fn number(&mut self, tool: &Tool) -> Option<usize> {
        let worker = tool.worker.as_ref()?;
        let next = self.tools.len();
        let number = *self.numbers.entry(tool.line).or_insert(next);
        if number == next {
            self.tools.push(Line {
                executor: worker.executor(),
                free: usize::try_from(tool.spec.concurrency_max).unwrap_or(usize::MAX),
                sessions: VecDeque::new(),
                waiting: BTreeMap::new(),
            });
        }
        Some(number)
    }

    /// Takes a place, if one is free and nobody waits for the tool.
    fn take(&mut self, tool: usize) -> bool {
        let Some(line) = self.tools.get_mut(tool) else {
            return false;
        };
        let Some(pool) = self.pools.get_mut(&line.executor) else {
            return false;
        };
        let free = line.free > 0 && pool.free > 0 && line.sessions.is_empty();
        if free {
            line.free -= 1;
            pool.free -= 1;
        }
        free
    }

    fn wait(&mut self, tool: usize, session: &SessionKey) -> (u64, oneshot::Receiver<Slot>) {
        self.tickets += 1;
        let ticket = self.tickets;
        let (place, given) = oneshot::channel();
        if let Some(line) = self.tools.get_mut(tool) {
            if line.sessions.is_empty()
                && let Some(pool) = self.pools.get_mut(&line.executor)
            {
                pool.tools.push_back(tool);
            }
            if !line.waiting.contains_key(session) {
                line.sessions.push_back(session.clone());
            }
            let calls = line.waiting.entry(session.clone()).or_default();
            calls.push_back(Waiting { ticket, place });
        }
        (ticket, given)
    }

    fn leave(&mut self, tool: usize, session: &SessionKey, ticket: u64) {
        let Some(line) = self.tools.get_mut(tool) else {
            return;
        };
        // Not there: it was served.
        let Some(calls) = line.waiting.get_mut(session) else {
            return;
        };
        calls.retain(|waiting| waiting.ticket != ticket);
        if calls.is_empty() {
            line.waiting.remove(session);
            line.sessions.retain(|waits| waits != session);
        }
        if line.sessions.is_empty()
            && let Some(pool) = self.pools.get_mut(&line.executor)
        {
            pool.tools.retain(|waits| *waits != tool);
        }
    }

    /// Gives a place back; who gets what is free now.
    fn give_back(&mut self, tool: usize) -> Vec<(usize, Waiting)> {
        let Some(line) = self.tools.get_mut(tool) else {
            return Vec::new();
        };
        line.free += 1;
        let executor = line.executor;
        let Some(pool) = self.pools.get_mut(&executor) else {
            return Vec::new();
        };
        pool.free += 1;
        let mut served = Vec::new();
        while let Some(next) = pool.next(&mut self.tools) {
            served.push(next);
        }
        served
    }
}

impl Pool {
    /// Who is next: the next tool that has a place, and of it the next session.
    fn next(&mut self, tools: &mut [Line]) -> Option<(usize, Waiting)> {
        if self.free == 0 {
            return None;
        }
        for _ in 0..self.tools.len() {
            let tool = self.tools.pop_front()?;
            let line = tools.get_mut(tool)?;
            let next = if line.free > 0 { line.next() } else { None };
            if !line.sessions.is_empty() {
                self.tools.push_back(tool);
            }
            if let Some(waiting) = next {
                line.free -= 1;
                self.free -= 1;
                return Some((tool, waiting));
            }
        }
        None
    }
}

impl Line {
    /// The oldest call of the session whose turn it is.
    fn next(&mut self) -> Option<Waiting> {
        let session = self.sessions.pop_front()?;
        let calls = self.waiting.get_mut(&session)?;
        let next = calls.pop_front();
        if calls.is_empty() {
            self.waiting.remove(&session);
        } else {
            self.sessions.push_back(session);
        }
        next
    }
}
