//! Operations on rows or columns: norms, the gradient of a bias, the embedding table, cross-entropy.

use super::{
    Sizes,
    case::{Case, Maker, Operands},
};
use tensor::{
    Tensor,
    ops::{
        self,
        loss::{self, VocabularyShard},
        norm::{self, Gradients, NormKind, NormShape},
    },
};

const EPSILON: f64 = 1e-5;

/// All of them.
pub(super) fn cases(sizes: Sizes) -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in [NormKind::Layer, NormKind::Rms] {
        cases.extend([false, true].map(|adds| norm_forward(sizes, kind, adds)));
        cases.extend([false, true].map(|adds| norm_backward(sizes, kind, adds)));
    }
    cases.extend([
        column_sum(sizes),
        embedding(sizes),
        embedding_backward(sizes),
    ]);
    cases.extend([cross_entropy(sizes), cross_entropy_backward(sizes)]);
    cases
}

fn named(kind: NormKind, backward: &str) -> String {
    let name = match kind {
        NormKind::Layer => "layer_norm",
        NormKind::Rms | NormKind::RmsOffset => "rms_norm",
    };
    format!("{name}{backward}")
}

fn shape_of(kind: NormKind, x: &Tensor) -> NormShape {
    norm::shape(kind, x, x.columns(), EPSILON)
}

// Reads rows, or the addends that make them, gain and bias (of LayerNorm); writes rows, their moments, and the sum if it makes that.
fn norm_forward(sizes: Sizes, kind: NormKind, adds: bool) -> Case {
    let shape = sizes.stream();
    let name = if adds { " and sum" } else { "" };
    Case::new(
        &named(kind, name),
        "norm",
        move |maker| {
            let mut read = vec![maker.random(&shape)?, maker.random(&[shape[1]])?];
            if kind == NormKind::Layer {
                read.push(maker.random(&[shape[1]])?);
            }
            if adds {
                read.push(maker.random(&shape)?);
            }
            Ok(Operands::read(read))
        },
        move |operands| {
            let (x, gain) = (&operands.read[0], &operands.read[1]);
            let bias = operands.read.get(2).filter(|_| kind == NormKind::Layer);
            let addend = operands.read.last().filter(|_| adds);
            let sum = addend.map(|addend| ops::add(x, addend)).transpose()?;
            let x = sum.as_ref().unwrap_or(x);
            let (out, moments) = norm::forward(shape_of(kind, x), x, gain, bias)?;
            let mut made = vec![out, moments];
            made.extend(sum);
            Ok(made)
        },
    )
}

// Reads rows, their moments, gain and gradient, and the gradient of the residual if it adds that; writes one gradient and adds to
// those of gain and bias.
fn norm_backward(sizes: Sizes, kind: NormKind, adds: bool) -> Case {
    let shape = sizes.stream();
    let make = move |maker: &Maker<'_>| {
        let x = maker.random(&shape)?;
        let moments = norm::moments(shape_of(kind, &x), &x)?;
        let mut read = vec![
            x,
            moments,
            maker.random(&[shape[1]])?,
            maker.random(&shape)?,
        ];
        if adds {
            read.push(maker.random(&shape)?);
        }
        let vectors = if kind == NormKind::Layer { 2 } else { 1 };
        let updated = (0..vectors)
            .map(|_| maker.sums(&[shape[1]]))
            .collect::<train::Result<_>>()?;
        Ok(Operands {
            updated,
            ..Operands::read(read)
        })
    };
    let backward = match adds {
        true => " backward and sum",
        false => " backward",
    };
    Case::new(&named(kind, backward), "norm", make, move |operands| {
        let [x, moments, gain, d_out] = [0, 1, 2, 3].map(|index| &operands.read[index]);
        let d_x = Tensor::empty(x.device(), x.dtype(), x.shape())?;
        let gradients = Gradients {
            d_x: &d_x,
            d_gain: &operands.updated[0],
            d_bias: operands.updated.get(1),
            addend: operands.read.get(4),
        };
        norm::backward(shape_of(kind, x), x, moments, gain, d_out, gradients, 1.0)?;
        Ok(vec![d_x])
    })
}

// Reads the matrix, and adds to a row of sums.
fn column_sum(sizes: Sizes) -> Case {
    let shape = sizes.mlp();
    Case::new(
        "column_sum",
        "reduction",
        move |maker| {
            let updated = vec![maker.sums(&[shape[1]])?];
            Ok(Operands {
                updated,
                ..Operands::read([maker.random(&shape)?])
            })
        },
        |operands| {
            ops::column_sum_into(&operands.read[0], &operands.updated[0], 1.0)?;
            Ok(Vec::new())
        },
    )
}

// Reads ids and each row that they name; writes a row per id.
fn embedding(sizes: Sizes) -> Case {
    Case::new(
        "embedding",
        "embedding",
        move |maker| {
            let (ids, different) = maker.ids(sizes.tokens, sizes.vocabulary)?;
            let table = maker.random(&[sizes.vocabulary, sizes.hidden])?;
            let table_bytes = different * sizes.hidden * table.dtype().bytes();
            Ok(Operands {
                table: Some(table),
                table_bytes,
                ..Operands::read([ids])
            })
        },
        |operands| match &operands.table {
            Some(table) => Ok(vec![ops::embedding(table, &operands.read[0], 0)?]),
            None => Ok(Vec::new()),
        },
    )
}

// Reads ids and gradients, and adds to each row that the ids name.
fn embedding_backward(sizes: Sizes) -> Case {
    Case::new(
        "embedding backward",
        "embedding",
        move |maker| {
            let (ids, different) = maker.ids(sizes.tokens, sizes.vocabulary)?;
            let table = maker.sums(&[sizes.vocabulary, sizes.hidden])?;
            let table_bytes = 2 * different * sizes.hidden * table.dtype().bytes();
            let read = [ids, maker.random(&sizes.stream())?];
            Ok(Operands {
                table: Some(table),
                table_bytes,
                ..Operands::read(read)
            })
        },
        |operands| {
            let (ids, d_out) = (&operands.read[0], &operands.read[1]);
            operands
                .table
                .iter()
                .try_for_each(|table| ops::embedding_backward(d_out, ids, table, 0))?;
            Ok(Vec::new())
        },
    )
}

// Reads logits and targets; writes the log of each row's sum and the loss.
fn cross_entropy(sizes: Sizes) -> Case {
    Case::new(
        "cross_entropy",
        "loss",
        move |maker| {
            let (targets, _) = maker.ids(sizes.tokens, sizes.vocabulary)?;
            Ok(Operands::read([maker.random(&sizes.logits())?, targets]))
        },
        move |operands| {
            let (logits, targets) = (&operands.read[0], &operands.read[1]);
            let (log_sum_exp, loss) = loss_of(sizes, logits, targets)?;
            Ok(vec![log_sum_exp, loss])
        },
    )
}

// Reads targets, logs and the loss's gradient; reads the logits and overwrites them with their gradient. From
// the second call on the logits are gradients, on which the kernel does the same work.
fn cross_entropy_backward(sizes: Sizes) -> Case {
    Case::new(
        "cross_entropy backward",
        "loss",
        move |maker| {
            let (targets, _) = maker.ids(sizes.tokens, sizes.vocabulary)?;
            let logits = maker.random(&sizes.logits())?;
            let (log_sum_exp, d_loss) = loss_of(sizes, &logits, &targets)?;
            d_loss.fill(1.0)?;
            Ok(Operands {
                updated: vec![logits],
                ..Operands::read([targets, log_sum_exp, d_loss])
            })
        },
        move |operands| {
            let [targets, log_sum_exp, d_loss] = [0, 1, 2].map(|index| &operands.read[index]);
            let shard = shard(sizes);
            loss::backward(
                &operands.updated[0],
                targets,
                log_sum_exp,
                d_loss,
                shard,
                1.0,
            )?;
            Ok(Vec::new())
        },
    )
}

fn shard(sizes: Sizes) -> VocabularyShard {
    VocabularyShard {
        first_column: 0,
        vocabulary: sizes.vocabulary,
    }
}

fn loss_of(sizes: Sizes, logits: &Tensor, targets: &Tensor) -> train::Result<(Tensor, Tensor)> {
    let statistics = loss::statistics(logits, targets, shard(sizes))?;
    Ok(loss::combine(
        &statistics,
        targets,
        &[sizes.vocabulary],
        1,
        1.0 / sizes.tokens as f64,
    )?)
}
