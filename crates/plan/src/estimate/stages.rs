//! How evenly a model divides into the stages of a pipeline.

use parallel::{model::Cut, pipeline::schedule::Stages, work::Work};

/// The cost of the largest part relative to the mean. All stages wait for the largest in turn.
pub(super) fn imbalance(work: &Work, stages: Stages) -> f64 {
    if stages.number == 1 {
        return 1.0;
    }
    let costs: Vec<f64> = work.segments.iter().map(|segment| segment.cost).collect();
    // With more parts than segments, no such candidate is simulated.
    let Ok(parts) = Cut::parts(&costs, stages) else {
        return f64::INFINITY;
    };
    let of = |part: &std::ops::Range<usize>| costs[part.clone()].iter().sum::<f64>();
    let largest = parts.iter().map(of).fold(0.0, f64::max);
    (largest * parts.len() as f64 / costs.iter().sum::<f64>()).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use train::Config;

    #[test]
    fn parts_of_whole_blocks_are_even_but_for_the_head() {
        let model = families::gpt::published(96, 16_384, 128);
        let work = Config::new(model.into()).work().unwrap();
        assert_eq!(imbalance(&work, Stages::plain(1)), 1.0);
        let costs: Vec<f64> = work.segments.iter().map(|segment| segment.cost).collect();
        let block = costs[1] + costs[2];
        let mean = costs.iter().sum::<f64>() / 32.0;
        let three = (3.0 * block + costs[193]) / mean;
        let found = imbalance(&work, Stages::plain(32));
        assert!((found - three).abs() < 1e-9, "{found}, needs {three}");
        let of_chunks = Stages {
            chunks: 4,
            ..Stages::plain(32)
        };
        assert!(
            imbalance(&work, of_chunks) > 1.25,
            "128 parts of 192 halves: some have two, some one"
        );
    }
}
