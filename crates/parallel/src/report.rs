//! The library's own decisions, for `--explain`.

use crate::Operation;
use grid::Axis;
use std::{collections::BTreeMap, fmt};

/// A change of layout that the library inserted between two layers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Redistribution {
    /// The layer that requested it.
    pub place: String,
    /// The axis that cut the features before; `None` if they were not cut.
    pub from: Option<Axis>,
    /// The axis that cuts them after.
    pub to: Option<Axis>,
    /// Bytes of the full features, held by one rank after its gather; 0 if a local cut sufficed.
    pub gathered_bytes: usize,
}

/// All such decisions, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    redistributions: BTreeMap<Redistribution, usize>,
    levels: BTreeMap<(Axis, Operation), usize>,
}

impl Report {
    /// The decisions recorded since `before`.
    pub fn since(&self, before: &Report) -> Report {
        fn newer<K: Ord + Clone>(
            now: &BTreeMap<K, usize>,
            before: &BTreeMap<K, usize>,
        ) -> BTreeMap<K, usize> {
            let left = |(key, times): (&K, &usize)| {
                let new = times - before.get(key).unwrap_or(&0);
                (new > 0).then(|| (key.clone(), new))
            };
            now.iter().filter_map(left).collect()
        }
        Report {
            redistributions: newer(&self.redistributions, &before.redistributions),
            levels: newer(&self.levels, &before.levels),
        }
    }

    /// Records a change of layout.
    pub fn note(&mut self, redistribution: Redistribution) {
        *self.redistributions.entry(redistribution).or_default() += 1;
    }

    /// Records a collective that ran inside each node, across nodes by aligned ranks, and back.
    pub fn note_levels(&mut self, axis: Axis, operation: Operation) {
        *self.levels.entry((axis, operation)).or_default() += 1;
    }

    /// Number of collectives of a kind that crossed nodes in two levels.
    pub fn in_levels(&self, axis: Axis, operation: Operation) -> usize {
        self.levels.get(&(axis, operation)).copied().unwrap_or(0)
    }

    /// The changes of layout, each with the number of times it ran.
    pub fn redistributions(&self) -> impl Iterator<Item = (&Redistribution, usize)> {
        self.redistributions
            .iter()
            .map(|(redistribution, &times)| (redistribution, times))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.redistributions.is_empty() {
            return writeln!(
                f,
                "no change of layout: every layer reads what the one before emits"
            );
        }
        let cut = |axis: Option<Axis>| axis.map_or("whole".into(), |axis| format!("cut by {axis}"));
        for (change, times) in self.redistributions() {
            let cost = match change.gathered_bytes {
                0 => "a local cut".into(),
                bytes => format!("an all-gather of {}", hal::error::Bytes(bytes)),
            };
            writeln!(
                f,
                "{}: features {} -> {}, {cost}, {times} times",
                change.place,
                cut(change.from),
                cut(change.to)
            )?;
        }
        Ok(())
    }
}
