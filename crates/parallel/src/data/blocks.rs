//! The blocks of parameters whose state is kept as 8-bit codes: which of them a rank holds, and their scales.
//!
//! A block is a run of a row of the whole parameter, so neither the cut of the parameter nor the shards over Data change one.
//! Every replica holds the scales of all blocks of its shard of the parameter.

use super::{
    ParameterSet, Part, SetOptions,
    bucket::Bucket,
    lines::{own_means, shape_of_means},
};
use crate::{Context, Parameter};
use grid::IndexBox;
use hal::codes::{BLOCK, BlockPlace};
use std::ops::Range;
use tensor::{DType, Error, MemoryKind, Result, Tensor, ops};

/// Elements of the smallest parameter whose state is kept as codes.
const LEAST_ELEMENTS: usize = 4096;
/// Columns of the narrowest one: of fewer, the scales are as long as what the codes save.
const LEAST_COLUMNS: usize = 16;

/// The scales of a bucket's states.
#[derive(Clone, Debug)]
pub(super) struct Scales {
    /// Those of all states, one after the other.
    pub(super) all: Tensor,
    /// Where each parameter's blocks are among those of a state.
    places: Vec<Range<usize>>,
}

impl Scales {
    pub(super) fn allocate(
        context: &Context,
        parameters: &[Parameter],
        (num_states, dtype): (usize, DType),
    ) -> Result<Scales> {
        let mut end = 0;
        let place = |parameter: &Parameter| {
            let start = end;
            end += Rows::of(parameter).num_blocks();
            start..end
        };
        let places = parameters.iter().map(place).collect();
        let device = context.device();
        let all = device.allocating(MemoryKind::Optimiser, || {
            Tensor::zeros(device, dtype, &[num_states * end])
        })?;
        Ok(Scales { all, places })
    }

    /// Those of a state of a parameter, among `all`: rows x blocks.
    pub(super) fn view(
        &self,
        all: &Tensor,
        state: usize,
        index: usize,
        rows: &Rows,
    ) -> Result<Tensor> {
        let (place, of_state) = (&self.places[index], self.places.last());
        let of_state = of_state.map_or(0, |last| last.end);
        let blocks = all.rows(state * of_state + place.start, place.len())?;
        blocks.reshape(&[rows.count, rows.of_row.len()])
    }
}

/// A rank's shard of a parameter as rows, and the blocks of a whole row that it touches.
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) columns: usize,
    pub(super) first_column: usize,
    pub(super) of_row: Range<usize>,
}

impl Rows {
    pub(super) fn of(parameter: &Parameter) -> Rows {
        let IndexBox { start, shape } = parameter.index();
        let last = shape.len() - 1;
        let place = BlockPlace {
            columns: shape[last],
            first_column: start[last],
            start: 0,
        };
        Rows {
            count: shape[..last].iter().product(),
            columns: place.columns,
            first_column: place.first_column,
            of_row: match place.columns {
                0 => 0..0,
                _ => place.of_row(),
            },
        }
    }

    fn num_blocks(&self) -> usize {
        self.count * self.of_row.len()
    }

    /// The blocks that begin here: each block begins on one of the ranks that hold parts of it.
    fn begun(&self) -> Range<usize> {
        self.first_column.div_ceil(BLOCK).min(self.of_row.end)..self.of_row.end
    }
}

impl SetOptions {
    /// Whether the optimiser's state of this parameter is kept as codes.
    pub fn is_coded(&self, parameter: &Parameter) -> bool {
        let shape = parameter.global_shape();
        let is_large = shape.iter().product::<usize>() >= LEAST_ELEMENTS
            && shape
                .last()
                .is_some_and(|columns| *columns >= LEAST_COLUMNS);
        self.codes && is_large && !parameter.is_frozen() && !self.is_whole(parameter)
    }

    /// The type of a part of a parameter.
    pub fn dtype_of(&self, part: Part, parameter: &Parameter) -> DType {
        match part {
            Part::Values => self.dtype,
            Part::State(_) if self.is_coded(parameter) => DType::U8,
            _ => self.dtype.accumulator(),
        }
    }

    /// The shape of a part of a parameter, over all ranks.
    pub fn shape_of(&self, part: Part, parameter: &Parameter) -> Vec<usize> {
        let shape = parameter.global_shape();
        match (part, shape.split_last()) {
            (Part::RowMeans, _) => shape_of_means(parameter, 0),
            (Part::ColumnMeans, _) => shape_of_means(parameter, 1),
            (Part::Scales(_), Some((columns, rows))) => {
                [rows, &[columns.div_ceil(BLOCK)][..]].concat()
            }
            _ => shape.to_vec(),
        }
    }

    /// The box of that shape that this rank holds.
    pub fn held(&self, part: Part, parameter: &Parameter) -> IndexBox {
        match part {
            Part::Scales(_) => of_blocks(parameter, Rows::of(parameter).of_row),
            Part::RowMeans | Part::ColumnMeans => {
                let shape = self.shape_of(part, parameter);
                let start = vec![0; shape.len()];
                IndexBox { start, shape }
            }
            _ => parameter.index().clone(),
        }
    }

    /// What of it counts as this rank's own: of ranks that hold different parts of a parameter, each element is one's own.
    pub fn own(&self, part: Part, parameter: &Parameter) -> IndexBox {
        match part {
            Part::Scales(_) => of_blocks(parameter, Rows::of(parameter).begun()),
            Part::RowMeans => own_means(parameter, 0),
            Part::ColumnMeans => own_means(parameter, 1),
            _ => parameter.index().clone(),
        }
    }
}

fn of_blocks(parameter: &Parameter, blocks: Range<usize>) -> IndexBox {
    let mut index = parameter.index().clone();
    let last = index.shape.len() - 1;
    (index.start[last], index.shape[last]) = (blocks.start, blocks.len());
    index
}

impl ParameterSet {
    /// The own scales of a state, parameter by parameter.
    ///
    /// # Errors
    /// Those of the device; of `visit`.
    pub(super) fn own_scales<E: From<Error>>(
        &self,
        bucket: &Bucket,
        state: usize,
        mut visit: impl FnMut(&Parameter, Tensor) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(scales) = &bucket.scales else {
            return Ok(());
        };
        for (index, parameter) in bucket.parameters.iter().enumerate() {
            let rows = Rows::of(parameter);
            let (held, begun) = (scales.view(&scales.all, state, index, &rows)?, rows.begun());
            let own = match begun.len() == rows.of_row.len() {
                true => held,
                false => ops::columns(&held, begun.start - rows.of_row.start, begun.len())?,
            };
            visit(parameter, own.reshape(&[own.num_elements()])?)?;
        }
        Ok(())
    }

    /// Sets the scales of a state to what `given` lists for each parameter of the bucket.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another number of them than the rank holds.
    pub(super) fn set_scales(
        &self,
        bucket: &Bucket,
        state: usize,
        given: &[Vec<f64>],
    ) -> Result<()> {
        let Some(scales) = &bucket.scales else {
            return Ok(());
        };
        for (index, (parameter, numbers)) in bucket.parameters.iter().zip(given).enumerate() {
            let rows = Rows::of(parameter);
            if numbers.len() != rows.num_blocks() {
                let operation = format!("scales of parameter {}", parameter.name());
                let found = format!("{} numbers", numbers.len());
                return Err(Error::invalid(
                    operation,
                    found,
                    rows.num_blocks().to_string(),
                ));
            }
            scales
                .view(&scales.all, state, index, &rows)?
                .upload_f64(numbers)?;
        }
        Ok(())
    }
}
