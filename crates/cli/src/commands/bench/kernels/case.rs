//! An operation to be timed, with its operands and the bytes that it moves at the least.

use super::timing;
use crate::numbers::Spread;
use hal::random::Key;
use std::{collections::BTreeSet, fmt};
use tensor::{DType, Device, Tensor, ops};

/// An operation finds none of its operands in a cache when those of other calls with so many bytes lie between.
const ROTATED_BYTES: usize = 256 << 20;

/// Small operands would need thousands of sets: those are in the caches of a training step too.
const MOST_SETS: usize = 16;

/// Numbers that the host draws for a tensor; a longer one holds them again and again.
const DRAWN: usize = 1 << 16;

type Make = Box<dyn Fn(&Maker<'_>) -> train::Result<Operands>>;
type Call = Box<dyn Fn(&Operands) -> train::Result<Vec<Tensor>>>;

/// One operation at one size.
pub(super) struct Case {
    /// Its name, as tables and JSON have it.
    pub(super) name: String,
    /// What kind of operation it is.
    pub(super) family: &'static str,
    /// Floating-point operations, where these are what it waits for.
    pub(super) flop: Option<f64>,
    make: Make,
    call: Call,
}

/// The tensors of an operation, by what becomes of them.
#[derive(Debug, Default)]
pub(super) struct Operands {
    /// Read as a whole.
    pub(super) read: Vec<Tensor>,
    /// Read and written.
    pub(super) updated: Vec<Tensor>,
    /// Written as a whole.
    pub(super) written: Vec<Tensor>,
    /// A table of which only some rows are used.
    pub(super) table: Option<Tensor>,
    /// Bytes of those rows, once for reading and once for writing.
    pub(super) table_bytes: usize,
}

/// What a case measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// Seconds of a call.
    pub(super) seconds: Spread,
    /// Bytes that a call moves at the least.
    pub(super) bytes: usize,
}

impl Case {
    /// A case that waits for memory.
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

    /// The same, of an operation that waits for products of so many floating-point operations.
    pub(super) fn with_flop(self, flop: f64) -> Case {
        Case {
            flop: Some(flop),
            ..self
        }
    }

    /// Times it. The results of a call live until its operands come round again, so that they change places too.
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
        // A new block of memory costs more than the call: after a round and one more there is one for each result.
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

    // Each operand moves once and one that is updated twice, however often the kernels in fact go over it. What passes
    // between the kernels of one operation does not count.
    fn moved(&self, results: &[Tensor]) -> usize {
        bytes(&self.read)
            + 2 * bytes(&self.updated)
            + bytes(&self.written)
            + bytes(results)
            + self.table_bytes
    }

    fn held(&self) -> usize {
        let table = self.table.as_ref().map_or(0, Tensor::bytes);
        bytes(&self.read) + bytes(&self.updated) + bytes(&self.written) + table
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
    /// Where.
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
        let tensor = Tensor::empty(self.device, dtype, shape)?;
        let count = tensor.num_elements();
        let elements = tensor.reshape(&[count, 1])?;
        let key = Key::new(1, "bench kernels", 0);
        let mut filled = count.min(DRAWN);
        let drawn: Vec<f64> = (0..filled as u64)
            .map(|index| f64::from(key.uniform(index)) - 0.5)
            .collect();
        elements.rows(0, filled)?.upload_f64(&drawn)?;
        while filled < count {
            let more = filled.min(count - filled);
            ops::copy(&elements.rows(0, more)?, &elements.rows(filled, more)?)?;
            filled += more;
        }
        Ok(tensor)
    }

    /// Zeros of the type that sums are held in.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn sums(&self, shape: &[usize]) -> train::Result<Tensor> {
        Ok(Tensor::zeros(self.device, self.dtype.accumulator(), shape)?)
    }

    /// Ids below `vocabulary`, and how many different ones they are.
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
