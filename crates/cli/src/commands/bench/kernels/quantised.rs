//! Weights that are stored as codes.

use super::{
    Sizes,
    case::{Case, Maker, Operands},
};
use hal::quantised::{Quantised, QuantisedPart};
use tensor::{Tensor, ops};

const FAMILY: &str = "elementwise";

/// All of them: what codes stand for, and a row's product with it.
pub(super) fn cases(sizes: Sizes) -> Vec<Case> {
    let of_format = |format| [dequantise(sizes, format), quantised_matmul(sizes, format)];
    Quantised::ALL.into_iter().flat_map(of_format).collect()
}

// A matrix of an MLP.
fn part_of_mlp(sizes: Sizes, format: Quantised) -> QuantisedPart {
    QuantisedPart {
        format,
        rows: sizes.hidden,
        columns: sizes.mlp()[1],
        first_column: 0,
    }
}

fn stored(maker: &Maker<'_>, part: QuantisedPart) -> train::Result<Tensor> {
    let wave = (0..part.rows * part.columns).map(|element| (element as f64).sin());
    let numbers: Vec<f64> = wave.collect();
    let stored = part.store(1, &numbers, &part.scales(&numbers));
    Ok(Tensor::from_slice(maker.device, &[stored.len()], &stored)?)
}

// Codes and scales read, weights written.
fn dequantise(sizes: Sizes, format: Quantised) -> Case {
    let part = part_of_mlp(sizes, format);
    Case::new(
        &format!("dequantise {format}"),
        FAMILY,
        move |maker| {
            let shape = [part.rows, part.columns];
            Ok(Operands {
                written: vec![Tensor::zeros(maker.device, maker.dtype, &shape)?],
                ..Operands::read([stored(maker, part)?])
            })
        },
        move |operands| {
            ops::quantised::dequantise(&operands.read[0], part, &operands.written[0])?;
            Ok(Vec::new())
        },
    )
}

// A token: codes and scales read, a row read and one written.
fn quantised_matmul(sizes: Sizes, format: Quantised) -> Case {
    let part = part_of_mlp(sizes, format);
    Case::new(
        &format!("quantised_matmul {format}"),
        FAMILY,
        move |maker| {
            Ok(Operands {
                written: vec![Tensor::zeros(
                    maker.device,
                    maker.dtype,
                    &[1, part.columns],
                )?],
                ..Operands::read([stored(maker, part)?, maker.random(&[1, part.rows])?])
            })
        },
        move |operands| {
            let (codes, row) = (&operands.read[0], &operands.read[1]);
            let leaf = hal::sums::leaf(part.rows);
            ops::quantised::quantised_matmul_into(row, (codes, part), &operands.written[0], leaf)?;
            Ok(Vec::new())
        },
    )
}
