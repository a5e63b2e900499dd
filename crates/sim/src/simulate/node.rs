//! The node's life: started, killed, started again under a new name, its store failing meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steadfast_core::id::{AgentName, NodeId};
use steadfast_core::input::{Durability, Policy};
use steadfast_harness::native::ModelSettings;
use steadfast_runtime::agent::{Agent, Agents};
use steadfast_runtime::{Runtime, RuntimeHandle};
use steadfast_store::Stores;
use steadfast_store::fault::{FaultLayer, FaultPlan, Odds};
use steadfast_tools::filter::ToolFilter;

use super::model::SimulatedModel;
use super::setup::options;
use super::tool;
use super::world::World;

/// The one node of a run.
pub(super) struct Node {
    world: World,
    stores: Stores,
    durability: Durability,
    cramped: bool,
    starts: u64,
    running: Option<Running>,
}

struct Running {
    handle: RuntimeHandle,
    plan: Arc<FaultPlan>,
    layer: FaultLayer,
}

impl Node {
    pub(super) fn new(world: &World, stores: Stores) -> Self {
        let drawn = if world.chance(50) {
            Durability::On
        } else {
            Durability::Strict
        };
        let durability = world.setup.durability.unwrap_or(drawn);
        let cramped = world.chance(25);
        Self {
            world: world.clone(),
            stores,
            durability,
            cramped,
            starts: 0,
            running: None,
        }
    }

    pub(super) async fn start(&mut self) {
        self.starts += 1;
        let odds = if self.world.setup.faults && !self.world.is_calm() {
            Odds::ROUGH
        } else {
            Odds::NONE
        };
        let plan = Arc::new(FaultPlan::new(self.world.fork_rng(), odds));
        let layer = FaultLayer::new(&self.stores, Arc::clone(&plan));
        let stores = super::witness::announce(layer.stores().clone(), &self.world);
        let node = NodeId::new(format!("n{}", self.starts));
        let (Ok(node), Some(agents)) = (node, self.agents()) else {
            return self.world.broken("node", "it could not be set up");
        };
        let clock = Arc::new(self.world.clock);
        match Runtime::start(
            options(&self.world.setup, self.cramped),
            stores,
            agents,
            clock,
            node,
        )
        .await
        {
            Ok((sessions, handle)) => {
                self.running = Some(Running {
                    handle,
                    plan,
                    layer,
                });
                self.world.note(format!("node {} starts", self.starts));
                self.world.node_is(Some(sessions));
            }
            Err(error) => self.world.broken("node", &error.to_string()),
        }
    }

    fn agents(&self) -> Option<Agents> {
        let name = AgentName::new("agent").ok()?;
        let settings = ModelSettings {
            model: "m".into(),
            instructions: "be quick".into(),
            tools: Arc::default(),
            output_tokens_max: None,
            options: Value::Null,
        };
        let agent = Agent {
            name: name.clone(),
            model: "simulated/m".into(),
            provider_name: "simulated".into(),
            provider: Arc::new(SimulatedModel {
                world: self.world.clone(),
            }),
            settings,
            policy: Policy {
                durability: self.durability,
                steps_max: 12,
                queue_max: 4,
                compact_at_tokens: Some(6_000),
                ..Policy::default()
            },
            catalog: Arc::new(tool::catalog(&self.world).ok()?),
            filter: ToolFilter::default(),
            drive: steadfast_runtime::agent::Drive::Request,
        };
        let agent = Arc::new(agent.offering());
        Some(Arc::new(BTreeMap::from([(name, agent)])))
    }

    /// Lives through crashes for a while.
    pub(super) async fn live_roughly(&mut self) {
        let crashes = self.world.draw(self.world.setup.crashes_max + 1);
        for _ in 0..crashes {
            self.world.pause(8_000).await;
            all_at_rest().await;
            self.kill();
            self.world.pause(3_000).await;
            self.start().await;
        }
        self.world.pause(8_000).await;
    }

    /// As SIGKILL does: nothing is said, nothing is written.
    fn kill(&mut self) {
        self.world.node_is(None);
        if let Some(Running { handle, .. }) = self.running.take() {
            drop(handle);
            self.world.crashed();
            self.world.owners_failed();
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

    /// Waits until nothing is under way.
    pub(super) async fn settle(&mut self, longest: Duration) {
        const LOOK_EVERY: Duration = Duration::from_secs(10);
        let mut waited = Duration::ZERO;
        if let Some(running) = &self.running {
            running.layer.settle().await;
        }
        while !self.world.is_settled() && waited < longest {
            tokio::time::sleep(LOOK_EVERY).await;
            waited += LOOK_EVERY;
        }
    }

    pub(super) async fn stop(&mut self) {
        self.world.node_is(None);
        if let Some(Running { handle, .. }) = self.running.take() {
            handle
                .shutdown(tokio::time::sleep(Duration::from_secs(600)))
                .await;
        }
    }
}

/// Lets everything that is due at this instant run. The actor library chooses at random between a
/// kill and work that is ready at the same time; with none ready, a kill is the same in each run.
async fn all_at_rest() {
    const ROUNDS: usize = 1_000;
    for _ in 0..ROUNDS {
        tokio::task::yield_now().await;
    }
}
