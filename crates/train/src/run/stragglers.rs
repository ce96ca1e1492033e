//! Ranks that have become slower than the others, found while a run trains.
//!
//! In a step every rank waits for the slowest, so its duration does not tell who that is. Between steps all ranks time the same
//! small work instead, which waits for nobody.

use crate::{
    Error, Result,
    metrics::Stepped,
    speed::{self, Speed, Workload},
};
use bootstrap::World;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tensor::Device;

/// Measurements in a row in which a rank is slow before it counts as a straggler: one alone may have met another program.
pub const PATIENCE: u32 = 3;

/// A line of `speeds.jsonl`: the speeds of all ranks after a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedRecord {
    /// The step, counted from 1.
    pub step: u64,
    /// The median of the ranks' matmuls, in Tflop/s.
    pub tflops: f64,
    /// The median of their copies within the device, in GB/s.
    pub copy_gbps: f64,
    /// Those below the fraction of `training.straggler_below`.
    pub slow: Vec<SlowRank>,
}

/// A rank that is slow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowRank {
    /// The rank.
    pub rank: usize,
    /// The name of its host.
    pub host: String,
    /// Tflop/s of its matmul.
    pub tflops: f64,
    /// GB/s of its copy.
    pub copy_gbps: f64,
    /// Measurements in a row in which it was slow; a straggler from [`PATIENCE`] on.
    pub times: u32,
}

impl Stepped for SpeedRecord {
    const IN_EVERY_STEP: bool = false;

    fn step(&self) -> u64 {
        self.step
    }
}

// What a rank tells the others. One without room for the measurement has no speed.
#[derive(Serialize, Deserialize)]
struct Told {
    host: String,
    speed: Option<(f64, f64)>,
}

/// Counts in how many measurements in a row each rank was slow.
#[derive(Debug, Default)]
pub(super) struct Stragglers {
    times: BTreeMap<usize, u32>,
}

impl Stragglers {
    /// Measures all ranks after `step`, and compares them with the fraction `below` of the median. Collective.
    ///
    /// # Errors
    /// Those of the device, but for one without room for the measurement; those of the exchange.
    pub(super) fn measure(
        &mut self,
        world: &World,
        device: &Device,
        step: u64,
        below: f64,
    ) -> Result<SpeedRecord> {
        let workload = Workload::brief(device.id().vendor);
        let speed = match speed::measure(world, device, &workload) {
            Ok(Speed { tflops, copy_gbps }) => Some((tflops, copy_gbps)),
            Err(Error::Parallel(hal::Error::OutOfMemory { .. })) => None,
            Err(error) => return Err(error),
        };
        let own = Told {
            host: speed::host_name(),
            speed,
        };
        let words = serde_json::to_vec(&own).unwrap_or_default();
        let told = world.everyone().all_gather(&words)?;
        // A rank whose words are none is not judged.
        let read = told.iter().map(|words| serde_json::from_slice(words).ok());
        Ok(self.judge(step, below, &read.collect::<Vec<_>>()))
    }

    fn judge(&mut self, step: u64, below: f64, told: &[Option<Told>]) -> SpeedRecord {
        let ranks = told.iter().enumerate().filter_map(|(rank, told)| {
            let told = told.as_ref()?;
            Some((rank, &told.host, told.speed?))
        });
        let ranks: Vec<_> = ranks.collect();
        let of = |pick: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            ranks.iter().map(|(.., speed)| pick(speed)).collect()
        };
        let (tflops, copy_gbps) = (
            speed::median(&of(|speed| speed.0)),
            speed::median(&of(|speed| speed.1)),
        );
        let before = std::mem::take(&mut self.times);
        let mut slow = Vec::new();
        for (rank, host, speed) in ranks {
            if speed.0 < below * tflops || speed.1 < below * copy_gbps {
                let times = before.get(&rank).map_or(1, |times| times + 1);
                self.times.insert(rank, times);
                slow.push(SlowRank {
                    rank,
                    host: host.clone(),
                    tflops: speed.0,
                    copy_gbps: speed.1,
                    times,
                });
            }
        }
        SpeedRecord {
            step,
            tflops,
            copy_gbps,
            slow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(speeds: &[(f64, f64)]) -> Vec<Option<Told>> {
        let one = |(rank, speed): (usize, &(f64, f64))| {
            Some(Told {
                host: format!("node{}", rank / 2),
                speed: Some(*speed).filter(|speed| speed.0 > 0.0),
            })
        };
        speeds.iter().enumerate().map(one).collect()
    }

    fn slow(record: &SpeedRecord) -> Vec<(usize, &str, u32)> {
        let slow = record.slow.iter();
        slow.map(|slow| (slow.rank, slow.host.as_str(), slow.times))
            .collect()
    }

    #[test]
    fn a_rank_is_slow_by_either_quantity_and_counts_start_again() {
        let mut stragglers = Stragglers::default();
        let mut judge = |speeds: &[(f64, f64)]| stragglers.judge(10, 0.8, &told(speeds));
        let equal = [(1.0, 10.0), (0.9, 9.0), (1.1, 11.0), (1.0, 10.0)];
        assert_eq!(slow(&judge(&equal)), []);
        let one = judge(&[(1.0, 10.0), (1.0, 7.9), (1.0, 10.0), (0.7, 10.0)]);
        assert_eq!(slow(&one), [(1, "node0", 1), (3, "node1", 1)]);
        assert_eq!((one.tflops, one.copy_gbps), (1.0, 10.0));
        let two = judge(&[(1.0, 10.0), (1.0, 10.0), (1.0, 10.0), (0.7, 10.0)]);
        assert_eq!(slow(&two), [(3, "node1", 2)]);
        assert_eq!(slow(&judge(&equal)), []);
        let again = judge(&[(1.0, 10.0), (1.0, 10.0), (1.0, 10.0), (0.7, 10.0)]);
        assert_eq!(slow(&again), [(3, "node1", 1)]);
    }

    #[test]
    fn a_rank_that_was_not_measured_is_not_judged() {
        let mut stragglers = Stragglers::default();
        let mut ranks = told(&[(1.0, 10.0), (0.0, 0.0), (0.1, 10.0), (1.0, 10.0)]);
        ranks.push(None);
        let record = stragglers.judge(1, 0.8, &ranks);
        assert_eq!(slow(&record), [(2, "node1", 1)]);
        let nobody = stragglers.judge(2, 0.8, &[None]);
        assert!(nobody.slow.is_empty() && nobody.tflops.is_nan());
    }
}
