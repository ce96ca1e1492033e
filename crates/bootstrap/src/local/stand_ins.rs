//! Which ranks of a world run, and which of them stands for each of the others.

use hal::{Error, Result};
use std::{fmt, sync::Arc};

/// The live ranks of a world, and for every rank the live rank whose bytes and state count as its own.
///
/// Ranks that hold another piece of the same tensors, or other tokens, do the same work at the same time. Where
/// only time and memory matter, as on a simulated device, one of them can run for all. Cloning shares the
/// tables.
#[derive(Clone, PartialEq, Eq)]
pub struct StandIns {
    /// World ranks that run, in ascending order.
    live: Arc<[usize]>,
    /// For each rank of the world, the index in `live` of its stand-in.
    sources: Arc<[u32]>,
}

impl StandIns {
    /// A world of `ranks` ranks in which `stand_in` maps each rank to its stand-in; a live rank stands for
    /// itself.
    ///
    /// # Cost
    /// A few passes over the ranks: below a millisecond for 65,536.
    /// # Errors
    /// [`Error::Invalid`] when a rank's stand-in is outside the world or not live.
    ///
    /// # Examples
    /// ```
    /// use fascicle_bootstrap::local::StandIns;
    ///
    /// // Four pipeline stages of 8192 ranks each: the first rank of a stage stands for all of them.
    /// let stand_ins = StandIns::new(32_768, |rank| rank / 8192 * 8192)?;
    /// assert_eq!(stand_ins.live(), [0, 8192, 16_384, 24_576]);
    /// assert_eq!(stand_ins.of(9000), Some(8192));
    /// # Ok::<(), hal::Error>(())
    /// ```
    pub fn new(ranks: usize, stand_in: impl Fn(usize) -> usize) -> Result<Self> {
        let chosen: Vec<usize> = (0..ranks).map(stand_in).collect();
        let mut index_of = vec![u32::MAX; ranks];
        let live: Vec<usize> = (0..ranks).filter(|&rank| chosen[rank] == rank).collect();
        (0..)
            .zip(&live)
            .for_each(|(index, &rank)| index_of[rank] = index);
        let source = |(rank, &chosen): (usize, &usize)| match index_of.get(chosen) {
            Some(&index) if index != u32::MAX => Ok(index),
            _ => Err(refusal(rank, chosen, ranks)),
        };
        let sources = chosen
            .iter()
            .enumerate()
            .map(source)
            .collect::<Result<_>>()?;
        Ok(Self {
            live: live.into(),
            sources,
        })
    }

    /// Every rank for itself.
    pub(super) fn all_live(ranks: usize) -> Self {
        Self {
            live: (0..ranks).collect(),
            sources: (0..ranks as u32).collect(),
        }
    }

    /// Number of ranks of the world.
    pub fn num_ranks(&self) -> usize {
        self.sources.len()
    }

    /// World ranks that run, in ascending order.
    pub fn live(&self) -> &[usize] {
        &self.live
    }

    /// The live rank that stands for `rank`; `None` outside the world.
    pub fn of(&self, rank: usize) -> Option<usize> {
        self.sources
            .get(rank)
            .map(|&source| self.live[source as usize])
    }

    /// The members of the world that meet, and the source of each rank's bytes.
    pub(super) fn seat_all(&self) -> Seating {
        Seating {
            live: self.live.to_vec(),
            sources: self.sources.clone(),
        }
    }

    /// The members that meet, and the source of each member's bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a member's stand-in is not a member, because it would never arrive.
    pub(super) fn seat(&self, label: &str, members: &[usize]) -> Result<Seating> {
        let live: Vec<usize> = members
            .iter()
            .copied()
            .filter(|&member| self.of(member) == Some(member))
            .collect();
        let mut index_in_group = vec![u32::MAX; self.live.len()];
        (0..)
            .zip(&live)
            .for_each(|(index, &rank)| index_in_group[self.sources[rank] as usize] = index);
        let source = |&member: &usize| match index_in_group[self.sources[member] as usize] {
            u32::MAX => Err(self.absent(label, member)),
            index => Ok(index),
        };
        let sources = members.iter().map(source).collect::<Result<_>>()?;
        Ok(Seating { live, sources })
    }

    fn absent(&self, label: &str, member: usize) -> Error {
        let stand_in = self.live[self.sources[member] as usize];
        let found = format!("member {member}, for which rank {stand_in} stands");
        Error::invalid(
            format!("exchange `{label}`"),
            found,
            format!("rank {stand_in} among the members"),
        )
    }
}

/// The live members of a group, and for each member the index of its stand-in among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seating {
    /// World ranks, in the order of the group.
    pub(super) live: Vec<usize>,
    /// For each member, where in `live` its stand-in is.
    pub(super) sources: Arc<[u32]>,
}

fn refusal(rank: usize, chosen: usize, ranks: usize) -> Error {
    let needed = match chosen < ranks {
        true => format!("one that stands for itself, but rank {chosen} does not"),
        false => format!("one below {ranks}"),
    };
    Error::invalid(
        "stand-ins",
        format!("rank {chosen} in place of rank {rank}"),
        needed,
    )
}

impl fmt::Debug for StandIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "StandIns({} live of {})",
            self.live.len(),
            self.num_ranks()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_must_be_a_live_rank_of_the_world() {
        let text =
            |stand_in: fn(usize) -> usize| StandIns::new(4, stand_in).unwrap_err().to_string();
        assert_eq!(
            text(|_| 7),
            "stand-ins: rank 7 in place of rank 0, needs one below 4"
        );
        let chain = text(|rank| rank.saturating_sub(1));
        assert_eq!(
            chain,
            "stand-ins: rank 1 in place of rank 2, needs one that stands for itself, but rank 1 does not"
        );
    }

    #[test]
    fn members_are_seated_in_the_order_of_their_group() {
        let stand_ins = StandIns::new(8, |rank| if rank < 4 { 1 } else { 6 }).unwrap();
        let seating = stand_ins.seat("axis X", &[7, 6, 0, 1, 2]).unwrap();
        assert_eq!(
            (seating.live, &*seating.sources),
            (vec![6, 1], &[0, 0, 1, 1, 1][..])
        );
        assert_eq!(*stand_ins.seat_all().sources, [0, 0, 0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn a_group_without_the_stand_in_of_a_member_is_refused() {
        let stand_ins = StandIns::new(4, |rank| rank / 2 * 2).unwrap();
        let refused = stand_ins.seat("axis Z", &[0, 3]).unwrap_err().to_string();
        assert_eq!(
            refused,
            "exchange `axis Z`: member 3, for which rank 2 stands, needs rank 2 among the members"
        );
    }

    #[test]
    fn without_stand_ins_every_rank_is_its_own() {
        assert_eq!(
            StandIns::all_live(3),
            StandIns::new(3, |rank| rank).unwrap()
        );
    }
}
