//! What a segment keeps from its forward to its backward.

use super::{LinearWork, Place, SegmentWork};
use grid::{Axis, Degrees};

impl SegmentWork {
    /// Elements per row that it keeps for its backward: the inputs of its trained linear layers, the part of their
    /// outputs that attention and activation functions read, and the results of other elementwise operations.
    ///
    /// A recomputation keeps the spread vectors that linear layers have gathered. Before the first trained parameter nothing is kept.
    pub fn kept_elements(
        &self,
        degrees: &Degrees,
        sequence_parallel: bool,
        recomputed: bool,
    ) -> f64 {
        let ranks = |place: Place| place.ranks(degrees, sequence_parallel) as f64;
        let of_input = |work: &LinearWork, spread: bool| {
            work.input_elements(degrees, sequence_parallel, spread)
        };
        if !self.has_backward {
            return 0.0;
        }
        let kept = |work: &LinearWork| of_input(work, work.spread && !recomputed);
        let trained = self.linear.iter().filter(|work| work.trains());
        let inputs: f64 = trained.map(kept).sum();
        let wide = self.linear.iter().filter(|work| work.emits == Axis::X);
        // An adapter's result is added to a layer's in place; if lengths multiply the sum, it is kept besides.
        let is_kept = |work: &LinearWork| !work.onto || !self.column_norms.is_empty();
        let wide = wide.filter(|work| work.has_backward() && is_kept(work));
        let outputs = wide.map(|work| {
            let place = Place {
                cut: Some(Axis::X),
                runs: false,
                tokens: work.tokens,
            };
            (work.vectors * work.outputs.iter().sum::<usize>()) as f64 / ranks(place)
        });
        // The results of norms that linear layers read are elements too, and count once.
        let normed = self.linear.iter().filter(|work| work.reads == Axis::Y);
        let normed = normed.filter(|work| work.trains() && !work.onto);
        let normed = normed.map(|work| of_input(work, work.spread));
        let narrow = Place::all().filter(|place| place.cut == Some(Axis::Y));
        let narrow = narrow.map(|place| self.elements[place.index()] as f64 / ranks(place));
        let others = (narrow.sum::<f64>() - normed.sum::<f64>()).max(0.0);
        inputs + outputs.sum::<f64>() + others
    }
}

impl LinearWork {
    /// Elements per row of its input on a rank: of what the rank holds, or, if not `spread`, of what it has gathered over X.
    pub fn input_elements(&self, degrees: &Degrees, sequence_parallel: bool, spread: bool) -> f64 {
        let place = Place {
            cut: Some(self.reads),
            runs: spread,
            tokens: self.tokens,
        };
        (self.vectors * self.inputs) as f64 / place.ranks(degrees, sequence_parallel) as f64
    }
}
