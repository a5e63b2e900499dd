//! How long nodes were silent, counted only while this node could have heard them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steadfast_core::id::NodeId;
use tokio::time::Instant;

/// Signs of life, by a clock that runs only while this node hears its own renewals: they take the
/// same way as all others, so while they come, silence means something.
pub(super) struct Silence {
    /// Longest time between two own renewals in which others would have been heard.
    gap_max: Duration,
    /// How long this node could hear.
    listened: Duration,
    own: Option<Instant>,
    /// Own renewals that were heard.
    own_count: u64,
    /// When the last was heard, whatever was missed meanwhile.
    own_heard: Option<Instant>,
    /// Gaps between them in which others may have taken this node for dead.
    absences: u64,
    /// What was missed before this says nothing.
    floor: Duration,
    heard: BTreeMap<NodeId, Duration>,
    ended: BTreeSet<NodeId>,
    /// Found dead and not heard since.
    dead: BTreeSet<NodeId>,
    /// When a door last answered.
    answered: BTreeMap<NodeId, Instant>,
}

/// Nodes that are remembered, at most; of those forgotten nothing is known, as of a new one.
const NODES_MAX: usize = 4_096;

impl Silence {
    pub(super) fn new(gap_max: Duration) -> Self {
        Self {
            gap_max,
            listened: Duration::ZERO,
            own: None,
            own_count: 0,
            own_heard: None,
            absences: 0,
            floor: Duration::ZERO,
            heard: BTreeMap::new(),
            ended: BTreeSet::new(),
            dead: BTreeSet::new(),
            answered: BTreeMap::new(),
        }
    }

    /// This node heard its own renewal.
    pub(super) fn own_renewed(&mut self, now: Instant) {
        if let Some(before) = self.own.replace(now) {
            let gap = now.saturating_duration_since(before);
            if gap <= self.gap_max {
                self.listened += gap;
            }
        }
        self.own_count += 1;
        let before = self.own_heard.replace(now);
        let absent = |before| now.saturating_duration_since(before) > self.gap_max;
        if before.is_some_and(absent) {
            self.absences += 1;
        }
    }

    /// How often this node was out of hearing for so long that others may have taken it for dead.
    pub(super) fn absences(&self) -> u64 {
        self.absences
    }

    /// How many own renewals were heard so far.
    pub(super) fn own_count(&self) -> u64 {
        self.own_count
    }

    /// Another node renewed.
    pub(super) fn renewed(&mut self, node: NodeId) {
        self.dead.remove(&node);
        self.ended.remove(&node);
        if self.heard.len() >= NODES_MAX && !self.heard.contains_key(&node) {
            self.heard.pop_first();
        }
        self.heard.insert(node, self.listened);
    }

    /// Another node ended in order.
    pub(super) fn ended(&mut self, node: NodeId) {
        self.heard.remove(&node);
        if self.ended.len() >= NODES_MAX {
            self.ended.pop_first();
        }
        self.ended.insert(node);
    }

    /// Renewals may have been missed.
    pub(super) fn interrupted(&mut self) {
        self.floor = self.listened;
        self.own = None;
    }

    /// How long a node was silent; for ever if it ended in order.
    pub(super) fn of(&self, node: &NodeId) -> Duration {
        if self.ended.contains(node) {
            return Duration::MAX;
        }
        let since = self.heard.get(node).copied().unwrap_or_default();
        self.listened.saturating_sub(since.max(self.floor))
    }

    pub(super) fn is_dead(&self, node: &NodeId) -> bool {
        self.dead.contains(node)
    }

    pub(super) fn found_dead(&mut self, node: NodeId) {
        self.answered.remove(&node);
        if self.dead.len() >= NODES_MAX {
            self.dead.pop_first();
        }
        self.dead.insert(node);
    }

    /// Whether its door answered within this time.
    pub(super) fn answered_within(&self, node: &NodeId, time: Duration) -> bool {
        let at = self.answered.get(node);
        at.is_some_and(|at| at.elapsed() < time)
    }

    pub(super) fn answered(&mut self, node: NodeId) {
        self.dead.remove(&node);
        if self.answered.len() >= NODES_MAX {
            self.answered.pop_first();
        }
        self.answered.insert(node, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    #[test]
    fn silence_counts_only_while_own_renewals_are_heard() {
        let mut silence = Silence::new(2 * SECOND);
        let start = Instant::now();
        silence.own_renewed(start);
        silence.renewed(node("a"));
        silence.own_renewed(start + SECOND);
        assert_eq!(silence.of(&node("a")), SECOND);
        // Nobody hears anything for a while: an election.
        silence.own_renewed(start + 10 * SECOND);
        assert_eq!(silence.of(&node("a")), SECOND);
        silence.own_renewed(start + 12 * SECOND);
        assert_eq!(silence.of(&node("a")), 3 * SECOND);
        silence.renewed(node("a"));
        assert_eq!(silence.of(&node("a")), Duration::ZERO);
    }

    #[test]
    fn an_absence_counts_also_when_it_was_an_interruption() {
        let mut silence = Silence::new(2 * SECOND);
        let start = Instant::now();
        silence.own_renewed(start);
        silence.own_renewed(start + SECOND);
        assert_eq!(silence.absences(), 0);
        silence.interrupted();
        silence.own_renewed(start + 9 * SECOND);
        assert_eq!(silence.absences(), 1);
        silence.own_renewed(start + 10 * SECOND);
        assert_eq!(silence.absences(), 1);
    }

    #[test]
    fn an_interruption_begins_the_count_anew() {
        let mut silence = Silence::new(2 * SECOND);
        let start = Instant::now();
        for n in 0..6 {
            silence.own_renewed(start + n * SECOND);
        }
        assert_eq!(silence.of(&node("never-heard")), 5 * SECOND);
        silence.interrupted();
        assert_eq!(silence.of(&node("never-heard")), Duration::ZERO);
        silence.own_renewed(start + 6 * SECOND);
        silence.own_renewed(start + 7 * SECOND);
        assert_eq!(silence.of(&node("never-heard")), SECOND);
    }

    #[test]
    fn who_ended_is_silent_until_it_is_heard_again() {
        let mut silence = Silence::new(2 * SECOND);
        silence.renewed(node("a"));
        silence.ended(node("a"));
        assert_eq!(silence.of(&node("a")), Duration::MAX);
        silence.found_dead(node("a"));
        assert!(silence.is_dead(&node("a")));
        silence.renewed(node("a"));
        assert_eq!(silence.of(&node("a")), Duration::ZERO);
        assert!(!silence.is_dead(&node("a")));
    }
}
