//! Workers of remote tools: processes of their own, which are killed, stand still, are cut off, stop
//! and start. What they had sent may still land.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::NodeId;
use steadfast_store::Stores;
use steadfast_store::fault::{FaultLayer, FaultPlan, Odds};
use steadfast_tools::remote::{RemoteWorker, WorkerOptions};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::node::odds_of_clusters;
use super::tool;
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
    stop: CancellationToken,
    task: JoinHandle<()>,
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

    pub(super) fn start(&mut self) {
        if self.world.setup.remote {
            let started: Vec<_> = (0..COUNT).filter_map(|_| self.worker()).collect();
            self.workers.extend(started);
        }
    }

    fn worker(&mut self) -> Option<Worker> {
        self.starts += 1;
        let world = &self.world;
        let odds = match world.setup.faults && !world.is_calm() {
            true => odds_of_clusters(&world.setup),
            false => Odds::NONE,
        };
        let plan = FaultPlan::new(world.fork_rng(), odds);
        let plan = Arc::new(plan.sharing(Arc::clone(&world.elections)));
        let layer = FaultLayer::new(&self.stores, Arc::clone(&plan));
        let options = WorkerOptions {
            keep_alive_every: Duration::from_secs(2),
            ..WorkerOptions::default()
        };
        let name = format!("w{}", self.starts);
        let (node, agent) = (NodeId::new(name.clone()).ok()?, tool::agent()?);
        let catalog = tool::catalog(world).ok()?;
        let worker = RemoteWorker::new(layer.stores(), Arc::new(world.clock), node, options)?;
        let worker = worker.serving(&agent, &catalog);
        let stop = CancellationToken::new();
        let task = tokio::spawn(worker.run(stop.clone()));
        world.note(format!("worker {name} starts"));
        Some(Worker {
            name,
            plan,
            layer,
            stop,
            task,
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
            let Some(worker) = self.workers.get(pick) else {
                continue;
            };
            let lasts = Duration::from_millis(world.draw(15_000));
            match world.draw(8) {
                0..=2 => {
                    world.note(format!("worker {} is killed", worker.name));
                    worker.task.abort();
                    world.pause(5_000).await;
                    self.replace(pick);
                }
                3 | 4 => {
                    world.note(format!("worker {} stands still", worker.name));
                    worker.plan.block();
                    tokio::time::sleep(lasts).await;
                    worker.plan.open();
                }
                5 | 6 => {
                    world.note(format!("worker {} is cut off", worker.name));
                    worker.plan.cut_for(lasts);
                    tokio::time::sleep(lasts).await;
                }
                _ => {
                    world.note(format!("worker {} stops", worker.name));
                    worker.stop.cancel();
                    world.pause(5_000).await;
                    self.replace(pick);
                }
            }
        }
    }

    fn replace(&mut self, pick: usize) {
        let Some(fresh) = self.worker() else {
            return self.world.broken("worker", "it could not be set up");
        };
        let Some(place) = self.workers.get_mut(pick) else {
            return;
        };
        let gone = std::mem::replace(place, fresh);
        self.graves.push((gone.plan, gone.layer));
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
            worker.stop.cancel();
            if worker.task.await.is_err() {
                self.world.broken("worker", "it panicked");
            }
        }
    }
}
