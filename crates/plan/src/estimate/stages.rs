//! How evenly a model divides into the stages of a pipeline, and what crosses between them.

use hal::lock;
use parallel::{
    model::Cut,
    pipeline::schedule::Stages,
    work::{WireWork, Work},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// A model cut by cost alone: its messages and the limit of memory are left to the simulation.
#[derive(Debug)]
pub(super) struct CostCut<'a> {
    /// The cost of the largest part relative to the mean. All stages wait for the largest in turn.
    pub(super) imbalance: f64,
    /// The wires between stages, each once for every message.
    pub(super) crossing: Vec<&'a WireWork>,
}

/// The cuts of a model, each made when it is first asked for: thousands of grids and numbers of rows share few of them.
#[derive(Debug)]
pub(crate) struct CostCuts<'a> {
    work: &'a Work,
    known: Mutex<HashMap<Stages, Option<Arc<CostCut<'a>>>>>,
}

impl<'a> CostCuts<'a> {
    pub(crate) fn new(work: &'a Work) -> CostCuts<'a> {
        CostCuts {
            work,
            known: Mutex::default(),
        }
    }

    /// The cut into these stages, or `None` with more parts than segments: no such candidate is simulated.
    pub(super) fn of(&self, stages: Stages) -> Option<Arc<CostCut<'a>>> {
        if let Some(known) = lock(&self.known).get(&stages) {
            return known.clone();
        }
        let cut = cut(self.work, stages).map(Arc::new);
        lock(&self.known).insert(stages, cut.clone());
        cut
    }
}

fn cut(work: &Work, stages: Stages) -> Option<CostCut<'_>> {
    let costs: Vec<f64> = work.segments.iter().map(|segment| segment.cost).collect();
    let parts = Cut::parts(&costs, stages).ok()?;
    let of = |part: &std::ops::Range<usize>| costs[part.clone()].iter().sum::<f64>();
    let largest = parts.iter().map(of).fold(0.0, f64::max);
    let imbalance = match stages.number {
        1 => 1.0,
        _ => (largest * parts.len() as f64 / costs.iter().sum::<f64>()).max(1.0),
    };
    Some(CostCut {
        imbalance,
        crossing: work.crossing(&parts, stages),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use train::Config;

    #[test]
    fn parts_of_whole_blocks_are_even_but_for_the_head() {
        let model = families::gpt::published(96, 16_384, 128);
        let work = Config::new(model.into()).work().unwrap();
        let imbalance = |stages| cut(&work, stages).unwrap().imbalance;
        assert_eq!(imbalance(Stages::plain(1)), 1.0);
        let costs: Vec<f64> = work.segments.iter().map(|segment| segment.cost).collect();
        let block = costs[1] + costs[2];
        let mean = costs.iter().sum::<f64>() / 32.0;
        let three = (3.0 * block + costs[193]) / mean;
        let found = imbalance(Stages::plain(32));
        assert!((found - three).abs() < 1e-9, "{found}, needs {three}");
        let of_chunks = Stages {
            chunks: 4,
            ..Stages::plain(32)
        };
        assert!(
            imbalance(of_chunks) > 1.25,
            "128 parts of 192 halves: some have two, some one"
        );
    }
}
