//! The weights of a checkpoint, with what adapters change.

use crate::{
    Config, Result,
    checkpoint::{self, Reader},
    trainer::Weights,
};
use grid::IndexBox;
use parallel::parameter::column_norms;
use std::{borrow::Borrow, path::Path};

/// W + scale A B for a layer with an adapter, whose columns get their trained lengths if it has some, and all other weights as they
/// are. Computed in f64.
pub struct Merged<R> {
    reader: R,
    scale: f64,
}

impl<R: Borrow<Reader>> Merged<R> {
    /// Those of a checkpoint that a run of this configuration wrote.
    pub fn new(reader: R, config: &Config) -> Merged<R> {
        let scale = config.tuning.scale();
        Merged { reader, scale }
    }

    /// As [`Weights::read`].
    pub(super) fn numbers(
        &self,
        name: &str,
        shape: &[usize],
        index: &IndexBox,
    ) -> checkpoint::Result<Vec<f64>> {
        let mut numbers = self.sum(name, shape, index)?;
        let layer = name.strip_suffix(".weight").unwrap_or(name);
        let magnitude = stored(&format!("{layer}.{}", nn::ADAPTER_MAGNITUDE));
        let reader = self.reader.borrow();
        if reader.info(&magnitude).is_err() {
            return Ok(numbers);
        }
        let (start, len) = (index.start[1], index.shape[1]);
        let columns = IndexBox {
            start: vec![start],
            shape: vec![len],
        };
        let lengths = reader.read_f64(&magnitude, &[shape[1]], &columns)?;
        let read = |index: &IndexBox| self.sum(name, shape, index);
        let norms = column_norms(shape[0], start..start + len, read)?;
        for row in numbers.chunks_mut(len.max(1)) {
            for (number, (length, norm)) in row.iter_mut().zip(lengths.iter().zip(&norms)) {
                // A column of zeros has no direction, and outputs 0.
                *number *= length / norm.max(f64::MIN_POSITIVE);
            }
        }
        Ok(numbers)
    }

    // W + scale A B.
    fn sum(&self, name: &str, shape: &[usize], index: &IndexBox) -> checkpoint::Result<Vec<f64>> {
        let reader = self.reader.borrow();
        let mut numbers = reader.read_f64(&stored(name), shape, index)?;
        let layer = name.strip_suffix(".weight").unwrap_or(name);
        let [down, up] = nn::ADAPTER_LAYERS.map(|part| stored(&format!("{layer}.{part}.weight")));
        let Ok(info) = reader.info(&down) else {
            return Ok(numbers);
        };
        let rank = info.global_shape[1];
        let box_of = |start: [usize; 2], shape: [usize; 2]| IndexBox {
            start: start.into(),
            shape: shape.into(),
        };
        let (rows, columns) = (index.shape[0], index.shape[1]);
        let of_rows = box_of([index.start[0], 0], [rows, rank]);
        let of_columns = box_of([0, index.start[1]], [rank, columns]);
        let a = reader.read_f64(&down, &[shape[0], rank], &of_rows)?;
        let b = reader.read_f64(&up, &[rank, shape[1]], &of_columns)?;
        for (out, a) in numbers.chunks_mut(columns).zip(a.chunks(rank)) {
            for (a, b) in a.iter().zip(b.chunks(columns)) {
                let factor = self.scale * a;
                out.iter_mut()
                    .zip(b)
                    .for_each(|(out, b)| *out += factor * b);
            }
        }
        Ok(numbers)
    }
}

fn stored(name: &str) -> String {
    format!("weights/{name}")
}

impl<R: Borrow<Reader> + Send + Sync> Weights for Merged<R> {
    fn path(&self) -> &Path {
        self.reader.borrow().path()
    }

    fn names(&self) -> Vec<String> {
        let names = Weights::names(self.reader.borrow()).into_iter();
        names.filter(|name| !nn::is_of_adapter(name)).collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        Weights::shape(self.reader.borrow(), name)
    }

    fn read(&self, name: &str, shape: &[usize], index: &IndexBox) -> Result<Vec<f64>> {
        Ok(self.numbers(name, shape, index)?)
    }
}
