//! Digests of what a step computes, which no grid changes.
//!
//! An element's hash covers its own bits and its global index. The hashes of a tensor are summed by blocks that its global
//! shape fixes, modulo 2^64. A sum depends neither on the order of its terms nor on which rank has which, so the sums of all
//! ranks add up to those of one rank. Other bits of a single element always change its block's sum; of several elements they
//! leave it with a probability of 2^-64. These sums find faults. Against forgery they are no defence: there, compare
//! checkpoints.

use grid::{Axis, IndexBox};
use half::{bf16, f16};
use pulp::Arch;
use std::{cell::RefCell, collections::BTreeMap, ops::Range};
use tensor::{DType, Error, Result, Scalar, Tensor};

/// The most blocks of a tensor.
pub const BLOCKS: usize = 16;

/// The sums of this rank's elements of a tensor: block and sum, for each block of which it has elements.
pub type Sums = BTreeMap<usize, u64>;

/// What a rank holds of a tensor, as hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// The tensor's name.
    pub name: String,
    /// The box of the global tensor in which its elements lie.
    pub index: IndexBox,
    /// Which elements of the box these are, in row-major order.
    pub range: Range<usize>,
    /// Axes along which all ranks hold these elements, in ascending order; `Pipeline` if several stages do.
    pub replicas: Vec<Axis>,
    /// Number of ranks that hold them.
    pub copies: usize,
    /// Whether those of this rank count: they do on one of the ranks that hold them.
    pub counts: bool,
    /// Their hashes.
    pub sums: Sums,
}

/// How a tensor is cut into blocks: along its first dim and its last one, so that most shards are whole blocks.
struct Blocks {
    // Elements per index of the first dim; lengths of the first and the last dim; blocks along each.
    stride: usize,
    lengths: [usize; 2],
    counts: [usize; 2],
}

impl Blocks {
    fn of(shape: &[usize]) -> Blocks {
        let (lengths, counts) = match shape {
            [] => ([1, 1], [1, 1]),
            [len] => ([*len, 1], [BLOCKS, 1]),
            [first, .., last] => ([*first, *last], [4, BLOCKS / 4]),
        };
        Blocks {
            stride: shape.iter().skip(1).product(),
            lengths,
            counts,
        }
    }

    // The block of the element at a position in row-major order, and the end of the run there that lies in it.
    fn at(&self, position: usize) -> (usize, usize) {
        let (row, column) = (position / self.stride, position % self.lengths[1]);
        let block = |dim: usize, index: usize| index * self.counts[dim] / self.lengths[dim];
        let end =
            |dim: usize, block: usize| ((block + 1) * self.lengths[dim]).div_ceil(self.counts[dim]);
        let (of_row, of_column) = (block(0, row), block(1, column));
        let end = match self.counts[1] {
            1 => end(0, of_row) * self.stride,
            _ => position - column + end(1, of_column),
        };
        (of_row * self.counts[1] + of_column, end)
    }
}

/// The elements that are read from a device and hashed at once: they stay in the processor's cache.
const AT_ONCE: usize = 1 << 14;

/// The sums of the elements in `range`, counted within a box, of a tensor of this global shape. `values` are these elements.
///
/// # Cost
/// A copy of the values to the host and a pass over them, with the widest vectors of the processor.
/// # Errors
/// [`Error::Invalid`] for a tensor of 32-bit integers; otherwise as [`Tensor::to_vec`].
///
/// # Panics
/// If the box does not lie within the shape, or `values` has another length than `range`.
pub fn sums(
    shape: &[usize],
    index: &IndexBox,
    range: Range<usize>,
    values: &Tensor,
) -> Result<Sums> {
    assert_eq!(
        range.len(),
        values.num_elements(),
        "values of other elements"
    );
    let flat = values.reshape(&[range.len()])?;
    let place = (shape, index, &range);
    match values.dtype() {
        DType::F64 => add_up(place, &flat, f64::to_bits),
        DType::F32 => add_up(place, &flat, |value: f32| value.to_bits().into()),
        DType::Bf16 => add_up(place, &flat, |value: bf16| value.to_bits().into()),
        DType::F16 => add_up(place, &flat, |value: f16| value.to_bits().into()),
        DType::U8 => add_up(place, &flat, |value: u8| value.into()),
        other => Err(Error::invalid(
            "digest",
            format!("a tensor of {other}"),
            "a float type or u8",
        )),
    }
}

fn add_up<T: Scalar>(
    (shape, index, range): (&[usize], &IndexBox, &Range<usize>),
    flat: &Tensor,
    bits: impl Fn(T) -> u64 + Copy,
) -> Result<Sums> {
    let read = |begin: usize| {
        let chunk = flat.rows(begin, AT_ONCE.min(range.len() - begin))?;
        chunk.to_vec::<T>()
    };
    let arch = Arch::new();
    let (blocks, mut sums) = (Blocks::of(shape), Sums::new());
    let mut chunks = (0..range.len()).step_by(AT_ONCE);
    let (mut chunk, mut within) = (Vec::new(), 0..0);
    let mut first = 0;
    for (start, len) in index.contiguous_runs(shape) {
        let run = first..first + len;
        first = run.end;
        let own = run.start.max(range.start)..run.end.min(range.end);
        if own.is_empty() {
            continue;
        }
        let (mut position, end) = (start + own.start - run.start, start + own.end - run.start);
        while position < end {
            if within.is_empty() {
                let Some(begin) = chunks.next() else { break };
                chunk = read(begin)?;
                within = 0..chunk.len();
            }
            let (block, end_of_block) = blocks.at(position);
            let len = (end_of_block.min(end) - position).min(within.len());
            let sum = sums.entry(block).or_default();
            let now = &chunk[within.start..within.start + len];
            *sum = sum.wrapping_add(sum_of_hashes(arch, position, now, bits));
            position += len;
            within.start += len;
        }
    }
    Ok(sums)
}

// Odd numbers, from the fractions of the golden ratio and of pi.
const OF_INDEX: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

// Of elements at neighbouring positions, so that a vector of them needs one addition for all positions.
fn sum_of_hashes<T: Copy>(
    arch: Arch,
    first: usize,
    values: &[T],
    bits: impl Fn(T) -> u64 + Copy,
) -> u64 {
    let start = (first as u64).wrapping_mul(OF_INDEX);
    arch.dispatch(
        #[inline(always)]
        || {
            let (mut sum, mut place) = (0_u64, start);
            for &value in values {
                place = place.wrapping_add(OF_INDEX);
                // Every step is reversible, so no two values of an element have one hash.
                let mut x = bits(value) ^ place;
                x = (x ^ (x >> 30)).wrapping_mul(MIX[0]);
                x = (x ^ (x >> 27)).wrapping_mul(MIX[1]);
                sum = sum.wrapping_add(x ^ (x >> 31));
            }
            sum
        },
    )
}

/// What the segments of a model return in the forward of a step, as far as it is wanted.
#[derive(Default)]
pub(crate) struct Observed(RefCell<Option<BTreeMap<String, Hashed>>>);

impl Observed {
    /// Begins to observe.
    pub(crate) fn begin(&self) {
        self.0.replace(Some(BTreeMap::new()));
    }

    /// What was seen since.
    pub(crate) fn take(&self) -> Vec<Hashed> {
        self.0.take().unwrap_or_default().into_values().collect()
    }

    /// Adds this rank's rows of a wire.
    ///
    /// # Errors
    /// As [`sums`].
    pub(crate) fn add(&self, name: impl FnOnce() -> String, wire: &crate::DTensor) -> Result<()> {
        let mut observed = self.0.borrow_mut();
        let Some(seen) = observed.as_mut().filter(|_| wire.dtype().is_float()) else {
            return Ok(());
        };
        let (pass, context, tensor) = (wire.pass(), wire.context(), wire.held());
        let (rows, columns) = (pass.rows(), tensor.columns());
        let inner = wire.leading().iter().product::<usize>() / rows.len().max(1);
        let shape = [pass.num_rows(), inner, wire.features()];
        let index = IndexBox {
            start: vec![rows.start, 0, wire.first_feature()],
            shape: vec![rows.len(), inner, columns],
        };
        let whole = (0, rows.len() * inner, 0);
        let spread = wire.spread();
        let pieces = spread.map_or_else(|| vec![whole], |spread| spread.pieces(context));
        // Rows differ along Data and Z, features along the axis that cuts them, and vectors along those that spread them.
        let parts: Vec<Axis> = wire.cut().into_iter().chain(wire.share().axes()).collect();
        let replicas = [Axis::X, Axis::Y, Axis::Context].into_iter();
        let replicas: Vec<Axis> = replicas.filter(|axis| !parts.contains(axis)).collect();
        // Ranks that hold other elements have another first piece.
        let range = pieces.first().map_or(0..0, |&(_, len, among_all)| {
            among_all * columns..(among_all + len) * columns
        });
        let held = seen.entry(name()).or_insert_with_key(|name| Hashed {
            name: name.clone(),
            index: index.clone(),
            range,
            copies: replicas.iter().map(|axis| context.degree(*axis)).product(),
            counts: replicas.iter().all(|axis| context.index(*axis) == 0),
            replicas,
            sums: Sums::new(),
        });
        let matrix = tensor.reshape(&[tensor.num_rows(), columns])?;
        for (start, len, among_all) in pieces {
            let range = among_all * columns..(among_all + len) * columns;
            for (block, sum) in sums(&shape, &index, range, &matrix.rows(start, len)?)? {
                let all = held.sums.entry(block).or_default();
                *all = all.wrapping_add(sum);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grid::shard_range;
    use tensor::Device;

    fn tensor(numbers: &[f64]) -> Tensor {
        let device = Device::new(cpu::open(cpu::Options::default()).unwrap()).unwrap();
        Tensor::from_slice(&device, &[numbers.len()], numbers).unwrap()
    }

    // The numbers of a box, in its order.
    fn of_box(all: &[f64], shape: &[usize], index: &IndexBox) -> Vec<f64> {
        let runs = index.contiguous_runs(shape);
        runs.flat_map(|(start, len)| all[start..start + len].to_vec())
            .collect()
    }

    fn numbers(shape: &[usize]) -> Vec<f64> {
        let count = shape.iter().product::<usize>();
        (0..count).map(|index| (index as f64).sin()).collect()
    }

    fn whole(shape: &[usize], all: &[f64]) -> Sums {
        sums(shape, &IndexBox::full(shape), 0..all.len(), &tensor(all)).unwrap()
    }

    #[test]
    fn the_sums_of_all_parts_are_those_of_the_whole() {
        // The last is read in several chunks, which end within rows.
        for shape in [
            &[0][..],
            &[1],
            &[7],
            &[100],
            &[3, 5],
            &[37, 64],
            &[4, 6, 10],
            &[60, 1000],
        ] {
            let all = numbers(shape);
            let mut added = Sums::new();
            // Cut into 3 along the first dim and into 2 along the last, and each box into 2 ranges, as shards of state are.
            let last = shape.len() - 1;
            let cuts = |dim: usize, parts| {
                (0..parts).map(move |part| shard_range(shape[dim], parts, part))
            };
            for rows in cuts(0, 3) {
                for columns in cuts(last, if last > 0 { 2 } else { 1 }) {
                    let mut index = IndexBox::full(shape);
                    if last > 0 {
                        (index.start[last], index.shape[last]) = (columns.start, columns.len());
                    }
                    (index.start[0], index.shape[0]) = (rows.start, rows.len());
                    let own = of_box(&all, shape, &index);
                    for range in (0..2).map(|part| shard_range(own.len(), 2, part)) {
                        let values = tensor(&own[range.clone()]);
                        for (block, sum) in sums(shape, &index, range, &values).unwrap() {
                            let all = added.entry(block).or_default();
                            *all = all.wrapping_add(sum);
                        }
                    }
                }
            }
            assert_eq!(added, whole(shape, &all), "{shape:?}");
            assert!(added.keys().all(|block| *block < BLOCKS), "{shape:?}");
        }
    }

    #[test]
    fn every_bit_and_every_place_counts() {
        let shape = [8, 16];
        let all = numbers(&shape);
        let expected = whole(&shape, &all);
        for (element, bit) in (0..all.len()).zip((0..64).cycle()) {
            let mut other = all.clone();
            other[element] = f64::from_bits(other[element].to_bits() ^ (1 << bit));
            let found = whole(&shape, &other);
            let differ = expected.iter().filter(|(block, sum)| found[block] != **sum);
            // The block of the element: a quarter of the rows and of the columns.
            let (row, column) = (element / 16, element % 16);
            let blocks: Vec<usize> = differ.map(|(block, _)| *block).collect();
            assert_eq!(
                blocks,
                [row / 2 * 4 + column / 4],
                "element {element}, bit {bit}"
            );
        }
        let mut swapped = all.clone();
        swapped.swap(0, 1);
        assert_ne!(whole(&shape, &swapped), expected);
    }
}
