//! An operation to be timed, with its operands and the minimum number of bytes that it moves.

use super::super::{random, timing};
use crate::numbers::Spread;
use hal::random::Key;
use std::{collections::BTreeSet, fmt};
use tensor::{DType, Device, Tensor, ops::pages::Pages};

/// No operand is still in a cache when a call uses it again, once other calls have moved this many bytes in
/// between.
const ROTATED_BYTES: usize = 256 << 20;

/// Small operands would need thousands of sets. In a training step they are in the caches too, so the number
/// of sets is capped.
const MOST_SETS: usize = 16;

type Make = Box<dyn Fn(&Maker<'_>) -> train::Result<Operands>>;
type Call = Box<dyn Fn(&Operands) -> train::Result<Vec<Tensor>>>;

/// One operation at one size.
pub(super) struct Case {
    /// Its name in tables and JSON.
    pub(super) name: String,
    /// The kind of operation.
    pub(super) family: &'static str,
    /// Floating-point operations, where the operation is limited by compute.
    pub(super) flop: Option<f64>,
    make: Make,
    call: Call,
}

/// The tensors of an operation, by how it uses them.
#[derive(Debug, Default)]
pub(super) struct Operands {
    /// Read in full.
    pub(super) read: Vec<Tensor>,
    /// Read and written.
    pub(super) updated: Vec<Tensor>,
    /// Written in full.
    pub(super) written: Vec<Tensor>,
    /// A table of which the operation uses only some rows.
    pub(super) table: Option<Tensor>,
    /// Pages of which it uses only some slots.
    pub(super) pages: Option<Pages>,
    /// Bytes of those rows and slots: once for reading, once more for writing.
    pub(super) table_bytes: usize,
}

/// The measurement of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// Seconds per call.
    pub(super) seconds: Spread,
    /// Minimum number of bytes that a call moves.
    pub(super) bytes: usize,
}

impl Case {
    /// A case that is limited by memory bandwidth.
    pub(super) fn new(
        name: &str,
        family: &'static str,
        make: impl Fn(&Maker<'_>) -> train::Result<Operands> + 'static,
        call: impl Fn(&Operands) -> train::Result<Vec<Tensor>> + 'static,
    ) -> Case {
        Case {
            name: name.into(),
            family,
            flop: None,
            make: Box::new(make),
            call: Box::new(call),
        }
    }

    /// As [`Case::new`], of an operation on pages, which `make` makes.
    pub(super) fn with_pages(
        name: &str,
        family: &'static str,
        make: impl Fn(&Maker<'_>) -> train::Result<Operands> + 'static,
        call: impl Fn(&Pages, &Operands) -> train::Result<Vec<Tensor>> + 'static,
    ) -> Case {
        Case::new(name, family, make, move |operands| {
            let pages = operands.pages.as_ref().expect("made with pages");
            call(pages, operands)
        })
    }

    /// The same for an operation that is limited by GEMMs, with `flop` floating-point operations.
    pub(super) fn with_flop(self, flop: f64) -> Case {
        Case {
            flop: Some(flop),
            ..self
        }
    }

    /// Times it. The results of a call live until its operands are used again, so that results change places
    /// too.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn measure(&self, maker: &Maker<'_>, repetitions: usize) -> train::Result<Measured> {
        let first = (self.make)(maker)?;
        let mut results = vec![(self.call)(&first)?];
        let bytes = first.moved(&results[0]);
        let mut sets = vec![first];
        while sets.len() < sets_for(sets[0].held()) {
            sets.push((self.make)(maker)?);
            results.push(Vec::new());
        }
        let mut turn = 0;
        let mut call = || {
            results[turn] = (self.call)(&sets[turn])?;
            turn = (turn + 1) % sets.len();
            Ok(())
        };
        // Allocating memory costs more than the call. After one round and one more call, a block exists for
        // each result.
        (0..=sets.len()).try_for_each(|_| call())?;
        let seconds = timing::batches(maker.device, repetitions, call)?;
        Ok(Measured { seconds, bytes })
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({})", self.name)
    }
}

impl Operands {
    /// Tensors that are only read.
    pub(super) fn read(read: impl Into<Vec<Tensor>>) -> Operands {
        Operands {
            read: read.into(),
            ..Operands::default()
        }
    }

    // Each operand moves once, or twice if it is updated, however often the kernels read or write it. Data
    // passed between the kernels of one operation does not count.
    fn moved(&self, results: &[Tensor]) -> usize {
        bytes(&self.read)
            + 2 * bytes(&self.updated)
            + bytes(&self.written)
            + bytes(results)
            + self.table_bytes
    }

    fn held(&self) -> usize {
        let table = self.table.as_ref().map_or(0, Tensor::bytes);
        let pages = self.pages.as_ref().map_or(0, Pages::bytes);
        bytes(&self.read) + bytes(&self.updated) + bytes(&self.written) + table + pages
    }
}

fn bytes(tensors: &[Tensor]) -> usize {
    tensors.iter().map(Tensor::bytes).sum()
}

fn sets_for(held: usize) -> usize {
    (ROTATED_BYTES / held.max(1) + 1).min(MOST_SETS)
}

/// Makes operands on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maker<'a> {
    /// The device.
    pub(super) device: &'a Device,
    /// Type of activations and weights.
    pub(super) dtype: DType,
}

impl Maker<'_> {
    /// A tensor of numbers in [-0.5, 0.5).
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn random(&self, shape: &[usize]) -> train::Result<Tensor> {
        self.random_as(self.dtype, shape)
    }

    /// As [`random`](Maker::random), of another type.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn random_as(&self, dtype: DType, shape: &[usize]) -> train::Result<Tensor> {
        random::uniform(self.device, dtype, shape, "bench kernels")
    }

    /// Zeros of the type in which sums are held.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn sums(&self, shape: &[usize]) -> train::Result<Tensor> {
        Ok(Tensor::zeros(self.device, self.dtype.accumulator(), shape)?)
    }

    /// Ids below `vocabulary`, and the number of distinct ids.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn ids(&self, count: usize, vocabulary: usize) -> train::Result<(Tensor, usize)> {
        let key = Key::new(1, "bench ids", 0);
        let ids: Vec<u32> = (0..count as u64)
            .map(|index| key.word(index) % vocabulary as u32)
            .collect();
        let different = ids.iter().collect::<BTreeSet<_>>().len();
        Ok((Tensor::from_slice(self.device, &[count], &ids)?, different))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_operands_do_not_make_thousands_of_sets() {
        assert_eq!((sets_for(0), sets_for(1 << 10)), (MOST_SETS, MOST_SETS));
        assert_eq!((sets_for(100 << 20), sets_for(300 << 20)), (3, 1));
    }
}
