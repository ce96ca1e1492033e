//! A job of one rank, without a launcher.

use crate::{
    progress::Progress,
    world::{Launcher, RankLocation, Rendezvous, World, WorldParts},
};
use hal::{AbortSignal, Exchange, Result};
use std::{sync::Arc, time::Duration};

impl World {
    /// A world of one rank, this thread, for work that needs no other rank.
    pub fn alone() -> World {
        World::new(WorldParts {
            place: RankLocation {
                rank: 0,
                size: 1,
                node: 0,
                num_nodes: 1,
                local_rank: 0,
                local_size: 1,
            },
            launcher: Launcher::Local,
            timeout: Duration::from_secs(1),
            abort: Arc::new(AbortSignal::default()),
            progress: Arc::new(Progress::new(vec![0])),
            rendezvous: Box::new(Alone),
            everyone: Arc::new(Alone),
        })
    }
}

#[derive(Debug)]
struct Alone;

impl Rendezvous for Alone {
    fn exchange(&self, _label: &str, _members: &[usize]) -> Result<Arc<dyn Exchange>> {
        Ok(Arc::new(Alone))
    }
}

impl Exchange for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![bytes.to_vec()])
    }
}
