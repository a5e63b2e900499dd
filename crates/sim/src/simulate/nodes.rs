//! All nodes of a run, and what befalls them: one thing at a time, to any of them.

use std::time::Duration;

use steadfast_store::Stores;
use steadfast_store::fault::Stream;

use super::node::Node;
use super::setup::Troubles;
use super::world::{Part, World};

/// The elections of a run: each takes one stream of the store away for some seconds.
pub(super) async fn elections(world: &World) {
    if !world.setup.wide || !world.setup.faults {
        return;
    }
    let world = world.of(&World::key(0), Part::Elections);
    for _ in 0..world.draw(4) {
        world.pause(12_000).await;
        let stream = Stream::ALL[world.draw(Stream::ALL.len() as u64) as usize];
        let lasts = Duration::from_millis(1_000 + world.draw(8_000));
        world.note(format!("{stream:?} has no leader for {lasts:?}"));
        world.elections.begin(stream, lasts);
        tokio::time::sleep(lasts).await;
    }
}

/// The nodes of a run.
pub(super) struct Nodes {
    world: World,
    nodes: Vec<Node>,
}

impl Nodes {
    pub(super) fn new(world: &World, stores: &Stores) -> Self {
        let count = world.setup.nodes.max(1);
        let node = |number| Node::new(world, number, stores.clone());
        Self {
            // What befalls several nodes is drawn from numbers of its own.
            world: match count {
                1 => world.clone(),
                _ => world.of(&World::key(0), Part::Nodes),
            },
            nodes: (1..=count).map(node).collect(),
        }
    }

    pub(super) async fn start(&mut self) {
        for node in &mut self.nodes {
            node.start().await;
        }
    }

    /// Lives through crashes for a while, and, where there are several nodes, through more.
    pub(super) async fn live_roughly(&mut self) {
        let alone = self.nodes.len() == 1;
        let troubles = self.world.draw(self.world.setup.crashes_max + 1);
        for _ in 0..troubles {
            self.world.pause(8_000).await;
            let pick = match alone {
                true => 0,
                false => self.world.draw(self.nodes.len() as u64) as usize,
            };
            let world = self.world.clone();
            let Some(node) = self.nodes.get_mut(pick) else {
                continue;
            };
            let trouble = match world.setup.troubles {
                _ if alone => 0,
                Troubles::Any => world.draw(10),
                Troubles::Kills => 0,
                Troubles::Stops => 9,
            };
            match trouble {
                0..=3 => {
                    node.kill().await;
                    world.pause(3_000).await;
                    node.start().await;
                }
                4 | 5 => {
                    node.stand_still(Duration::from_millis(world.draw(25_000)))
                        .await
                }
                6 | 7 => {
                    node.cut_off(Duration::from_millis(world.draw(12_000)))
                        .await
                }
                _ => {
                    node.stop().await;
                    world.pause(3_000).await;
                    node.start().await;
                }
            }
        }
        self.world.pause(8_000).await;
    }

    /// Nothing goes wrong any more.
    pub(super) async fn calm(&mut self) {
        for node in &mut self.nodes {
            node.calm().await;
        }
    }

    /// Waits until nothing is under way.
    pub(super) async fn settle(&mut self, longest: Duration) {
        const LOOK_EVERY: Duration = Duration::from_secs(10);
        let mut waited = Duration::ZERO;
        for node in &self.nodes {
            node.land_writes().await;
        }
        while !self.world.is_settled() && waited < longest {
            tokio::time::sleep(LOOK_EVERY).await;
            waited += LOOK_EVERY;
        }
    }

    pub(super) async fn stop(&mut self) {
        for node in &mut self.nodes {
            node.stop().await;
        }
    }
}
