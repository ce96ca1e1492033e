//! What a rank knows about its job, whatever launcher started it.

use crate::progress::{LastSeen, Progress};
use hal::{AbortSignal, Error, Exchange, Result};
use std::{fmt, sync::Arc, time::Duration};

/// What started the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Launcher {
    /// [`local::run`](crate::local::run): threads of one process.
    Local,
    /// `mpirun` or `srun`: one process per rank.
    Mpi,
    /// None: a recorded rank runs again, alone, and what the others sent comes from the recording.
    Recording,
}

impl Launcher {
    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Launcher::Local => "local",
            Launcher::Mpi => "mpi",
            Launcher::Recording => "recording",
        }
    }
}

/// One rank's view of the job. A handle: clones share everything and cost one reference count.
///
/// It serves its rank while that rank runs. Work that a clone does after the rank's body has returned finds no
/// partner, because the others already count the rank as ended.
#[derive(Clone)]
pub struct World {
    shared: Arc<WorldParts>,
}

/// The values that a launcher provides for one rank.
pub struct WorldParts {
    /// The rank's place.
    pub place: RankLocation,
    /// What started it.
    pub launcher: Launcher,
    /// How long it waits for others before it reports the missing ranks.
    pub timeout: Duration,
    /// The signal that ends the job.
    pub abort: Arc<AbortSignal>,
    /// What the ranks visible to this process were last doing.
    pub progress: Arc<Progress>,
    /// How exchanges are made.
    pub rendezvous: Box<dyn Rendezvous>,
    /// The exchange of all ranks.
    pub everyone: Arc<dyn Exchange>,
}

/// A rank's place, among all ranks and within its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankLocation {
    /// Index among all ranks.
    pub rank: usize,
    /// Number of ranks.
    pub size: usize,
    /// Index of the host.
    pub node: usize,
    /// Number of hosts.
    pub num_nodes: usize,
    /// Index among the ranks of the host.
    pub local_rank: usize,
    /// Number of ranks on the host.
    pub local_size: usize,
}

/// How a launcher makes exchanges for one rank.
pub trait Rendezvous: Send + Sync {
    /// This rank's end of the next exchange of `members` under `label`. `members` lists each rank once,
    /// including this one.
    ///
    /// # Errors
    /// Whatever keeps the launcher from making one.
    fn exchange(&self, label: &str, members: &[usize]) -> Result<Arc<dyn Exchange>>;
}

impl World {
    /// The view that a launcher provides to a rank.
    pub fn new(parts: WorldParts) -> Self {
        Self {
            shared: Arc::new(parts),
        }
    }

    /// The same rank of the same job, whose exchanges are made by others: what they return may be recorded, for instance.
    pub fn with_exchanges(
        &self,
        rendezvous: Box<dyn Rendezvous>,
        everyone: Arc<dyn Exchange>,
    ) -> World {
        let WorldParts {
            place,
            launcher,
            timeout,
            ..
        } = *self.shared;
        World::new(WorldParts {
            place,
            launcher,
            timeout,
            abort: self.shared.abort.clone(),
            progress: self.shared.progress.clone(),
            rendezvous,
            everyone,
        })
    }

    /// This rank's place.
    pub fn place(&self) -> RankLocation {
        self.shared.place
    }

    /// Index of this rank in the job.
    pub fn rank(&self) -> usize {
        self.shared.place.rank
    }

    /// Number of ranks in the job.
    pub fn size(&self) -> usize {
        self.shared.place.size
    }

    /// Index of this rank's host.
    pub fn node(&self) -> usize {
        self.shared.place.node
    }

    /// Number of hosts.
    pub fn num_nodes(&self) -> usize {
        self.shared.place.num_nodes
    }

    /// Index of this rank among those on its host.
    pub fn local_rank(&self) -> usize {
        self.shared.place.local_rank
    }

    /// Number of ranks on this rank's host.
    pub fn local_size(&self) -> usize {
        self.shared.place.local_size
    }

    /// What started the ranks.
    pub fn launcher(&self) -> Launcher {
        self.shared.launcher
    }

    /// How long a rank waits for others before it reports the missing ranks.
    pub fn timeout(&self) -> Duration {
        self.shared.timeout
    }

    /// The signal that ends the job. Every wait above this crate watches it too.
    pub fn abort(&self) -> &Arc<AbortSignal> {
        &self.shared.abort
    }

    /// The exchange of all ranks. Every call returns the same one, so its count of calls continues.
    pub fn everyone(&self) -> Arc<dyn Exchange> {
        self.shared.everyone.clone()
    }

    /// This rank's end of a new exchange of `members`, which are world ranks in the order of the group.
    ///
    /// Nothing is sent yet. Repeated calls with the same label and members return independent exchanges: the
    /// first of one member belongs to the first of the others, the second to the second.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `members` lacks this rank, lists a rank twice, or lists one that does not exist; those
    /// of the launcher, such as a member whose stand-in is not a member.
    pub fn exchange(&self, label: &str, members: &[usize]) -> Result<Arc<dyn Exchange>> {
        let refuse =
            |needed: String| Error::invalid(format!("exchange `{label}`"), found(members), needed);
        // A table instead of a set, because groups of simulated worlds have thousands of members.
        let mut seen = vec![false; self.size()];
        for &member in members {
            match seen.get_mut(member) {
                None => return Err(refuse(format!("ranks below {}", self.size()))),
                Some(true) => return Err(refuse(format!("rank {member} only once"))),
                Some(seen) => *seen = true,
            }
        }
        if !seen[self.rank()] {
            return Err(refuse(format!(
                "the calling rank {} among them",
                self.rank()
            )));
        }
        self.shared.rendezvous.exchange(label, members)
    }

    /// The same rank, for a thread beside its own: what the thread exchanges meets the exchanges of the same thread of the other
    /// ranks, whatever the ranks exchange meanwhile. Every rank calls this, with the same label.
    ///
    /// # Errors
    /// As [`exchange`](World::exchange).
    pub fn beside(&self, label: &str) -> Result<World> {
        let members: Vec<usize> = (0..self.size()).collect();
        let everyone = self.exchange(label, &members)?;
        Ok(self.with_exchanges(Box::new(Beside(self.clone())), everyone))
    }

    /// Records what this rank is doing now, as in `step 17 forward`, for the report of a job that stops.
    ///
    /// Cheap enough for every step and collective: an uncontended lock, a short copy and a clock read.
    pub fn beat(&self, what: &str) {
        self.shared.progress.beat(self.rank(), what);
    }

    /// What the ranks visible to this process were last doing: all of them under [`Launcher::Local`], otherwise
    /// only this one.
    pub fn last_seen(&self) -> Vec<LastSeen> {
        self.shared.progress.last_seen()
    }
}

/// Exchanges of a thread beside a rank are made as the rank's own are.
struct Beside(World);

impl Rendezvous for Beside {
    fn exchange(&self, label: &str, members: &[usize]) -> Result<Arc<dyn Exchange>> {
        self.0.shared.rendezvous.exchange(label, members)
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "World({}, {:?})",
            self.launcher().name(),
            self.shared.place
        )
    }
}

/// The members as text, shortened for a large job.
fn found(members: &[usize]) -> String {
    match members.get(..16) {
        Some(first) if members.len() > 16 => {
            format!("members {first:?} and {} more", members.len() - 16)
        }
        _ => format!("members {members:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::{Options, run};

    fn refusal(members: &'static [usize]) -> String {
        let texts = run(Options::new(2), move |world| match world.rank() {
            0 => Ok::<_, Error>(
                world
                    .exchange("pair", members)
                    .err()
                    .map(|error| error.to_string()),
            ),
            _ => Ok(None),
        });
        texts.unwrap().swap_remove(0).unwrap()
    }

    #[test]
    fn refuses_members_that_are_no_group_of_this_rank() {
        assert_eq!(
            refusal(&[1]),
            "exchange `pair`: members [1], needs the calling rank 0 among them"
        );
        assert_eq!(
            refusal(&[0, 1, 0]),
            "exchange `pair`: members [0, 1, 0], needs rank 0 only once"
        );
        assert_eq!(
            refusal(&[0, 2]),
            "exchange `pair`: members [0, 2], needs ranks below 2"
        );
        assert_eq!(
            refusal(&[]),
            "exchange `pair`: members [], needs the calling rank 0 among them"
        );
    }

    #[test]
    fn many_members_are_cut_short() {
        let all: Vec<_> = (0..20).collect();
        assert!(found(&all).ends_with("15] and 4 more"), "{}", found(&all));
    }

    #[test]
    fn a_world_tells_its_place_on_one_host() {
        let worlds = run(Options::new(3), Ok::<World, Error>).unwrap();
        for (rank, world) in worlds.iter().enumerate() {
            assert_eq!(
                (
                    world.rank(),
                    world.size(),
                    world.local_rank(),
                    world.local_size()
                ),
                (rank, 3, rank, 3)
            );
            assert_eq!(
                (world.node(), world.num_nodes(), world.launcher()),
                (0, 1, Launcher::Local)
            );
            assert_eq!(world.timeout(), Options::DEFAULT_TIMEOUT);
        }
    }
}
