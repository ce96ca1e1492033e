//! The rows that a step reads: named tensors, as far as this rank holds them.

use crate::{DTensor, Pass, RowCut};
use std::ops::Range;
use tensor::{Error, Result, Tensor};

/// This rank's rows of one micro-batch: tensors by name, whose first dim counts rows. Cloning clones the handles.
#[derive(Clone, Debug, Default)]
pub struct MicroBatch {
    rows: (usize, usize),
    columns: Vec<(String, Tensor)>,
}

impl MicroBatch {
    /// Rows with these indices within the global batch, without columns yet.
    pub fn new(rows: Range<usize>) -> MicroBatch {
        MicroBatch {
            rows: (rows.start, rows.end),
            columns: Vec::new(),
        }
    }

    /// Adds a column.
    ///
    /// # Errors
    /// [`Error::Invalid`] when its first dim is not the number of rows, and for a second column of that name.
    pub fn with(mut self, name: &str, column: Tensor) -> Result<MicroBatch> {
        let (rows, found) = (self.rows().len(), column.shape().first().copied());
        if found != Some(rows) {
            let needed = format!("{rows} rows");
            return Err(Error::invalid(
                format!("column {name}"),
                format!("{column:?}"),
                needed,
            ));
        }
        if self.columns.iter().any(|(other, _)| other == name) {
            return Err(Error::invalid(
                "batch",
                format!("two columns called {name}"),
                "one of each name",
            ));
        }
        self.columns.push((name.to_owned(), column));
        Ok(self)
    }

    /// Indices of the rows within the global batch.
    pub fn rows(&self) -> Range<usize> {
        self.rows.0..self.rows.1
    }

    /// The same rows, counted from row `first` of the batch.
    pub(crate) fn counted_from(&self, first: usize) -> MicroBatch {
        MicroBatch {
            rows: (self.rows.0 - first, self.rows.1 - first),
            columns: self.columns.clone(),
        }
    }

    /// The column of that name.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the existing names.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
            let found = format!("no column {name}");
            Error::invalid("batch", found, format!("one of {}", names.join(", ")))
        })
    }

    /// The column of that name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        let mut columns = self.columns.iter();
        columns
            .find(|(other, _)| other == name)
            .map(|(_, tensor)| tensor)
    }

    /// All columns.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.columns
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// The same rows in other memory.
    ///
    /// # Errors
    /// Those of `map`.
    pub fn map(&self, mut map: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<MicroBatch> {
        let columns = self.columns.iter();
        let columns = columns.map(|(name, tensor)| Ok((name.clone(), map(tensor)?)));
        Ok(MicroBatch {
            rows: self.rows,
            columns: columns.collect::<Result<_>>()?,
        })
    }
}

/// What a segment reads besides its wires: the columns of a micro-batch, within a pass.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pass: &'a Pass,
    batch: &'a MicroBatch,
}

impl<'a> Input<'a> {
    /// The columns of `batch` in `pass`, both of the same rows.
    pub fn new(pass: &'a Pass, batch: &'a MicroBatch) -> Input<'a> {
        Input { pass, batch }
    }

    /// The pass.
    pub fn pass(&self) -> &'a Pass {
        self.pass
    }

    /// The column of that name as it is on the device: ids, labels, masks.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the names that there are.
    pub fn tensor(&self, name: &str) -> Result<&'a Tensor> {
        self.batch.tensor(name)
    }

    /// The same of a column that a batch may lack: all micro-batches of a step have the same columns.
    pub fn get(&self, name: &str) -> Option<&'a Tensor> {
        self.batch.get(name)
    }

    /// The column of that name as the input of a layer: floats, with whole features.
    ///
    /// # Errors
    /// As [`tensor`](Input::tensor).
    pub fn activation(&self, name: &str) -> Result<DTensor> {
        DTensor::input(self.pass, self.tensor(name)?.clone())
    }
}

/// This rank's rows of a global batch, in micro-batches.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Number of the training step, from 0, which keys dropout.
    pub step: u64,
    /// Rows of the global batch, on all ranks.
    pub num_rows: usize,
    /// The micro-batches; every rank has the same number.
    pub micro_batches: Vec<MicroBatch>,
}

impl Batch {
    /// How the rows are cut.
    pub(crate) fn cut(&self) -> RowCut {
        RowCut::new(self.num_rows, self.micro_batches.len())
    }
}
