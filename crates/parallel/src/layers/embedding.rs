//! Look-up tables on the grid: rows over X (and Z, like any weight), hidden features over Y.

use super::{
    DTensor, gather,
    scatter::{Addend, Grain},
    spread::{Share, Spread},
};
use crate::{Init, Parameter, Pass, Purpose, Reproducible, counters::Subject, parameter::Scope};
use grid::{Axis, Layout, feature_range};
use tensor::{ReduceOp, Result, Tensor, Var, ops};

/// The meaning of the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Tokens: cut over X, and never gathered over it.
    Vocabulary,
    /// Positions: every rank of X holds them all.
    Positions,
}

/// Declares a table of `rows` x `hidden`. Hidden features are cut over Y, and rows over Z like those of any
/// weight.
/// # Errors
/// As [`Parameter::declare`].
pub fn declare(
    scope: &Scope,
    name: &str,
    rows: usize,
    kind: Rows,
    hidden: usize,
    init: Init,
) -> Result<Parameter> {
    let cut_rows = match kind {
        Rows::Vocabulary => vec![Axis::X, Axis::Z],
        Rows::Positions => vec![Axis::Z],
    };
    let layout = Layout::cut(vec![cut_rows, vec![Axis::Y]]).expect("each axis cuts once");
    Parameter::declare(scope, name, &[rows, hidden], layout, init, true)
}

/// The rows of `table` with these ids.
///
/// # Shapes
/// `ids`: this rank's rows, u32. The result: ids x hidden/Y, the same on all ranks of X, or spread over them; those of this
/// rank's tokens, if Context cuts sequences.
/// # Cost
/// An all-gather of the table's block over Z; for a vocabulary an all-reduce of the result over X, or a reduce-scatter
/// whose result's gradient is gathered. Backward: a
/// reduce-scatter of the block's gradient over Z.
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) for ids that are not u32, and a table without memory on this rank; those
/// of the collectives.
pub fn embedding(pass: &Pass, table: &Parameter, ids: &Tensor) -> Result<DTensor> {
    let context = pass.context();
    let block = gather::gather(pass, table, Subject::Embedding)?;
    let cut_by_x = table.layout().cuts(Axis::X).is_some();
    let first_row = match cut_by_x {
        true => {
            feature_range(
                table.global_shape()[0],
                context.degree(Axis::X),
                context.index(Axis::X),
            )
            .start
        }
        false => 0,
    };
    let wanted = Share {
        tokens: pass.cuts_tokens(),
        runs: pass.spreads_runs(),
    };
    let spread = Spread::of(context, ids.shape(), wanted);
    // Ranks look up their own ids; but ranks of X that hold different rows of the table those of all their runs.
    let shared = spread.as_ref().and_then(|spread| {
        spread.only(Share {
            tokens: true,
            runs: !cut_by_x,
        })
    });
    let own = shared.as_ref().map(|shared| {
        let own = shared.cut(context, ids)?;
        own.reshape(&[own.num_elements()])
    });
    let own = own.transpose()?;
    let mut out = ops::embedding(&block, own.as_ref().unwrap_or(ids), first_row)?;
    if cut_by_x {
        let (subject, compute) = (Subject::Embedding, context.device().compute());
        let runs = spread.as_ref().filter(|spread| spread.share().runs);
        match (runs, context.group(Axis::X, Purpose::Main)?) {
            (Some(spread), _) => out = spread.sum_runs(context, (subject, &compute), &out)?,
            (None, Some(group)) => {
                group.all_reduce(context, subject, &compute, &out, ReduceOp::Sum)?;
            }
            (None, None) => {}
        }
    }
    let place = (table.global_shape()[1], Some(Axis::Y));
    let (saved, table, keeps) = (pass.backward(), table.clone(), !table.is_frozen());
    let by_rows = pass.sums_by_rows();
    let gathered = spread.clone();
    let (share, ids) = match own.filter(|_| !by_rows) {
        Some(own) => (shared.map_or(Share::NONE, |shared| shared.share()), own),
        None => (Share::NONE, ids.clone()),
    };
    let var = Var::record_one("embedding", &[], out, keeps, move |d_out| {
        let number = saved.count_use(&table);
        let context = saved.context();
        let compute = context.device().compute();
        let d_out = match &gathered {
            Some(spread) if by_rows => {
                spread.gather(context, (Subject::Embedding, &compute), &d_out)?
            }
            Some(spread) if !share.runs => {
                spread.gather_runs(context, (Subject::Embedding, &compute), &d_out)?
            }
            _ => d_out,
        };
        let pass = saved.clone();
        let at = (number, first_row, share);
        pass.later(move || add_gradient(&saved, &table, at, &d_out, &ids))?;
        Ok(Vec::new())
    });
    DTensor::spread_over(pass, var, place, spread)
}

// Adds the rows of `d_out` to those of the table's gradient with these ids.
fn add_gradient(
    pass: &Pass,
    table: &Parameter,
    (number, first_row, share): (usize, usize, Share),
    d_out: &Tensor,
    ids: &Tensor,
) -> Result<()> {
    let addend = Addend {
        parameter: table,
        subject: Subject::Embedding,
        block_dtype: d_out.dtype().accumulator(),
        inner: pass.inner(d_out),
        grain: Grain::Leaf,
        number,
        share,
    };
    let by_nodes = pass.context().settings().reproducible == Reproducible::Grid;
    addend.add(pass, |rows, into, beta| {
        let (d_out, ids) = (pass.part(d_out, rows)?, pass.part(ids, rows)?);
        // The kernel adds to what is there, row by row, which would not be the sum of two nodes.
        let own = match (beta, by_nodes) {
            (0.0, _) => into.clone(),
            (_, false) => return ops::embedding_backward(&d_out, &ids, into, first_row),
            (_, true) => pass.context().buffer(into.dtype(), into.shape())?,
        };
        own.fill(0.0)?;
        ops::embedding_backward(&d_out, &ids, &own, first_row)?;
        match beta {
            0.0 => Ok(()),
            _ => ops::axpby(1.0, &own, beta, into),
        }
    })
}
