//! What each rank was last doing, so that a job that stops can report it.

use crate::ranks::named;
use hal::lock;
use hal::sync::{Mutex, time::Instant};
use std::{fmt, time::Duration};

/// What one rank last reported about its work, and how long ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSeen {
    /// The world rank.
    pub rank: usize,
    /// Its text, as in `step 17 forward`.
    pub what: String,
    /// Time since then.
    pub age: Duration,
}

impl fmt::Display for LastSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&together(&[self]))
    }
}

/// One sentence about ranks that were last in the same work.
pub(crate) fn together(seen: &[&LastSeen]) -> String {
    let ranks = named(seen.iter().map(|seen| seen.rank).collect());
    let what = seen.first().map_or("", |seen| &seen.what);
    let ages = || seen.iter().map(|seen| seen.age);
    let [least, most] = [ages().min(), ages().max()]
        .map(|age| format!("{:.1}", age.unwrap_or_default().as_secs_f64()));
    let (were, ages) = match (seen.len(), least == most) {
        (1, _) => ("was", most),
        (_, true) => ("were", most),
        (_, false) => ("were", format!("{least} to {most}")),
    };
    format!("{ranks} {were} last in `{what}` {ages} s ago")
}

/// The last reports of every rank that this process runs.
#[derive(Debug)]
pub struct Progress {
    /// In ascending order, one for each of `beats`.
    ranks: Vec<usize>,
    beats: Vec<Mutex<Beat>>,
}

#[derive(Debug)]
struct Beat {
    what: String,
    at: Instant,
}

impl Progress {
    /// Watches these ranks, given in ascending order; all start in `start`.
    pub fn new(ranks: Vec<usize>) -> Self {
        let start = || {
            Mutex::new(Beat {
                what: "start".into(),
                at: Instant::now(),
            })
        };
        let beats = ranks.iter().map(|_| start()).collect();
        Self { ranks, beats }
    }

    /// Records that `rank`, if it is watched, is now in `what`. Each rank has its own lock and keeps its
    /// string's memory, so that this costs a few dozen nanoseconds.
    pub fn beat(&self, rank: usize, what: &str) {
        let Ok(index) = self.ranks.binary_search(&rank) else {
            return;
        };
        let mut beat = lock(&self.beats[index]);
        beat.what.clear();
        beat.what.push_str(what);
        beat.at = Instant::now();
    }

    /// The last reports of all watched ranks, in the order of ranks.
    pub fn last_seen(&self) -> Vec<LastSeen> {
        self.ranks
            .iter()
            .zip(&self.beats)
            .map(|(&rank, beat)| seen(rank, &lock(beat)))
            .collect()
    }
}

fn seen(rank: usize, beat: &Beat) -> LastSeen {
    LastSeen {
        rank,
        what: beat.what.clone(),
        age: beat.at.elapsed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_only_the_last_words_of_each_rank() {
        let progress = Progress::new(vec![4, 9]);
        progress.beat(9, "step 16 backward");
        progress.beat(9, "step 17 forward");
        let seen = progress.last_seen();
        assert_eq!((seen[0].rank, seen[0].what.as_str()), (4, "start"));
        assert_eq!(
            (seen[1].rank, seen[1].what.as_str()),
            (9, "step 17 forward")
        );
        assert!(seen[1].age <= seen[0].age);
    }

    #[test]
    fn says_it_in_words() {
        let seen = LastSeen {
            rank: 3,
            what: "step 17 forward".into(),
            age: Duration::from_millis(61_240),
        };
        assert_eq!(
            seen.to_string(),
            "rank 3 was last in `step 17 forward` 61.2 s ago"
        );
    }
}
