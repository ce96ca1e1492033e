//! The models of candle's own examples, with initial values and rows that every rank can compute: [`feedforward`] and [`transformers`].

mod feedforward;
mod transformers;

pub use feedforward::{ConvNet, Deep, Mlp, Regression};
pub use transformers::{Llama, Transformer};

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use fascicle_candle::NamedVars;

/// Number of rows in a batch of all ranks.
pub const ROWS: usize = 8;

/// A model whose loss is the mean over rows.
pub trait Model: Sized {
    fn new(builder: VarBuilder) -> Result<Self>;
    fn loss(&self, rows: std::ops::Range<usize>) -> Result<Tensor>;
}

/// Pixels of images and their labels.
pub fn images(rows: std::ops::Range<usize>, dtype: DType) -> Result<(Tensor, Tensor)> {
    let pixel = |row: usize| move |index| value(row * 784 + index);
    let pixels: Vec<f64> = rows
        .clone()
        .flat_map(|row| (0..784).map(pixel(row)))
        .collect();
    let labels: Vec<u32> = rows.clone().map(|row| (3 * row % 10) as u32).collect();
    let images = Tensor::from_vec(pixels, (rows.len(), 784), &Device::Cpu)?;
    Ok((images.to_dtype(dtype)?, Tensor::new(labels, &Device::Cpu)?))
}

/// A number between -0.5 and 0.5 (the finaliser of SplitMix64, Steele et al. 2014).
fn value(index: usize) -> f64 {
    let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64 - 0.5
}

/// Overwrites variables with numbers that depend on their place alone.
pub fn fill(vars: &NamedVars) -> Result<()> {
    for (place, (_, var)) in vars.iter().enumerate() {
        // Uniform with the spread of the inputs; scales of norms are around 1.
        let width = var.dims()[var.rank().min(2) - 1..]
            .iter()
            .product::<usize>() as f64;
        let middle = if var.rank() == 1 { 1.0 } else { 0.0 };
        let values: Vec<f64> = (0..var.elem_count())
            .map(|index| middle + 3.0 * value(index + 100_000 * place) / width.sqrt())
            .collect();
        var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu)?.to_dtype(var.dtype())?)?;
    }
    Ok(())
}
