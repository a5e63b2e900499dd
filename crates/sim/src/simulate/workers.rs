//! Workers of remote tools: processes of their own, which are killed, stand still, are cut off, stop
//! and start. What they had sent may still land.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::NodeId;
use steadfast_core::input::Durability;
use steadfast_runtime::{Options, Runtime, RuntimeHandle, WorkerOptions};
use steadfast_store::Stores;
use steadfast_store::fault::{FaultLayer, FaultPlan, Odds};

use super::node::{agents, all_at_rest, odds_of_clusters};
use super::world::{Part, World};

/// Workers of a run.
const COUNT: u64 = 2;

/// The workers of a run.
pub(super) struct Workers {
    world: World,
    stores: Stores,
    starts: u64,
    workers: Vec<Worker>,
    /// Connections of those that are gone.
    graves: Vec<(Arc<FaultPlan>, FaultLayer)>,
}

struct Worker {
    name: String,
    plan: Arc<FaultPlan>,
    layer: FaultLayer,
    handle: RuntimeHandle,
}

impl Workers {
    pub(super) fn new(world: &World, stores: &Stores) -> Self {
        Self {
            world: world.of(&World::key(0), Part::Workers),
            stores: stores.clone(),
            starts: 0,
            workers: Vec::new(),
            graves: Vec::new(),
        }
    }

    pub(super) async fn start(&mut self) {
        let count = if self.world.setup.remote { COUNT } else { 0 };
        for _ in 0..count {
            match self.worker().await {
                Some(worker) => self.workers.push(worker),
                None => self.world.broken("worker", "it could not be set up"),
            }
        }
    }

    async fn worker(&mut self) -> Option<Worker> {
        self.starts += 1;
        let world = &self.world;
        let odds = match world.setup.faults && !world.is_calm() {
            true => odds_of_clusters(&world.setup),
            false => Odds::NONE,
        };
        let plan = FaultPlan::new(world.fork_rng(), odds);
        let plan = Arc::new(plan.sharing(Arc::clone(&world.elections)));
        let layer = FaultLayer::new(&self.stores, Arc::clone(&plan));
        let options = Options {
            admits: false,
            drives: false,
            works: true,
            worker: WorkerOptions {
                keep_alive_every: Duration::from_secs(2),
                ..WorkerOptions::default()
            },
            ..Options::default()
        };
        let name = format!("w{}", self.starts);
        let node = NodeId::new(name.clone()).ok()?;
        let agents = agents(world, Durability::On)?;
        let clock = Arc::new(world.clock);
        let started = Runtime::start(options, layer.stores().clone(), agents, clock, node);
        let (_sessions, handle) = started.await.ok()?;
        world.note(format!("worker {name} starts"));
        Some(Worker {
            name,
            plan,
            layer,
            handle,
        })
    }

    pub(super) async fn live_roughly(&mut self) {
        if self.workers.is_empty() {
            return;
        }
        let world = self.world.clone();
        for _ in 0..world.draw(4) {
            world.pause(8_000).await;
            let pick = world.draw(COUNT) as usize;
            if pick >= self.workers.len() {
                continue;
            }
            let lasts = Duration::from_millis(world.draw(15_000));
            match world.draw(8) {
                trouble @ (0..=2 | 7) => {
                    let worker = self.workers.remove(pick);
                    if trouble == 7 {
                        world.note(format!("worker {} stops", worker.name));
                        let give_up = tokio::time::sleep(Duration::from_secs(60));
                        worker.handle.shutdown(give_up).await;
                    } else {
                        all_at_rest().await;
                        world.note(format!("worker {} is killed", worker.name));
                        drop(worker.handle);
                    }
                    self.graves.push((worker.plan, worker.layer));
                    world.pause(5_000).await;
                    match self.worker().await {
                        Some(worker) => self.workers.push(worker),
                        None => world.broken("worker", "it could not be set up"),
                    }
                }
                trouble => {
                    let Some(worker) = self.workers.get(pick) else {
                        continue;
                    };
                    if trouble <= 4 {
                        world.note(format!("worker {} stands still", worker.name));
                        worker.plan.block();
                        tokio::time::sleep(lasts).await;
                        worker.plan.open();
                    } else {
                        world.note(format!("worker {} is cut off", worker.name));
                        worker.plan.cut_for(lasts);
                        tokio::time::sleep(lasts).await;
                    }
                }
            }
        }
    }

    /// Nothing goes wrong any more.
    pub(super) fn calm(&self) {
        let graves = self.graves.iter().map(|(plan, _)| plan);
        let alive = self.workers.iter().map(|worker| &worker.plan);
        graves.chain(alive).for_each(|plan| plan.stop());
    }

    pub(super) async fn land_writes(&self) {
        for (_, layer) in &self.graves {
            layer.settle().await;
        }
        for worker in &self.workers {
            worker.layer.settle().await;
        }
    }

    pub(super) async fn stop(self) {
        for worker in self.workers {
            let give_up = tokio::time::sleep(Duration::from_secs(60));
            worker.handle.shutdown(give_up).await;
        }
    }
}
