//! A custom optimiser: the sign of a running mean, with the kernel that applies it.

use fascicle::{
    tensor::ops::{CustomKernel, custom},
    train::optimiser::{Optimiser, UpdateCall},
};
use std::sync::{Arc, LazyLock};

/// Lion (arXiv:2302.06675) without weight decay, smooth around zero.
#[derive(Debug)]
pub struct SmoothLion {
    /// Learning rate.
    pub rate: f64,
}

static UPDATE: LazyLock<Arc<CustomKernel>> = LazyLock::new(|| {
    let kernel = CustomKernel::new("smooth_lion").on_host(|args| {
        let (gradients, factor) = (args.read::<f64>(0)?, args.read::<f64>(1)?[0]);
        // An update that must be skipped has no factor.
        if factor.is_nan() {
            return Ok(());
        }
        let rate = args.f64(0)?;
        let (weights, means) = (args.write::<f64>(2)?, args.write::<f64>(3)?);
        for ((weight, mean), gradient) in weights.iter_mut().zip(means).zip(gradients) {
            let gradient = gradient * factor;
            let direction = 0.9 * *mean + 0.1 * gradient;
            // Smooth around zero, where the signs of rounding errors would differ between grids.
            *weight -= rate * (direction * 1e3).tanh();
            *mean = 0.99 * *mean + 0.01 * gradient;
        }
        Ok(())
    });
    Arc::new(kernel)
});

impl Optimiser for SmoothLion {
    fn name(&self) -> &'static str {
        "smooth-lion"
    }

    fn num_states(&self) -> usize {
        1
    }

    fn rate(&self, _step: u64) -> f64 {
        self.rate
    }

    fn update(&self, call: &UpdateCall<'_>) -> fascicle::parallel::Result<()> {
        for piece in call.pieces {
            custom(&UPDATE)
                .read(&piece.gradients)
                .read(call.factor)
                .update(&piece.weights)
                .update(&piece.state[0])
                .number(call.rate)
                .launch()?;
        }
        Ok(())
    }
}
