//! How evenly a model falls into the stages of a pipeline.

use parallel::{model::Cut, work::Work};

/// How many times the mean part the largest is: all stages wait for the largest in turn.
pub(super) fn imbalance(work: &Work, stages: usize, chunks: usize) -> f64 {
    if stages == 1 {
        return 1.0;
    }
    let costs: Vec<f64> = work.segments.iter().map(|segment| segment.cost).collect();
    // More parts than segments: no such candidate is simulated.
    let Ok(parts) = Cut::parts(&costs, stages, chunks) else {
        return f64::INFINITY;
    };
    let of = |part: &std::ops::Range<usize>| costs[part.clone()].iter().sum::<f64>();
    let largest = parts.iter().map(of).fold(0.0, f64::max);
    (largest * parts.len() as f64 / costs.iter().sum::<f64>()).max(1.0)
}
