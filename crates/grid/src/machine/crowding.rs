//! Ranks that share the cores of a host: how much slower each computes, and the extra cost of their
//! collectives.
//!
//! Ranks that compute on the same cores take turns, with each other and with their own communication streams. A
//! collective waits for the rank whose turn comes last, and the ranks that continue find their caches filled by
//! others. Collectives timed back to back show none of this, so `fascicle bench --save` records their extra
//! cost in training steps.

use super::file::Machine;
use serde::{Deserialize, Serialize};

/// The extra cost of a collective on a host where `ranks` ranks compute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lateness {
    /// Ranks that share the host's cores.
    pub ranks: usize,
    /// (microseconds of compute before a collective, extra microseconds of the collective), by rising compute.
    pub points: Vec<[f64; 2]>,
}

impl Lateness {
    // Interpolates linearly between the points, starting from zero at no compute; constant beyond the last
    // point.
    fn us(&self, compute_us: f64) -> f64 {
        let mut before = [0.0, 0.0];
        for point in &self.points {
            if compute_us < point[0] {
                let share = (compute_us - before[0]) / (point[0] - before[0]);
                return before[1] + share * (point[1] - before[1]);
            }
            before = *point;
        }
        before[1]
    }
}

impl Machine {
    /// How many times slower a rank computes because `ranks` ranks share a node's cores; 1 on accelerators.
    pub fn crowding(&self, ranks: f64) -> f64 {
        let shared = self.device.shared_cores.as_ref();
        shared.map_or(1.0, |cores| (ranks / cores.value).max(1.0))
    }

    /// Extra seconds of a collective where `ranks` ranks share a node's cores and have computed for `compute_s`
    /// since the last one. Interpolates linearly between the measured numbers of ranks, starting from zero for
    /// one rank.
    pub fn lateness(&self, ranks: f64, compute_s: f64) -> f64 {
        let (mut before, mut before_us) = (1.0, 0.0);
        for late in &self.links.late {
            let (next, next_us) = (late.ranks as f64, late.us(compute_s * 1e6));
            if ranks < next {
                let share = ((ranks - before) / (next - before)).max(0.0);
                return (before_us + share * (next_us - before_us)) * 1e-6;
            }
            (before, before_us) = (next, next_us);
        }
        before_us * 1e-6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let mut machine = Machine::find("laptop").unwrap();
        let late = |ranks, us| Lateness {
            ranks,
            points: vec![[100.0, us], [300.0, 3.0 * us]],
        };
        machine.links.late = vec![late(2, 0.0), late(4, 10.0), late(8, 50.0)];
        machine
    }

    #[test]
    fn accelerators_are_never_late() {
        let machine = Machine::find("perlmutter").unwrap();
        assert_eq!(
            (machine.crowding(4.0), machine.lateness(4.0, 1e-3)),
            (1.0, 0.0)
        );
    }

    #[test]
    fn lateness_lies_on_lines_between_what_was_measured() {
        let us = |ranks, compute_us: f64| machine().lateness(ranks, compute_us * 1e-6) * 1e6;
        let near = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 1e-9, "{found}, not {expected}")
        };
        near(us(1.0, 100.0), 0.0);
        near(us(4.0, 100.0), 10.0);
        near(us(4.0, 50.0), 5.0);
        near(us(4.0, 200.0), 20.0);
        near(us(4.0, 5000.0), 30.0);
        near(us(3.0, 100.0), 5.0);
        near(us(6.0, 100.0), 30.0);
        near(us(16.0, 100.0), 50.0);
        assert_eq!(
            (machine().crowding(1.5), machine().crowding(6.0)),
            (1.0, 3.0)
        );
    }
}
