//! The node's life: started, killed, started again under a new name, its store failing meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steadfast_core::command::ToolChoice;
use steadfast_core::id::NodeId;
use steadfast_core::input::{Durability, Policy};
use steadfast_harness::native::ModelSettings;
use steadfast_runtime::agent::{Agent, Agents, LoopControl};
use steadfast_runtime::{Runtime, RuntimeHandle};
use steadfast_store::Stores;
use steadfast_store::fault::{FaultLayer, FaultPlan, Odds};
use steadfast_tools::filter::ToolFilter;

use super::model::SimulatedModel;
use super::setup::{Setup, options};
use super::tool;
use super::world::{NodeClock, World};

/// One node of a run.
pub(super) struct Node {
    world: World,
    number: u64,
    /// How wrong its clock is.
    ahead_ms: i64,
    stores: Stores,
    durability: Durability,
    cramped: bool,
    /// Whether it takes sessions from the queue.
    drives: bool,
    /// Connections of processes that were killed: what they had sent may still land.
    graves: Vec<(Arc<FaultPlan>, FaultLayer)>,
    starts: u64,
    running: Option<Running>,
}

struct Running {
    handle: RuntimeHandle,
    node: NodeId,
    plan: Arc<FaultPlan>,
    layer: FaultLayer,
}

impl Node {
    pub(super) fn new(world: &World, number: u64, stores: Stores) -> Self {
        let ahead_ms = match world.setup.nodes {
            0 | 1 => 0,
            _ => [0, 0, 0, 0, 3_600_000, -3_600_000][world.draw(6) as usize % 6],
        };
        let drawn = if world.chance(50) {
            Durability::On
        } else {
            Durability::Strict
        };
        let durability = world.setup.durability.unwrap_or(drawn);
        let cramped = world.chance(25);
        let drives = !world.setup.wide || number == 1 || world.chance(75);
        Self {
            world: world.clone(),
            number,
            ahead_ms,
            stores,
            durability,
            cramped,
            drives,
            graves: Vec::new(),
            starts: 0,
            running: None,
        }
    }

    pub(super) async fn start(&mut self) {
        self.starts += 1;
        let odds = match self.world.setup.nodes {
            _ if !self.world.setup.faults || self.world.is_calm() => Odds::NONE,
            0 | 1 => Odds::ROUGH,
            _ => odds_of_clusters(&self.world.setup),
        };
        let plan = FaultPlan::new(self.world.fork_rng(), odds);
        let plan = Arc::new(plan.sharing(Arc::clone(&self.world.elections)));
        let layer = FaultLayer::new(&self.stores, Arc::clone(&plan));
        let stores = super::witness::announce(layer.stores().clone(), &self.world);
        let name = match self.world.setup.nodes {
            0 | 1 => format!("n{}", self.starts),
            _ => format!("n{}-{}", self.number, self.starts),
        };
        let node = NodeId::new(name);
        let (Ok(node), Some(agents)) = (node, agents(&self.world, self.durability)) else {
            return self.world.broken("node", "it could not be set up");
        };
        let clock = Arc::new(NodeClock {
            right: self.world.clock,
            ahead_ms: self.ahead_ms,
        });
        let options = options(&self.world.setup, self.cramped, self.drives);
        match Runtime::start(options, stores, agents, clock, node.clone()).await {
            Ok((sessions, handle)) => {
                self.world.note(format!("node {node} starts"));
                self.running = Some(Running {
                    handle,
                    node,
                    plan,
                    layer,
                });
                self.world.node_is(self.number, Some(sessions));
            }
            Err(error) => self.world.broken("node", &error.to_string()),
        }
    }

    /// As SIGKILL does: nothing is said, nothing is written.
    pub(super) async fn kill(&mut self) {
        all_at_rest().await;
        self.world.node_is(self.number, None);
        if let Some(Running {
            handle,
            node,
            plan,
            layer,
        }) = self.running.take()
        {
            self.world.died(&node);
            drop(handle);
            if self.world.setup.wide {
                self.graves.push((plan, layer));
            }
            self.world.crashed();
            self.world.owners_failed();
        }
    }

    /// As SIGSTOP does to its connection: what it sends waits, what is sent to it is not heard.
    pub(super) async fn stand_still(&mut self, lasts: Duration) {
        let Some(running) = &self.running else {
            return;
        };
        self.world.note(format!("{} stands still", running.node));
        self.world.owners_failed();
        self.world.excuse(&running.node, lasts + EXCUSED);
        running.plan.block();
        tokio::time::sleep(lasts).await;
        running.plan.open();
    }

    /// As a broken network does: its calls fail for a while.
    pub(super) async fn cut_off(&mut self, lasts: Duration) {
        let Some(running) = &self.running else {
            return;
        };
        self.world.note(format!("{} is cut off", running.node));
        self.world.owners_failed();
        self.world.excuse(&running.node, lasts + EXCUSED);
        running.plan.cut_for(lasts);
        tokio::time::sleep(lasts).await;
    }

    /// As SIGTERM does: it lets go of its sessions first. No call is in doubt because of that.
    pub(super) async fn stop(&mut self) {
        self.world.node_is(self.number, None);
        if let Some(Running { handle, node, .. }) = self.running.take() {
            self.world.note(format!("{node} stops"));
            let give_up = tokio::time::sleep(Duration::from_secs(600));
            let drained = handle.shutdown(give_up).await;
            if drained.left > 0 {
                self.world.owners_failed();
            }
            self.world.died(&node);
        }
    }

    /// Nothing goes wrong any more.
    pub(super) async fn calm(&mut self) {
        if let Some(running) = &self.running {
            running.plan.stop();
        } else {
            self.start().await;
        }
    }

    /// Waits until every write that was begun has landed or failed.
    pub(super) async fn land_writes(&self) {
        for (plan, layer) in &self.graves {
            plan.stop();
            layer.settle().await;
        }
        if let Some(running) = &self.running {
            running.layer.settle().await;
        }
    }
}

/// Cuts are made one at a time, so that it is known who may be replaced.
pub(super) fn odds_of_clusters(setup: &Setup) -> Odds {
    let wide_permille = |permille| if setup.wide { permille } else { 0 };
    Odds {
        ghost_permille: setup.late_permille,
        cut_permille: 0,
        no_responders_permille: wide_permille(20),
        in_flight_permille: wide_permille(10),
        ..Odds::ROUGH
    }
}

/// How long after a node is back what befell it may still show.
const EXCUSED: Duration = Duration::from_secs(90);

/// Lets everything that is due at this instant run. The actor library chooses at random between a
/// kill and work that is ready at the same time; with none ready, a kill is the same in each run.
pub(super) async fn all_at_rest() {
    const ROUNDS: usize = 1_000;
    for _ in 0..ROUNDS {
        tokio::task::yield_now().await;
    }
}

/// The agents of a process.
pub(super) fn agents(world: &World, durability: Durability) -> Option<Agents> {
    let name = tool::agent()?;
    let settings = ModelSettings {
        model: "m".into(),
        instructions: "be quick".into(),
        tools: Arc::default(),
        output_tokens_max: None,
        options: Value::Null,
        tool_choice: ToolChoice::Auto,
        output_schema: None,
    };
    let agent = Agent {
        name: name.clone(),
        model: "simulated/m".into(),
        provider_name: "simulated".into(),
        provider: Arc::new(SimulatedModel {
            world: world.clone(),
        }),
        settings,
        policy: Policy {
            durability,
            steps_max: 12,
            queue_max: 4,
            compact_at_tokens: Some(6_000),
            ..Policy::default()
        },
        catalog: Arc::new(tool::catalog(world).ok()?),
        filter: ToolFilter::default(),
        control: LoopControl::default(),
        drive: steadfast_runtime::agent::Drive::Request,
    };
    let agent = Arc::new(agent.offering());
    Some(Arc::new(BTreeMap::from([(name, agent)])))
}
