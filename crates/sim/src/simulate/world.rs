//! What the parts of a run share: the seed's random numbers, the watch over each session, what the
//! outside remembers. Everything runs on one thread, so the lock is never waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use steadfast_core::event::Event;
use steadfast_core::id::{
    CallId, CommandId, Fence, NodeId, Seq, SessionId, SessionKey, TenantId, Timestamp,
};
use steadfast_core::session::{Ownership, Session};
use steadfast_protocol::record;
use steadfast_runtime::sessions::Sessions;
use steadfast_store::clock::{Clock, TokioClock};
use steadfast_store::fault::Elections;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Report;
use super::setup::Setup;
use crate::invariants::{History, Seen};

/// Shared by all parts of a run.
#[derive(Clone)]
pub(super) struct World {
    pub(super) setup: Arc<Setup>,
    pub(super) clock: TokioClock,
    state: Arc<Mutex<State>>,
    /// Whose random numbers are drawn: a part's numbers do not depend on what others do meanwhile.
    stream: u64,
    /// Told when a node is up. Wakes in the order of waiting, which a watch channel does not.
    node_up: Arc<Notify>,
    /// Streams of the store that have no leader.
    pub(super) elections: Arc<Elections>,
}

struct State {
    /// The sessions of each node that is up.
    nodes: BTreeMap<u64, Sessions>,
    /// Until when each process may be replaced as its sessions' owner: it was killed, stood still
    /// or was cut off.
    excused: BTreeMap<NodeId, Instant>,
    seed: u64,
    rngs: BTreeMap<u64, SmallRng>,
    calm: bool,
    trace: Vec<String>,
    broken: Vec<String>,
    records: u64,
    crashes: u64,
    watched: BTreeMap<SessionKey, Watched>,
}

/// One session as the outside sees it.
struct Watched {
    history: History,
    /// Facts of Records that some owner has sent.
    begun: Vec<Event>,
    /// How often each call acted.
    acted: BTreeMap<CallId, u32>,
    /// A check under this fence said «not done»: attempts up to it are refused from then on.
    refused_up_to: BTreeMap<CallId, Fence>,
    /// Commands in the mailbox whose clients hold a receipt.
    receipted: BTreeSet<CommandId>,
    /// Commands that were ever answered in the log.
    settled: BTreeSet<CommandId>,
    /// Numbers of the events that removed the session.
    deletions: Vec<Seq>,
}

impl Watched {
    fn new(key: &SessionKey) -> Self {
        Self {
            history: History::new(key),
            begun: Vec::new(),
            acted: BTreeMap::new(),
            refused_up_to: BTreeMap::new(),
            receipted: BTreeSet::new(),
            settled: BTreeSet::new(),
            deletions: Vec::new(),
        }
    }
}

/// A node's clock, which may be set wrong.
pub(super) struct NodeClock {
    pub(super) right: TokioClock,
    pub(super) ahead_ms: i64,
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.right.now().0.saturating_add_signed(self.ahead_ms))
    }
}

/// What draws random numbers of its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Client,
    People,
    Follower,
    Model,
    Tool,
    Nodes,
    Elections,
    Workers,
}

impl World {
    pub(super) fn new(seed: u64, setup: Setup, clock: TokioClock) -> Self {
        let state = State {
            nodes: BTreeMap::new(),
            excused: BTreeMap::new(),
            seed,
            rngs: BTreeMap::new(),
            calm: false,
            trace: Vec::new(),
            broken: Vec::new(),
            records: 0,
            crashes: 0,
            watched: BTreeMap::new(),
        };
        Self {
            setup: Arc::new(setup),
            clock,
            state: Arc::new(Mutex::new(state)),
            stream: 0,
            node_up: Arc::default(),
            elections: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of client `number`.
    pub(super) fn key(number: u64) -> SessionKey {
        let plain = |text: String| SessionId::new(text);
        SessionKey {
            tenant: TenantId::new("t").unwrap_or_else(|_| unreachable!("a literal")),
            session: plain(format!("s{number}")).unwrap_or_else(|_| unreachable!("plain")),
        }
    }

    // ---- random numbers

    /// The same world, with random numbers of its own for one part of one session.
    pub(super) fn of(&self, key: &SessionKey, part: Part) -> Self {
        let digits = key.session.as_str().trim_start_matches('s');
        let number = digits.parse::<u64>().unwrap_or_default();
        Self {
            stream: 1 + number * 16 + part as u64,
            ..self.clone()
        }
    }

    fn with_rng<T>(&self, draw: impl FnOnce(&mut SmallRng) -> T) -> T {
        let mut state = self.lock();
        let seed = state
            .seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(self.stream);
        let fresh = || SmallRng::seed_from_u64(seed);
        draw(state.rngs.entry(self.stream).or_insert_with(fresh))
    }

    /// A number below `below`.
    pub(super) fn draw(&self, below: u64) -> u64 {
        self.with_rng(|rng| rng.random_range(0..below))
    }

    /// True so many times in a hundred.
    pub(super) fn chance(&self, percent: u64) -> bool {
        self.draw(100) < percent
    }

    /// A generator of its own, seeded from this one.
    pub(super) fn fork_rng(&self) -> SmallRng {
        let seed = self.with_rng(|rng| rng.random());
        SmallRng::seed_from_u64(seed)
    }

    /// Mostly short, sometimes long.
    pub(super) async fn pause(&self, longest_ms: u64) {
        let longest = if self.chance(10) {
            longest_ms.saturating_mul(10)
        } else {
            longest_ms
        };
        let wait_ms = self.draw(longest.max(1));
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }

    // ---- phases

    /// From now on nothing goes wrong by itself.
    pub(super) fn calm(&self) {
        self.lock().calm = true;
        self.elections.end();
        self.note("calm");
    }

    pub(super) fn is_calm(&self) -> bool {
        self.lock().calm
    }

    pub(super) fn node_is(&self, number: u64, sessions: Option<Sessions>) {
        let nodes = &mut self.lock().nodes;
        match sessions {
            Some(sessions) => nodes.insert(number, sessions),
            None => nodes.remove(&number),
        };
        self.node_up.notify_waiters();
    }

    /// The sessions of any node that is up, once one is.
    pub(super) async fn sessions(&self) -> Sessions {
        loop {
            let up = self.node_up.notified();
            let nodes: Vec<Sessions> = self.lock().nodes.values().cloned().collect();
            let pick = match nodes.len() {
                0 | 1 => 0,
                many => self.draw(many as u64) as usize,
            };
            if let Some(sessions) = nodes.into_iter().nth(pick) {
                return sessions;
            }
            up.await;
        }
    }

    /// A process may be replaced, from now on and for a while after.
    pub(super) fn excuse(&self, node: &NodeId, lasts: Duration) {
        let until = Instant::now() + lasts;
        self.lock().excused.insert(node.clone(), until);
    }

    /// Whether an owner is replaced that is alive and can be reached.
    fn replaces_the_living(state: &State, before: &Ownership, event: &Event) -> bool {
        let (Ownership::Owned { node: owner }, Event::Activated { node, .. }) = (before, event)
        else {
            return false;
        };
        let excused = state.excused.get(owner);
        owner != node && excused.is_none_or(|until| *until < Instant::now())
    }

    /// A process is gone for good.
    pub(super) fn died(&self, node: &NodeId) {
        self.excuse(node, Duration::from_secs(1_000_000));
    }

    pub(super) fn crashed(&self) {
        let mut state = self.lock();
        state.crashes += 1;
        state.trace.push("crash".to_owned());
    }

    // ---- what is seen

    pub(super) fn note(&self, line: impl Into<String>) {
        self.lock().trace.push(line.into());
    }

    pub(super) fn broken(&self, session: &str, how: &str) {
        let line = format!("{session}: {how}");
        let mut state = self.lock();
        state.trace.push(format!("BROKEN {line}"));
        state.broken.push(line);
    }

    /// Something happened to a session, beside its log.
    pub(super) fn saw(&self, key: &SessionKey, seen: &Seen<'_>) {
        let broken = {
            let mut state = self.lock();
            let watched = watched(&mut state, key);
            watched.history.saw(seen)
        };
        self.all_broken(key, broken);
    }

    fn all_broken(&self, key: &SessionKey, broken: Vec<String>) {
        for how in broken {
            self.broken(key.session.as_str(), &how);
        }
    }

    /// A client holds a receipt of the mailbox.
    pub(super) fn receipted(&self, key: &SessionKey, command: &CommandId) {
        self.saw(key, &Seen::Receipted { command });
        let mut state = self.lock();
        let watched = watched(&mut state, key);
        if !watched.settled.contains(command) {
            watched.receipted.insert(command.clone());
        }
    }

    /// Some owner sends a Record.
    pub(super) fn record_sent(&self, key: &SessionKey, bytes: &[u8]) {
        let Ok(record) = record::decode(bytes) else {
            return;
        };
        let events = record.entries.into_iter().flat_map(|entry| entry.events);
        watched(&mut self.lock(), key).begun.extend(events);
    }

    /// A Record is committed.
    pub(super) fn record_committed(&self, key: &SessionKey, bytes: &[u8]) {
        let record = match record::decode(bytes) {
            Ok(record) => record,
            Err(error) => return self.broken(key.session.as_str(), &error.to_string()),
        };
        let mut broken = Vec::new();
        let mut state = self.lock();
        let before = self::watched(&mut state, key).history.log();
        let before = before.ownership.clone();
        let first = record
            .entries
            .first()
            .and_then(|entry| entry.events.first());
        let replaced = first.is_some_and(|event| Self::replaces_the_living(&state, &before, event));
        let Watched {
            history,
            receipted,
            settled,
            deletions,
            ..
        } = self::watched(&mut state, key);
        if history.ends_with(bytes) {
            // The same append again, answered by the Record that stands there already.
            return;
        }
        if replaced {
            broken.extend(history.saw(&Seen::LivingOwnerReplaced));
        }
        let mut lines = Vec::new();
        broken.extend(history.record(&record, bytes, |log, at, event| {
            match event {
                Event::CommandSettled { command, .. } => {
                    receipted.remove(command);
                    settled.insert(command.clone());
                }
                Event::SessionDeleted => {
                    receipted.clear();
                    deletions.push(log.seq);
                }
                _ => {}
            }
            let json = serde_json::to_string(event).unwrap_or_default();
            lines.push(format!("{} {} {at} {json}", key.session, log.seq));
        }));
        state.records += 1;
        state.trace.append(&mut lines);
        drop(state);
        self.all_broken(key, broken);
    }

    pub(super) fn owners_failed(&self) {
        let keys: Vec<SessionKey> = self.lock().watched.keys().cloned().collect();
        for key in keys {
            self.saw(&key, &Seen::OwnerFailed);
        }
    }

    /// Calls what is committed and begun of a session.
    pub(super) fn with_log<T>(
        &self,
        key: &SessionKey,
        look: impl FnOnce(&Session, &[Event]) -> T,
    ) -> T {
        let mut state = self.lock();
        let watched = watched(&mut state, key);
        look(watched.history.log(), &watched.begun)
    }

    /// Whether the session was removed after event `after` and before event `before`.
    pub(super) fn deleted_within(&self, key: &SessionKey, after: Seq, before: Seq) -> bool {
        let mut state = self.lock();
        let deletions = &watched(&mut state, key).deletions;
        deletions.iter().any(|at| after < *at && *at <= before)
    }

    // ---- the outside

    /// A call acts; how often it did by now, or `None` if this attempt is refused.
    pub(super) fn act(&self, key: &SessionKey, call: CallId, fence: Fence) -> Option<u32> {
        let mut state = self.lock();
        let watched = watched(&mut state, key);
        let refused = watched.refused_up_to.get(&call);
        if refused.is_some_and(|up_to| fence <= *up_to) {
            return None;
        }
        let times = watched.acted.entry(call).or_insert(0);
        *times += 1;
        Some(*times)
    }

    /// Whether a call acted; if not, attempts up to this one are refused from now on.
    pub(super) fn check(&self, key: &SessionKey, call: CallId, fence: Fence) -> bool {
        let mut state = self.lock();
        let watched = watched(&mut state, key);
        let acted = watched.acted.contains_key(&call);
        if !acted {
            let up_to = watched.refused_up_to.entry(call).or_insert(fence);
            *up_to = fence.max(*up_to);
        }
        acted
    }

    // ---- the end

    pub(super) fn settled(&self) {
        let keys: Vec<SessionKey> = self.lock().watched.keys().cloned().collect();
        for key in keys {
            let broken = watched(&mut self.lock(), &key).history.settled();
            self.all_broken(&key, broken);
        }
    }

    /// What is still under way, for people.
    pub(super) fn open(&self) -> String {
        let state = self.lock();
        let open = state.watched.iter().map(|(key, watched)| {
            let turn = watched.history.log().turn.as_ref().map(|turn| turn.id);
            format!(
                "{} turn {turn:?} receipts {:?}",
                key.session, watched.receipted
            )
        });
        open.collect::<Vec<_>>().join("; ")
    }

    /// Whether nothing of any session is under way.
    pub(super) fn is_settled(&self) -> bool {
        let state = self.lock();
        state.watched.values().all(|watched| {
            let log = watched.history.log();
            watched.receipted.is_empty()
                && log.turn.is_none()
                && log.queue.is_empty()
                && steadfast_core::outstanding(log).is_empty()
        })
    }

    pub(super) fn report(&self, seed: u64) -> Report {
        let state = self.lock();
        Report {
            seed,
            broken: state.broken.clone(),
            trace: state.trace.clone(),
            records: state.records,
            crashes: state.crashes,
        }
    }
}

fn watched<'a>(state: &'a mut State, key: &SessionKey) -> &'a mut Watched {
    state
        .watched
        .entry(key.clone())
        .or_insert_with(|| Watched::new(key))
}
