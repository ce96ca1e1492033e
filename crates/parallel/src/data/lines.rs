//! Second moments that are kept as means of the rows and columns of each parameter: where they lie, and which of them are a rank's
//! own.
//!
//! The rows of a parameter are all its dims but the last, so a vector is a matrix of one row, and has a moment for each element.
//! Every rank holds the numbers of all rows and columns of its stage's parameters, which are few: how the parameter is cut, and
//! what replicas hold in shards, does not matter to them.

use super::{ParameterSet, SetOptions, bucket::Bucket};
use crate::{Context, Parameter};
use grid::IndexBox;
use std::ops::Range;
use tensor::{DType, Error, MemoryKind, Result, Tensor, ops};

/// The means of a set.
#[derive(Clone, Debug)]
pub(super) struct LineMeans {
    /// Those of the rows of all parameters, then those of their columns.
    pub(super) means: Tensor,
    /// For each parameter of the set, where its rows and its columns are among them.
    places: Vec<[Range<usize>; 2]>,
    /// Rows of all parameters.
    pub(super) num_rows: usize,
}

impl LineMeans {
    /// None if no parameter has any.
    pub(super) fn allocate(
        context: &Context,
        parameters: &[Parameter],
        options: &SetOptions,
    ) -> Result<Option<LineMeans>> {
        let counts = parameters
            .iter()
            .map(|parameter| match options.is_factored(parameter) {
                true => num_lines(parameter.global_shape()),
                false => [0, 0],
            });
        let counts: Vec<[usize; 2]> = counts.collect();
        let num_rows = counts.iter().map(|[rows, _]| rows).sum();
        let mut ends = [0, num_rows];
        let place = |counts: &[usize; 2]| {
            [0, 1].map(|of| {
                let start = ends[of];
                ends[of] += counts[of];
                start..ends[of]
            })
        };
        let places = counts.iter().map(place).collect();
        let (device, dtype) = (context.device(), options.dtype.accumulator());
        if ends[1] == 0 || !options.trains {
            return Ok(None);
        }
        let means = device.allocating(MemoryKind::Optimiser, || {
            Tensor::zeros(device, dtype, &[ends[1]])
        })?;
        Ok(Some(LineMeans {
            means,
            places,
            num_rows,
        }))
    }

    /// Some lines of a parameter among `all`: rows (0) or columns (1).
    pub(super) fn view(
        &self,
        all: &Tensor,
        parameter: &Parameter,
        of: usize,
        lines: Range<usize>,
    ) -> Result<Tensor> {
        all.rows(self.place(parameter, of).start + lines.start, lines.len())
    }

    /// All of them.
    pub(super) fn all_of(&self, all: &Tensor, parameter: &Parameter, of: usize) -> Result<Tensor> {
        let count = self.place(parameter, of).len();
        self.view(all, parameter, of, 0..count)
    }

    fn place(&self, parameter: &Parameter, of: usize) -> &Range<usize> {
        let index = parameter.settled().map_or(0, |home| home.index);
        &self.places[index][of]
    }
}

/// Rows and columns of a tensor.
pub(super) fn num_lines(shape: &[usize]) -> [usize; 2] {
    match shape.split_last() {
        Some((columns, rows)) => [rows.iter().product(), *columns],
        None => [1, 1],
    }
}

/// The runs of rows of the whole parameter that this rank's part touches, in their order.
pub(super) fn runs_of_rows(parameter: &Parameter) -> Vec<Range<usize>> {
    let (IndexBox { start, shape }, global) = (parameter.index(), parameter.global_shape());
    let last = global.len() - 1;
    if last == 0 {
        let only = 0..1;
        return vec![only];
    }
    let rows = IndexBox {
        start: start[..last].to_vec(),
        shape: shape[..last].to_vec(),
    };
    let runs = rows.contiguous_runs(&global[..last]);
    runs.map(|(start, len)| start..start + len).collect()
}

impl SetOptions {
    /// Whether the optimiser's state of this parameter is means of its rows and columns.
    pub fn is_factored(&self, parameter: &Parameter) -> bool {
        self.factors && !parameter.is_frozen() && !self.is_whole(parameter)
    }
}

/// The dims of the parameter that the other kind of lines has: they are 1 in the shape of the means.
fn other_dims(parameter: &Parameter, of: usize) -> Range<usize> {
    let last = parameter.global_shape().len() - 1;
    if of == 0 { last..last + 1 } else { 0..last }
}

/// The shape of the means of rows (0) or columns (1), over all ranks.
pub(super) fn shape_of_means(parameter: &Parameter, of: usize) -> Vec<usize> {
    let mut shape = parameter.global_shape().to_vec();
    shape[other_dims(parameter, of)].fill(1);
    shape
}

/// The means that count as this rank's own: of ranks that hold parts of the same lines, the one with the first part.
pub(super) fn own_means(parameter: &Parameter, of: usize) -> IndexBox {
    let mut index = parameter.index().clone();
    let dims = other_dims(parameter, of);
    let is_first = dims.clone().all(|dim| index.start[dim] == 0) && !index.is_empty();
    index.start[dims.clone()].fill(0);
    index.shape[dims].fill(1);
    if !is_first {
        index.shape.fill(0);
    }
    index
}

impl ParameterSet {
    /// The own means of rows (0) or columns (1), parameter by parameter.
    ///
    /// # Errors
    /// Those of the device; of `visit`.
    pub(super) fn visit_own_means<E: From<Error>>(
        &self,
        bucket: &Bucket,
        of: usize,
        mut visit: impl FnMut(&Parameter, Tensor) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(lines) = &self.0.lines else {
            return Ok(());
        };
        for parameter in &bucket.parameters {
            let own = own_means(parameter, of);
            let last = own.start.len() - 1;
            let columns = own.start[last]..own.start[last] + own.shape[last];
            let runs = match of {
                0 if !own.is_empty() => runs_of_rows(parameter),
                // An empty one, if no line is its own.
                _ => Vec::from([columns]),
            };
            let views = runs
                .into_iter()
                .map(|run| lines.view(&lines.means, parameter, of, run));
            let views = views.collect::<Result<Vec<_>>>()?;
            let means = match views.as_slice() {
                [one] => one.clone(),
                several => ops::concat(&several.iter().collect::<Vec<_>>(), 0)?,
            };
            visit(parameter, means)?;
        }
        Ok(())
    }

    /// Sets the means of rows (0) or columns (1) to what `given` lists for each parameter of the bucket.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another number of them.
    pub(super) fn set_means(&self, bucket: &Bucket, of: usize, given: &[Vec<f64>]) -> Result<()> {
        let Some(lines) = &self.0.lines else {
            return Ok(());
        };
        for (parameter, numbers) in bucket.parameters.iter().zip(given) {
            let means = lines.all_of(&lines.means, parameter, of)?;
            if numbers.len() != means.num_elements() {
                let operation = format!("means of parameter {}", parameter.name());
                let found = format!("{} numbers", numbers.len());
                let needed = means.num_elements().to_string();
                return Err(Error::invalid(operation, found, needed));
            }
            means.upload_f64(numbers)?;
        }
        Ok(())
    }

    /// A buffer of zeros for numbers of lines.
    pub(super) fn line_zeros(&self, dtype: DType, count: usize) -> Result<Tensor> {
        let device = self.0.context.device();
        device.allocating(MemoryKind::Buffers, || {
            Tensor::zeros(device, dtype, &[count])
        })
    }
}
