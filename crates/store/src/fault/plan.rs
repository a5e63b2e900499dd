//! The one object that decides about every fault.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::election::Elections;
use super::odds::{Odds, draw_duration};
use super::operation::{Fault, Operation};
use crate::local::lock;

/// What happens to the calls of one layer.
///
/// Asked for each call, in this order: blocked (the call waits), cut off, an election, disk full, the
/// script, the odds.
pub struct FaultPlan {
    state: Mutex<State>,
    connection: Mutex<Connection>,
    elections: Arc<Elections>,
    /// Wakes in the order of waiting, which a watch channel does not: runs must be the same.
    changed: Notify,
}

struct State {
    rng: SmallRng,
    odds: Odds,
    is_disk_full: bool,
    script: BTreeMap<Operation, VecDeque<Option<Fault>>>,
    counts: BTreeMap<(Operation, &'static str), u64>,
}

/// How a node reaches its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    Open,
    /// Calls wait.
    Blocked,
    /// Calls fail, until then or until it is opened.
    Cut {
        until: Option<Instant>,
    },
}

/// What happens to one call.
pub(super) struct Decision {
    pub(super) latency: Duration,
    pub(super) fault: Option<Fault>,
}

impl FaultPlan {
    /// A plan that draws by `odds` from `rng`.
    pub fn new(rng: SmallRng, odds: Odds) -> Self {
        let state = State {
            rng,
            odds,
            is_disk_full: false,
            script: BTreeMap::new(),
            counts: BTreeMap::new(),
        };
        Self {
            state: Mutex::new(state),
            connection: Mutex::new(Connection::Open),
            elections: Arc::default(),
            changed: Notify::new(),
        }
    }

    /// Has its elections together with other plans.
    #[must_use]
    pub fn sharing(self, elections: Arc<Elections>) -> Self {
        Self { elections, ..self }
    }

    /// Changes the odds from the next call on.
    pub fn set_odds(&self, odds: Odds) {
        lock(&self.state).odds = odds;
    }

    /// Turns everything off: no odds, no script, no election, an open connection, room on the disk.
    /// Writes that were begun before still land in their time.
    pub fn stop(&self) {
        let mut state = lock(&self.state);
        state.odds = Odds::NONE;
        state.is_disk_full = false;
        state.script.clear();
        drop(state);
        self.elections.end();
        self.connect(Connection::Open);
    }

    /// The next call of this kind that has no other script before it meets this fault.
    ///
    /// Panics if the fault cannot happen to the call: the script is wrong.
    pub fn inject(&self, operation: Operation, fault: Fault) {
        assert!(fault.fits(operation), "{fault:?} cannot meet {operation:?}");
        self.script(operation, Some(fault));
    }

    /// The next call of this kind that has no other script before it meets no fault.
    pub fn spare(&self, operation: Operation) {
        self.script(operation, None);
    }

    fn script(&self, operation: Operation, fault: Option<Fault>) {
        let mut state = lock(&self.state);
        state.script.entry(operation).or_default().push_back(fault);
    }

    fn connect(&self, connection: Connection) {
        *lock(&self.connection) = connection;
        self.changed.notify_waiters();
    }

    fn connection(&self) -> Connection {
        *lock(&self.connection)
    }

    /// Waits until the connection is as wanted.
    async fn until(&self, wanted: impl Fn(Connection) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if wanted(self.connection()) {
                return;
            }
            changed.await;
        }
    }

    /// Cuts the connection: calls fail until it is opened.
    pub fn cut(&self) {
        self.connect(Connection::Cut { until: None });
    }

    /// Cuts the connection for a while.
    pub fn cut_for(&self, duration: Duration) {
        let until = Some(Instant::now() + duration);
        self.connect(Connection::Cut { until });
    }

    /// Blocks the connection: calls wait until it is opened.
    pub fn block(&self) {
        self.connect(Connection::Blocked);
    }

    /// Opens the connection.
    pub fn open(&self) {
        self.connect(Connection::Open);
    }

    /// Fills the disk, so that writes are refused, or makes room.
    pub fn set_disk_full(&self, is_full: bool) {
        lock(&self.state).is_disk_full = is_full;
    }

    /// How often each fault met each kind of call.
    pub fn counts(&self) -> BTreeMap<(Operation, &'static str), u64> {
        lock(&self.state).counts.clone()
    }

    /// Waits while the connection is blocked, then decides.
    pub(super) async fn decide(&self, operation: Operation) -> Decision {
        self.until(|connection| connection != Connection::Blocked)
            .await;
        self.decide_now(operation)
    }

    /// Decides about a call that cannot wait.
    pub(super) fn decide_now(&self, operation: Operation) -> Decision {
        let mut state = lock(&self.state);
        let State { rng, odds, .. } = &mut *state;
        let latency = draw_duration(rng, odds.latency_max);
        if rng.random_range(0..1_000) < odds.cut_permille && !self.is_cut() {
            let until = Some(Instant::now() + draw_duration(rng, odds.cut_max));
            self.connect(Connection::Cut { until });
        }
        let fault = if self.is_cut() {
            Some(state.fault_of_a_cut(operation))
        } else if let Some(left) = self.elections.left(operation) {
            Some(state.fault_of_an_election(operation, left))
        } else if state.is_disk_full && operation.is_write() {
            Some(Fault::Refused)
        } else if let Some(fault) = state.scripted(operation) {
            fault
        } else {
            let State { rng, odds, .. } = &mut *state;
            odds.draw(rng, operation)
        };
        if let Some(fault) = fault {
            *state.counts.entry((operation, fault.name())).or_default() += 1;
        }
        Decision { latency, fault }
    }

    /// Whether a repeated append conflicts with its own first sending.
    pub(super) fn draws_own_conflict(&self) -> bool {
        let mut state = lock(&self.state);
        let State { rng, odds, .. } = &mut *state;
        rng.random_range(0..1_000) < odds.own_conflict_permille
    }

    /// Waits until the connection is cut.
    pub(super) async fn until_cut(&self) {
        self.until(|connection| connection.cut_left().is_some())
            .await;
    }

    /// Waits until calls come through.
    pub(super) async fn until_open(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.connection() {
                Connection::Open => return,
                Connection::Blocked | Connection::Cut { until: None } => changed.await,
                Connection::Cut { until: Some(until) } => {
                    if until <= Instant::now() {
                        return;
                    }
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = sleep_until(until) => {}
                    }
                }
            }
        }
    }

    /// Whether nothing comes through now.
    pub(super) fn is_silent(&self) -> bool {
        self.connection() == Connection::Blocked || self.is_cut()
    }

    fn is_cut(&self) -> bool {
        self.connection().cut_left().is_some()
    }
}

impl Connection {
    /// How long it stays cut, if it is; for ever when nobody knows.
    fn cut_left(self) -> Option<Duration> {
        match self {
            Self::Open | Self::Blocked => None,
            Self::Cut { until: None } => Some(Duration::MAX),
            Self::Cut { until: Some(until) } => {
                let left = until.saturating_duration_since(Instant::now());
                (!left.is_zero()).then_some(left)
            }
        }
    }
}

impl State {
    fn scripted(&mut self, operation: Operation) -> Option<Option<Fault>> {
        self.script.get_mut(&operation)?.pop_front()
    }

    /// Without a leader a read fails; a write is refused, or lost, or done by the next leader.
    fn fault_of_an_election(&mut self, operation: Operation, left: Duration) -> Fault {
        if !operation.is_write() {
            return Fault::Unavailable;
        }
        match self.rng.random_range(0..3) {
            0 => Fault::LostRequest,
            1 => Fault::Ghost { delay: left },
            _ => Fault::Unavailable,
        }
    }

    /// Half of the writes of a cut connection are kept by the client and sent when it is back.
    fn fault_of_a_cut(&mut self, operation: Operation) -> Fault {
        if operation == Operation::PublishFrame {
            return Fault::Lost;
        }
        if operation.is_write() && self.rng.random_range(0..2) == 0 {
            let delay = draw_duration(&mut self.rng, Duration::from_millis(100));
            return Fault::Ghost { delay };
        }
        Fault::Unavailable
    }
}
