//! A custom model: a residual network whose first features skip to its head, with its own loss.

use crate::layer::softsign;
use fascicle::{
    nn::{Linear, Norm},
    prelude::*,
};

/// Features of a row.
pub const FEATURES: usize = 12;
const WIDTH: usize = 16;

/// Segments: an input layer, blocks, and a head that reads the input layer's features as well.
pub struct Residual {
    input: Linear,
    blocks: Vec<(Norm, Linear, Linear)>,
    head: Linear,
}

impl Residual {
    /// Declares its layers.
    pub fn new(builder: &Builder, blocks: usize) -> Result<Residual> {
        let block = |index: usize| {
            let builder = builder.segment(1 + index).scope(&format!("blocks.{index}"));
            Ok((
                builder.layer_norm("norm", WIDTH, 1e-5)?,
                builder.linear("up", WIDTH, 2 * WIDTH)?,
                builder.linear_transposed("down", 2 * WIDTH, WIDTH)?,
            ))
        };
        Ok(Residual {
            input: builder.segment(0).linear("input", FEATURES, WIDTH)?,
            blocks: (0..blocks).map(block).collect::<Result<_>>()?,
            head: builder.segment(1 + blocks).linear("head", WIDTH, 1)?,
        })
    }
}

impl Model for Residual {
    fn num_segments(&self) -> usize {
        self.blocks.len() + 2
    }

    fn routes(&self) -> Vec<Route> {
        let last = self.num_segments() - 1;
        let chain = (0..=last).map(|segment| Route::new("x", segment, segment + 1));
        // With a single block, the head follows directly, and the skip is a wire like any other.
        chain.chain([Route::new("skip", 0, last)]).collect()
    }

    fn forward(&self, segment: usize, input: &Input<'_>, mut wires: Wires) -> Result<Wires> {
        if segment == 0 {
            let x = self.input.forward(&input.activation("features")?)?;
            return Ok(Wires::of("x", x.clone()).with("skip", x));
        }
        let x = wires.take("x")?;
        let x = match self.blocks.get(segment - 1) {
            Some((norm, up, down)) => {
                x.add(&down.forward(&softsign(&up.forward(&norm.forward(&x)?)?)?)?)?
            }
            None => self.head.forward(&x.add(&wires.take("skip")?)?)?,
        };
        Ok(Wires::of("x", x))
    }

    /// The mean of the fourth powers of the errors.
    fn objective(&self, input: &Input<'_>, mut wires: Wires) -> Result<Loss> {
        let error = wires.take("x")?.sub(&input.activation("wanted")?)?;
        let square = error.mul(&error)?;
        Loss::mean(&square.mul(&square)?)
    }
}
