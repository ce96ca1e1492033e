//! The network between hosts: exchanges take virtual time, and a rank may be cut off.
//!
//! Only the hosts' exchanges pass through it. The collectives of the CPU's ranks are memory that they share.

use crate::pace::Pace;
use crate::plan::TIMEOUT;
use bootstrap::World;
use bootstrap::progress::Progress;
use bootstrap::world::{Rendezvous, WorldParts};
use hal::sync::{Mutex, Random, thread};
use hal::{AbortSignal, Error, Exchange, Result, Stopwatch};
use std::sync::Arc;
use std::time::Duration;

/// How often a rank that is cut off looks whether the job has ended.
const POLL: Duration = Duration::from_millis(25);

/// The network of a job.
#[derive(Debug)]
pub struct Network {
    /// A rank, and how many exchanges it takes part in before its link is cut in both directions.
    cut: Option<(usize, u64)>,
    state: Mutex<Traffic>,
}

#[derive(Debug)]
struct Traffic {
    pace: Pace,
    /// Exchanges of the rank that is cut off.
    of_cut: u64,
}

impl Network {
    /// A network whose exchanges take up to `longest`, and which may cut a rank off.
    pub fn new(random: Random, longest: Duration, cut: Option<(usize, u64)>) -> Arc<Network> {
        let state = Mutex::new(Traffic {
            pace: Pace::new(random, longest),
            of_cut: 0,
        });
        Arc::new(Network { cut, state })
    }

    /// The time of all exchanges.
    pub fn spent(&self) -> Duration {
        hal::lock(&self.state).pace.spent()
    }

    /// Whether the rank has been cut off.
    pub fn has_cut(&self) -> bool {
        let of_cut = hal::lock(&self.state).of_cut;
        self.cut.is_some_and(|(_, after)| of_cut > after)
    }

    /// The world of a rank whose exchanges pass through the network.
    pub fn connect(self: &Arc<Network>, world: &World) -> World {
        let link = Link {
            network: self.clone(),
            world: world.clone(),
        };
        World::new(WorldParts {
            place: world.place(),
            launcher: world.launcher(),
            timeout: world.timeout(),
            abort: world.abort().clone(),
            progress: Arc::new(Progress::new(vec![world.rank()])),
            everyone: link.through(world.everyone(), "world", (0..world.size()).collect()),
            rendezvous: Box::new(link),
        })
    }

    /// A message of a rank passes, or does not.
    fn pass(&self, rank: usize) -> bool {
        let (time, passes) = {
            let mut traffic = hal::lock(&self.state);
            let time = traffic.pace.next();
            let mut passes = true;
            if let Some((cut, after)) = self.cut
                && cut == rank
            {
                traffic.of_cut += 1;
                passes = traffic.of_cut <= after;
            }
            (time, passes)
        };
        thread::sleep(time);
        passes
    }
}

/// A rank's link to the network.
struct Link {
    network: Arc<Network>,
    world: World,
}

impl Link {
    fn through(
        &self,
        exchange: Arc<dyn Exchange>,
        label: &str,
        members: Vec<usize>,
    ) -> Arc<dyn Exchange> {
        Arc::new(Remote {
            exchange,
            network: self.network.clone(),
            abort: self.world.abort().clone(),
            label: label.to_owned(),
            members,
        })
    }
}

impl Rendezvous for Link {
    fn exchange(&self, label: &str, members: &[usize]) -> Result<Arc<dyn Exchange>> {
        let exchange = self.world.exchange(label, members)?;
        Ok(self.through(exchange, label, members.to_vec()))
    }
}

/// An exchange over the network.
#[derive(Debug)]
struct Remote {
    exchange: Arc<dyn Exchange>,
    network: Arc<Network>,
    abort: Arc<AbortSignal>,
    label: String,
    members: Vec<usize>,
}

impl Remote {
    fn pass(&self) -> Result<()> {
        let own = self.members[self.exchange.rank()];
        match self.network.pass(own) {
            true => Ok(()),
            false => self.wait_in_vain(own),
        }
    }

    fn wait_in_vain(&self, own: usize) -> Result<()> {
        let waits = Stopwatch::start();
        while waits.elapsed() < TIMEOUT {
            self.abort.check()?;
            thread::sleep(POLL);
        }
        let others = self.members.iter().copied().filter(|member| *member != own);
        Err(Error::Timeout {
            group: self.label.clone(),
            rank: own,
            operation: "exchange".into(),
            sequence: 0,
            missing: others.collect(),
            waited: waits.elapsed(),
        })
    }
}

impl Exchange for Remote {
    fn rank(&self) -> usize {
        self.exchange.rank()
    }

    fn size(&self) -> usize {
        self.exchange.size()
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.pass()?;
        self.exchange.all_gather(bytes)
    }

    fn broadcast(&self, root: usize, bytes: &[u8]) -> Result<Vec<u8>> {
        self.pass()?;
        self.exchange.broadcast(root, bytes)
    }

    fn barrier(&self) -> Result<()> {
        self.pass()?;
        self.exchange.barrier()
    }

    fn any(&self, mine: bool) -> Result<bool> {
        self.pass()?;
        self.exchange.any(mine)
    }
}
