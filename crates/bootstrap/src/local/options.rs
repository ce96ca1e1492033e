//! Options of a local job.

use super::StandIns;
use crate::world::RankLocation;
use std::time::Duration;

/// How to run ranks as threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of ranks, at least 1.
    pub ranks: usize,
    /// How long a rank waits for others before it reports the missing ranks.
    pub timeout: Duration,
    /// How long the ranks have to return once one has failed. Those that do not return are left behind as
    /// stuck.
    pub grace: Duration,
    /// The ranks that run in place of all; `None` means that every rank runs.
    pub stand_ins: Option<StandIns>,
    /// Number of ranks that count as one host; `None` means all of them.
    pub ranks_per_node: Option<usize>,
}

impl Options {
    /// The timeout of [`new`](Options::new).
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

    /// `ranks` ranks with the default timeout of 60 s.
    pub fn new(ranks: usize) -> Self {
        let (timeout, grace) = Default::default();
        let whole = Self {
            ranks,
            timeout,
            grace,
            stand_ins: None,
            ranks_per_node: None,
        };
        whole.with_timeout(Self::DEFAULT_TIMEOUT)
    }

    /// Sets this timeout, and a grace period 5 s longer: a rank that waits for a device notices the abort only
    /// when its own watchdog does.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self {
            timeout,
            grace: timeout.saturating_add(Duration::from_secs(5)),
            ..self
        }
    }

    /// Sets this grace period.
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Runs only the live ranks of `stand_ins`, whose number of ranks must be that of the job.
    pub fn with_stand_ins(self, stand_ins: StandIns) -> Self {
        Self {
            stand_ins: Some(stand_ins),
            ..self
        }
    }

    /// Counts each `ranks_per_node` ranks as one host.
    pub fn with_ranks_per_node(self, ranks_per_node: usize) -> Self {
        Self {
            ranks_per_node: Some(ranks_per_node),
            ..self
        }
    }

    /// Why these options are invalid, or `None` if they are valid.
    pub(super) fn refusal(&self) -> Option<String> {
        let stand_ins = self
            .stand_ins
            .as_ref()
            .filter(|stand_ins| stand_ins.num_ranks() != self.ranks);
        match (self.ranks, self.ranks_per_node, stand_ins) {
            (0, _, _) => Some("run: 0 ranks, needs at least 1".into()),
            (_, Some(0), _) => Some("run: 0 ranks per node, needs at least 1".into()),
            (ranks, _, Some(stand_ins)) => Some(format!(
                "run: stand-ins for {} ranks, needs those for {ranks}",
                stand_ins.num_ranks()
            )),
            _ => None,
        }
    }

    /// Where `rank` is.
    pub(super) fn place(&self, rank: usize) -> RankLocation {
        let (size, per_node) = (self.ranks, self.ranks_per_node.unwrap_or(self.ranks));
        let (node, local_rank) = (rank / per_node, rank % per_node);
        let local_size = per_node.min(size - node * per_node);
        RankLocation {
            rank,
            size,
            node,
            num_nodes: size.div_ceil(per_node),
            local_rank,
            local_size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_follows_the_timeout_until_it_is_set() {
        let seconds = Duration::from_secs;
        let default = Options::new(2);
        assert_eq!(
            (default.ranks, default.timeout, default.grace),
            (2, seconds(60), seconds(65))
        );
        let own = Options::new(2)
            .with_timeout(seconds(1))
            .with_grace(seconds(2));
        assert_eq!((own.timeout, own.grace), (seconds(1), seconds(2)));
        assert_eq!(
            Options::new(1).with_timeout(Duration::MAX).grace,
            Duration::MAX
        );
    }

    #[test]
    fn the_last_node_has_the_ranks_that_are_left() {
        let options = Options::new(10).with_ranks_per_node(4);
        let place = |rank| {
            let RankLocation {
                node,
                num_nodes,
                local_rank,
                local_size,
                ..
            } = options.place(rank);
            (node, num_nodes, local_rank, local_size)
        };
        assert_eq!(
            [3, 4, 9].map(place),
            [(0, 3, 3, 4), (1, 3, 0, 4), (2, 3, 1, 2)]
        );
    }

    #[test]
    fn a_job_that_cannot_be_is_refused_with_the_numbers() {
        let refusal = |options: Options| options.refusal().unwrap_or_default();
        assert_eq!(refusal(Options::new(0)), "run: 0 ranks, needs at least 1");
        assert_eq!(
            refusal(Options::new(2).with_ranks_per_node(0)),
            "run: 0 ranks per node, needs at least 1"
        );
        let stand_ins = StandIns::new(3, |_| 0).unwrap();
        assert_eq!(
            refusal(Options::new(2).with_stand_ins(stand_ins.clone())),
            "run: stand-ins for 3 ranks, needs those for 2"
        );
        assert_eq!(Options::new(3).with_stand_ins(stand_ins).refusal(), None);
    }
}
