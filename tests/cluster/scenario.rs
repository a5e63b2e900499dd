//! What befalls a cluster. Each ends with everything whole.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use rand::Rng;
use rand::rngs::SmallRng;
use rustix::process::Signal;
use steadfast_tests::cut_proxy::Wire;
use steadfast_tests::wrong_clock;
use tokio::time::sleep;

use super::cluster::{Cluster, Node};

/// One kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    /// A node dies.
    NodeKilled,
    /// Two of three nodes die at once.
    TwoNodesKilled,
    /// A node stands still for longer than its lease, then goes on.
    NodeStopped,
    /// A node loses the brokers for a while.
    NodeCutOff,
    /// The server that leads a part of the log dies.
    LeaderKilled,
    /// All servers die.
    ServersKilled,
    /// Everything dies.
    AllKilled,
    /// The clock of one node is an hour wrong while another dies.
    WrongClock,
    /// A node is told to stop.
    Drained,
    /// One node after another is told to stop and comes back.
    Rolling,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What befell the nodes.
#[derive(Debug, Default)]
pub(super) struct Befell {
    /// Processes that others may have taken for dead.
    pub(super) excused: BTreeSet<String>,
    words: Vec<String>,
}

impl fmt::Display for Befell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join(", "))
    }
}

impl Befell {
    fn say(&mut self, words: impl Into<String>) {
        self.words.push(words.into());
    }

    fn excuse(&mut self, node: &Node) {
        let id = node.product.node_id();
        self.say(&id);
        self.excused.insert(id);
    }
}

impl Scenario {
    pub(super) const ALL: [Self; 10] = [
        Self::NodeKilled,
        Self::TwoNodesKilled,
        Self::NodeStopped,
        Self::NodeCutOff,
        Self::LeaderKilled,
        Self::ServersKilled,
        Self::AllKilled,
        Self::WrongClock,
        Self::Drained,
        Self::Rolling,
    ];

    /// Lets it happen and heals it; an error tells what could not be had for it.
    pub(super) async fn play(
        self,
        cluster: &mut Cluster,
        random: &mut SmallRng,
    ) -> Result<Befell, String> {
        let mut befell = Befell::default();
        let first = random.random_range(0..cluster.nodes.len());
        let second = (first + random.random_range(1..cluster.nodes.len())) % cluster.nodes.len();
        match self {
            Self::NodeKilled => kill(cluster, &[first], random, &mut befell).await,
            Self::TwoNodesKilled => kill(cluster, &[first, second], random, &mut befell).await,
            Self::NodeStopped => stand_still(&cluster.nodes[first], random, &mut befell).await,
            Self::NodeCutOff => cut_off(&cluster.nodes[first], random, &mut befell).await,
            Self::LeaderKilled => kill_leader(cluster, random, &mut befell).await,
            Self::ServersKilled => {
                kill_servers(cluster);
                pause(random, 500, 6_000, &mut befell).await;
                restart_servers(cluster);
            }
            Self::AllKilled => kill_all(cluster, random, &mut befell).await,
            Self::WrongClock => wrong_clock(cluster, first, second, random, &mut befell).await?,
            Self::Drained => restart_in_order(cluster, first, &mut befell).await,
            Self::Rolling => {
                for node in 0..cluster.nodes.len() {
                    restart_in_order(cluster, node, &mut befell).await;
                }
            }
        }
        Ok(befell)
    }
}

async fn pause(random: &mut SmallRng, least_ms: u64, most_ms: u64, befell: &mut Befell) {
    let wait_ms = random.random_range(least_ms..=most_ms);
    befell.say(format!("{wait_ms} ms"));
    sleep(Duration::from_millis(wait_ms)).await;
}

async fn start(cluster: &mut Cluster, which: &[usize]) {
    let nodes = cluster.nodes.iter_mut().enumerate();
    let nodes = nodes.filter(|(number, _)| which.contains(number));
    join_all(nodes.map(|(_, node)| node.product.start_again())).await;
}

async fn kill(cluster: &mut Cluster, which: &[usize], random: &mut SmallRng, befell: &mut Befell) {
    for &node in which {
        befell.excuse(&cluster.nodes[node]);
        cluster.nodes[node].product.kill().await;
    }
    pause(random, 0, 9_000, befell).await;
    start(cluster, which).await;
}

async fn stand_still(node: &Node, random: &mut SmallRng, befell: &mut Befell) {
    befell.excuse(node);
    node.product.signal(Signal::STOP);
    pause(random, 6_000, 15_000, befell).await;
    node.product.signal(Signal::CONT);
}

async fn cut_off(node: &Node, random: &mut SmallRng, befell: &mut Befell) {
    befell.excuse(node);
    let wire = match random.random_bool(0.5) {
        true => Wire::Silent,
        false => Wire::Broken,
    };
    befell.say(format!("{wire:?}"));
    node.set_wires(wire);
    pause(random, 3_000, 20_000, befell).await;
    node.set_wires(Wire::Whole);
}

async fn kill_leader(cluster: &mut Cluster, random: &mut SmallRng, befell: &mut Befell) {
    let leader = cluster.leader().await.expect("a stream has a leader");
    befell.say(format!("server {leader}"));
    cluster.servers.server(&leader).kill();
    pause(random, 500, 9_000, befell).await;
    tokio::task::block_in_place(|| cluster.servers.server(&leader).restart());
}

fn kill_servers(cluster: &mut Cluster) {
    for server in &mut cluster.servers.servers {
        server.kill();
    }
}

fn restart_servers(cluster: &mut Cluster) {
    tokio::task::block_in_place(|| {
        for server in &mut cluster.servers.servers {
            server.restart();
        }
    });
}

async fn kill_all(cluster: &mut Cluster, random: &mut SmallRng, befell: &mut Befell) {
    for node in &mut cluster.nodes {
        befell.excuse(node);
        node.product.kill().await;
    }
    kill_servers(cluster);
    pause(random, 0, 3_000, befell).await;
    restart_servers(cluster);
    start(cluster, &[0, 1, 2]).await;
}

async fn wrong_clock(
    cluster: &mut Cluster,
    wrong: usize,
    dies: usize,
    random: &mut SmallRng,
    befell: &mut Befell,
) -> Result<(), String> {
    let seconds = if random.random_bool(0.5) {
        3_600
    } else {
        -3_600
    };
    let environment = wrong_clock::ahead_by(seconds)?;
    befell.say(format!("clock {seconds:+} s"));
    cluster.nodes[wrong].product.set_environment(environment);
    restart_in_order(cluster, wrong, befell).await;
    sleep(Duration::from_secs(4)).await;
    kill(cluster, &[dies], random, befell).await;
    sleep(Duration::from_secs(4)).await;
    cluster.nodes[wrong].product.set_environment(Vec::new());
    restart_in_order(cluster, wrong, befell).await;
    Ok(())
}

/// Stops a node as a deploy does, and starts it again.
async fn restart_in_order(cluster: &mut Cluster, which: usize, befell: &mut Befell) {
    let product = &mut cluster.nodes[which].product;
    befell.say(format!("{} stops", product.node_id()));
    let status = product.terminate().await;
    assert!(status.success(), "{status}: {}", product.log());
    product.start_again().await;
}
