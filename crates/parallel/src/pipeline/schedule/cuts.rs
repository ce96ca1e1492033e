//! The best cuts of every tail of a model, by dynamic programming from the last part to the first.

use super::{Profile, Stages};
use std::ops::Range;

/// Sums of squares this close count as equal, so that rounding does not decide between equal partitions.
const EQUAL: f64 = 1e-12;

/// What a search reads of a [`Profile`], arranged by item.
pub(super) struct Cuts<'a> {
    profile: &'a Profile,
    stages: Stages,
    in_flight: &'a [usize],
    /// By item, the wires that it reads: the last item before it that makes or reads the wire, and the wire's time. A part
    /// receives the wire with this item if that one lies before the part.
    arrivals: Vec<Vec<(usize, f64)>>,
    /// By item, the wires that it is the last to read: the item that makes the wire, and the wire's time.
    last_reads: Vec<Vec<(usize, f64)>>,
    /// By item, the time of the wires that it makes for others.
    makes: Vec<f64>,
}

/// The best value of every tail of the items, cut into some number of parts, and the end of the first range that gives it.
type Row = Vec<(f64, usize)>;

impl<'a> Cuts<'a> {
    pub(super) fn new(profile: &'a Profile, stages: Stages, in_flight: &'a [usize]) -> Cuts<'a> {
        let last = profile.times.len() - 1;
        let mut arrivals = vec![Vec::new(); profile.times.len()];
        let mut last_reads = arrivals.clone();
        let mut makes = vec![0.0; profile.times.len()];
        for wire in &profile.wires {
            // What lies behind the last item runs with it.
            let mut readers: Vec<usize> = wire.to.iter().map(|to| last.min(*to)).collect();
            readers.sort_unstable();
            readers.dedup();
            let mut before = wire.from;
            for reader in readers {
                arrivals[reader].push((before, wire.time));
                before = reader;
            }
            if before > wire.from {
                last_reads[before].push((wire.from, wire.time));
                makes[wire.from] += wire.time;
            }
        }
        Cuts {
            profile,
            stages,
            in_flight,
            arrivals,
            last_reads,
            makes,
        }
    }

    /// The partition with the smallest largest time, then the most even one, then the one with the shortest first ranges;
    /// `None` if none fits the memory.
    pub(super) fn best(&self) -> Option<Vec<Range<usize>>> {
        let slowest = self.table(0.0, |_, time, rest: f64| time.max(rest));
        let (largest, _) = slowest.last()?[0];
        if !largest.is_finite() {
            return None;
        }
        // Messages do not count here, or the first part, which receives none, would be filled up to the others.
        let even = |own: f64, time: f64, rest: f64| match time <= largest * (1.0 + EQUAL) {
            true => own * own + rest,
            false => f64::INFINITY,
        };
        let table = self.table(EQUAL, even);
        let mut start = 0;
        let cut = |row: &Row| {
            let range = start..row[start].1;
            start = range.end;
            range
        };
        Some(table.iter().skip(1).rev().map(cut).collect())
    }

    /// Minimises a value built from the back: `join(time of the first range's items, the same with messages, value of the
    /// rest)`. A longer first range is chosen only if it is better by more than `tolerance` of the value.
    fn table(&self, tolerance: f64, join: impl Fn(f64, f64, f64) -> f64) -> Vec<Row> {
        let num_items = self.profile.times.len();
        let mut nothing = vec![(f64::INFINITY, num_items); num_items + 1];
        nothing[num_items].0 = 0.0;
        let mut table = vec![nothing];
        for part in (0..self.stages.num_parts()).rev() {
            let rest = &table[table.len() - 1];
            let row = (0..=num_items)
                .map(|start| self.first_range((part, start), rest, tolerance, &join))
                .collect();
            table.push(row);
        }
        table
    }

    /// The best first range from `start`: the shortest among those that are equally good.
    fn first_range(
        &self,
        (part, start): (usize, usize),
        rest: &Row,
        tolerance: f64,
        join: &impl Fn(f64, f64, f64) -> f64,
    ) -> (f64, usize) {
        let mut best = (f64::INFINITY, self.profile.times.len());
        let (mut own, mut arrives, mut leaves, mut bytes) = (0.0, 0.0, 0.0, 0.0);
        for (end, (rest, _)) in rest.iter().enumerate().skip(start + 1) {
            own += self.profile.times[end - 1];
            arrives += self.arrival(part, start, end - 1);
            leaves += self.makes[end - 1] - self.last_read(start, end - 1);
            bytes += self.bytes(part, end - 1);
            // A longer range only costs more, but for the wires that leave it.
            if join(own, own + arrives, 0.0) >= best.0 || self.exceeds(bytes) {
                break;
            }
            let returns = if self.turns(part + 1) { 0.0 } else { leaves };
            let value = join(own, own + arrives + returns, *rest);
            if value < best.0 * (1.0 - tolerance) {
                best = (value, end);
            }
        }
        best
    }

    // Time of the wires that a part beginning at `start` receives with `item`.
    fn arrival(&self, part: usize, start: usize, item: usize) -> f64 {
        if self.turns(part) {
            return 0.0;
        }
        let from_outside = |(before, _): &&(usize, f64)| *before < start;
        let arrivals = self.arrivals[item].iter().filter(from_outside);
        arrivals.map(|(_, time)| time).sum()
    }

    // Time of the wires of a part beginning at `start` that `item`, of that part too, is the last to read.
    fn last_read(&self, start: usize, item: usize) -> f64 {
        let from_here = |(from, _): &&(usize, f64)| *from >= start;
        let read = self.last_reads[item].iter().filter(from_here);
        read.map(|(_, time)| time).sum()
    }

    // Whether no message passes between a part and the one before it.
    fn turns(&self, part: usize) -> bool {
        let stage = |part: usize| self.stages.location(part).stage;
        part == 0 || part == self.stages.num_parts() || stage(part) == stage(part - 1)
    }

    fn bytes(&self, part: usize, item: usize) -> f64 {
        self.profile.memory.as_ref().map_or(0.0, |memory| {
            memory.held[item] + self.in_flight[part] as f64 * memory.kept[item]
        })
    }

    fn exceeds(&self, bytes: f64) -> bool {
        let memory = self.profile.memory.as_ref();
        memory.is_some_and(|memory| bytes > memory.limit / self.stages.chunks as f64)
    }
}
