//! The norm of gradients, and AdamW, over the weights of one block in one launch.

use super::{
    Sizes,
    case::{Case, Maker, Operands},
};
use tensor::{
    DType, Tensor,
    ops::optimiser::{self, AdamW, Update},
};

/// Tensors that AdamW updates: weights, first and second moments.
const UPDATED: usize = 3;

/// All of them.
pub(super) fn cases(sizes: Sizes) -> Vec<Case> {
    vec![sum_squares(sizes), exact_squares(sizes), adamw(sizes)]
}

// Matrices of attention and MLP; vectors are too short to matter.
fn weights(sizes: Sizes) -> [[usize; 2]; 6] {
    let (h, mlp) = (sizes.hidden, sizes.mlp()[1]);
    [[h, h], [h, h], [h, h], [h, h], [h, mlp], [mlp, h]]
}

fn all(
    sizes: Sizes,
    make: impl Fn(&[usize]) -> train::Result<Tensor>,
) -> train::Result<Vec<Tensor>> {
    weights(sizes).iter().map(|shape| make(shape)).collect()
}

// Reads the gradients, and adds to one sum.
fn sum_squares(sizes: Sizes) -> Case {
    Case::new(
        "sum_squares",
        "reduction",
        move |maker| {
            let gradients = all(sizes, |shape| {
                maker.random_as(maker.dtype.accumulator(), shape)
            })?;
            let sum = Tensor::zeros(maker.device, DType::F64, &[1])?;
            Ok(Operands {
                updated: vec![sum],
                ..Operands::read(gradients)
            })
        },
        |operands| {
            let gradients: Vec<&Tensor> = operands.read.iter().collect();
            optimiser::sum_squares(&gradients, &operands.updated[0])?;
            Ok(Vec::new())
        },
    )
}

// Reads the gradients and the largest of them, and adds to three sums.
fn exact_squares(sizes: Sizes) -> Case {
    Case::new(
        "exact_squares",
        "reduction",
        move |maker| {
            let mut read = vec![Tensor::full(maker.device, DType::F64, &[1], 1.0)?];
            read.extend(all(sizes, |shape| {
                maker.random_as(maker.dtype.accumulator(), shape)
            })?);
            let sums = Tensor::zeros(maker.device, DType::F64, &[3])?;
            Ok(Operands {
                updated: vec![sums],
                ..Operands::read(read)
            })
        },
        |operands| {
            let gradients: Vec<&Tensor> = operands.read[1..].iter().collect();
            optimiser::exact_squares(&gradients, &operands.read[0], &operands.updated[0])?;
            Ok(Vec::new())
        },
    )
}

// Reads gradients and the factor; reads and writes weights and both moments. Also writes a copy in the
// compute type where that type is different.
fn adamw(sizes: Sizes) -> Case {
    Case::new(
        "adamw",
        "optimiser",
        move |maker| adamw_operands(sizes, maker),
        |operands| {
            let [factor, gradients @ ..] = operands.read.as_slice() else {
                return Ok(Vec::new());
            };
            let settings = AdamW {
                rate: 3e-4,
                beta1: 0.9,
                beta2: 0.999,
                epsilon: 1e-8,
                step: 1,
            };
            optimiser::adamw(
                factor.device(),
                &updates(operands, gradients),
                factor,
                settings,
            )?;
            Ok(Vec::new())
        },
    )
}

fn adamw_operands(sizes: Sizes, maker: &Maker<'_>) -> train::Result<Operands> {
    let master = maker.dtype.accumulator();
    let one = Tensor::full(maker.device, DType::F64, &[1], 1.0)?;
    let mut read = vec![optimiser::clip_scale(&one, None, 1.0)?];
    read.extend(all(sizes, |shape| maker.random_as(master, shape))?);
    let mut updated = Vec::new();
    for shape in weights(sizes) {
        updated.extend([
            maker.random_as(master, &shape)?,
            maker.sums(&shape)?,
            maker.sums(&shape)?,
        ]);
    }
    let copies = master != maker.dtype;
    let written = if copies {
        all(sizes, |shape| maker.random(shape))?
    } else {
        Vec::new()
    };
    Ok(Operands {
        updated,
        written,
        ..Operands::read(read)
    })
}

fn updates(operands: &Operands, gradients: &[Tensor]) -> Vec<Update> {
    let updated = operands
        .updated
        .chunks_exact(UPDATED)
        .zip(gradients)
        .enumerate();
    let update = |(index, (updated, gradients)): (usize, (&[Tensor], &Tensor))| Update {
        weights: updated[0].clone(),
        gradients: gradients.clone(),
        state: updated[1..].to_vec(),
        compute: operands.written.get(index).cloned(),
        weight_decay: 0.01,
    };
    updated.map(update).collect()
}
