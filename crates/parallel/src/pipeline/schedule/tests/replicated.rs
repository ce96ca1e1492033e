//! What stages with numbers of replicas of their own (PipeDream) would be worth beside the best grid, whose stages all have the same.

use std::ops::Range;

/// Items of a GPT, each with the time that one rank takes for the whole batch, and with its weights. A block has 1 of either.
struct Gpt {
    times: Vec<f64>,
    weights: Vec<f64>,
    // The time in which two ranks add up the gradients of a block.
    exchange: f64,
}

impl Gpt {
    /// An embedding, blocks of two halves each, and a head that takes as long as `head` blocks; the embedding has a copy of its table.
    fn new(blocks: usize, head: f64, exchange: f64) -> Gpt {
        let halves = || [1.0 / 3.0, 2.0 / 3.0].repeat(blocks);
        let with = |first: f64| [vec![first], halves(), vec![head]].concat();
        Gpt {
            times: with(0.0),
            weights: with(head),
            exchange,
        }
    }

    // Replicas share the batch, and add up gradients beside the next backward.
    fn stage(&self, items: Range<usize>, replicas: usize) -> f64 {
        let sum = |of: &[f64]| of[items.clone()].iter().sum::<f64>();
        let replicas = replicas as f64;
        let exchanged = 2.0 * (replicas - 1.0) / replicas * sum(&self.weights) * self.exchange;
        (sum(&self.times) / replicas).max(exchanged)
    }

    /// The slowest stage of the best pipeline over `ranks`, each stage of which has one of these numbers of replicas.
    fn best(&self, ranks: usize, replicas: Range<usize>) -> f64 {
        let items = self.times.len();
        // By the items before a cut and the ranks that have them.
        let mut best = vec![vec![f64::INFINITY; ranks + 1]; items + 1];
        best[0][0] = 0.0;
        for end in 1..=items {
            for used in 1..=ranks {
                for own in replicas.clone().take_while(|own| *own <= used) {
                    for start in 0..end {
                        let before = best[start][used - own];
                        if before < best[end][used] {
                            let slowest = self.stage(start..end, own).max(before);
                            best[end][used] = best[end][used].min(slowest);
                        }
                    }
                }
            }
        }
        best[items][ranks]
    }

    /// How many times as fast as the best grid.
    fn gain(&self, ranks: usize) -> f64 {
        let grids = (1..=ranks).filter(|replicas| ranks.is_multiple_of(*replicas));
        let on_a_grid = grids.map(|replicas| self.best(ranks, replicas..replicas + 1));
        on_a_grid.fold(f64::INFINITY, f64::min) / self.best(ranks, 1..ranks + 1)
    }
}

/// The largest gain over models and numbers of ranks.
fn largest(exchange: f64) -> f64 {
    let mut gains = Vec::new();
    for blocks in [8, 12, 24, 32] {
        for head in [0.5, 2.0, 4.0] {
            let model = Gpt::new(blocks, head, exchange);
            gains.extend([4, 8, 16].map(|ranks| model.gain(ranks)));
        }
    }
    gains.into_iter().fold(1.0, f64::max)
}

#[test]
fn replicas_of_their_own_help_only_where_gradients_take_long() {
    let close = |found: f64, stated: f64| (found - stated).abs() < 0.005;
    // The numbers that ARCHITECTURE.md states.
    assert!(close(largest(1.0 / 64.0), 1.0), "{}", largest(1.0 / 64.0));
    assert!(close(largest(1.0 / 16.0), 1.28), "{}", largest(1.0 / 16.0));
    assert!(close(largest(1.0 / 4.0), 1.5), "{}", largest(1.0 / 4.0));
}

#[test]
fn a_search_finds_what_can_be_seen() {
    // Two ranks: one stage each with a heavy half, or both in one.
    let model = Gpt {
        times: vec![2.0, 1.0],
        weights: vec![1.0, 1.0],
        exchange: 0.1,
    };
    assert!((model.best(2, 1..2) - 2.0).abs() < 1e-12);
    assert!((model.best(2, 2..3) - 1.5).abs() < 1e-12);
    // Three: two replicas of the first and one of the second are even.
    assert!((model.best(3, 1..4) - 1.0).abs() < 1e-12);
}
