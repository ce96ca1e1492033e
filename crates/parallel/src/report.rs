//! What the library decided by itself, for `--explain`.

use crate::Operation;
use grid::Axis;
use std::{collections::BTreeMap, fmt};

/// A change of layout that the library inserted between two layers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Redistribution {
    /// The layer that asked for it.
    pub place: String,
    /// The axis that cut the features before; `None` when they were whole.
    pub from: Option<Axis>,
    /// The axis that cuts them after.
    pub to: Option<Axis>,
    /// Bytes of the whole features, held by one rank after its gather; 0 when a cut alone sufficed.
    pub gathered_bytes: usize,
}

/// All such decisions, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    redistributions: BTreeMap<Redistribution, usize>,
    levels: BTreeMap<(Axis, Operation), usize>,
}

impl Report {
    /// What has been noted since `before`.
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

    /// Notes a change of layout.
    pub fn note(&mut self, redistribution: Redistribution) {
        *self.redistributions.entry(redistribution).or_default() += 1;
    }

    /// Notes a collective that went inside each node, across by aligned ranks, and back.
    pub fn note_levels(&mut self, axis: Axis, operation: Operation) {
        *self.levels.entry((axis, operation)).or_default() += 1;
    }

    /// How many collectives of a kind went over nodes in two levels.
    pub fn in_levels(&self, axis: Axis, operation: Operation) -> usize {
        self.levels.get(&(axis, operation)).copied().unwrap_or(0)
    }

    /// The changes of layout, each with how often it ran.
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
