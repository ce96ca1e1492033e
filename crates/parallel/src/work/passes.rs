//! Which of the passes over a layer's weights a segment runs.

use super::{LinearWork, SegmentWork, WeightUse};

impl SegmentWork {
    /// A linear layer has three products: forward, the gradient of its inputs, and that of its weights. The share of them that this
    /// segment computes; its other work counts likewise.
    pub(super) fn share_of_passes(&self) -> f64 {
        let sums = self.linear.iter().map(LinearWork::products);
        let [run, all] = sums.fold([0.0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        match (all > 0.0, self.has_backward) {
            (true, _) => run / all,
            (false, true) => 1.0,
            (false, false) => 1.0 / 3.0,
        }
    }
}

impl LinearWork {
    // The products that run and all three, in multiplications.
    fn products(&self) -> [f64; 2] {
        let each = self.outputs.iter().zip(&self.weights);
        each.fold([0.0; 2], |[run, all], (outputs, weight)| {
            let size = (self.vectors * self.inputs * outputs) as f64;
            let of_inputs = usize::from(self.wants_input);
            let of_weights = usize::from(*weight == WeightUse::Trained);
            [
                run + (1 + of_inputs + of_weights) as f64 * size,
                all + 3.0 * size,
            ]
        })
    }
}
