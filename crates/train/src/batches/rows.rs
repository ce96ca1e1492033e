//! Rows of a batch on the host.

use super::value::{RowValue, collected};
use parallel::MicroBatch;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use tensor::{DType, Device, Error, Result, Tensor};

/// The values of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Values {
    /// Floats, rounded to the type in which the model computes.
    Floats(Vec<f32>),
    /// Floats of double length, rounded likewise.
    Doubles(Vec<f64>),
    /// Ids, labels, targets: also u32 on the device.
    Ids(Vec<u32>),
    /// Factors of losses, in the type in which the model sums: f64, or f32 where it computes in fewer bits.
    Weights(Vec<f64>),
}

impl Values {
    /// The same values repeated `times` times.
    pub(crate) fn repeated(&self, times: usize) -> Values {
        match self {
            Values::Floats(values) => Values::Floats(values.repeat(times)),
            Values::Doubles(values) => Values::Doubles(values.repeat(times)),
            Values::Ids(values) => Values::Ids(values.repeat(times)),
            Values::Weights(values) => Values::Weights(values.repeat(times)),
        }
    }

    /// Their number.
    pub fn len(&self) -> usize {
        match self {
            Values::Floats(values) => values.len(),
            Values::Doubles(values) => values.len(),
            Values::Ids(values) => values.len(),
            Values::Weights(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<f32>> for Values {
    fn from(values: Vec<f32>) -> Values {
        Values::Floats(values)
    }
}

impl From<Vec<f64>> for Values {
    fn from(values: Vec<f64>) -> Values {
        Values::Doubles(values)
    }
}

impl From<Vec<u32>> for Values {
    fn from(values: Vec<u32>) -> Values {
        Values::Ids(values)
    }
}

/// Some rows of a batch: columns by name, row after row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows(Vec<(String, Vec<usize>, Values)>);

impl Rows {
    /// No column yet.
    pub fn new() -> Rows {
        Rows::default()
    }

    /// Adds a column whose rows have this shape.
    pub fn with(mut self, name: &str, row_shape: &[usize], values: impl Into<Values>) -> Rows {
        self.0
            .push((name.to_owned(), row_shape.to_vec(), values.into()));
        self
    }

    /// The same with one more column, whose value in each of `rows` is what `value` gives for the row's index. The column
    /// takes its shape from the type of that value.
    ///
    /// ```
    /// use fascicle_train::batches::Rows;
    ///
    /// let rows = Rows::new()
    ///     .each("point", 2..4, |row| [row as f64, 0.5])
    ///     .each("label", 2..4, |row| row as u32 % 2);
    /// let same = Rows::new()
    ///     .with("point", &[2], vec![2.0, 0.5, 3.0, 0.5])
    ///     .with("label", &[], vec![0u32, 1]);
    /// assert_eq!(rows, same);
    /// ```
    pub fn each<V: RowValue>(
        self,
        name: &str,
        rows: Range<usize>,
        value: impl FnMut(usize) -> V,
    ) -> Rows
    where
        Vec<V::Number>: Into<Values>,
    {
        self.with(name, &V::shape(), collected(rows.map(value)))
    }

    /// The values of a column, if there is one of that name.
    pub fn column(&self, name: &str) -> Option<&Values> {
        let found = self.0.iter().find(|(other, ..)| other == name);
        found.map(|(_, _, values)| values)
    }

    /// The rows on a device, floats as `dtype`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a column does not have as many values as the rows need, and for two columns with one name;
    /// [`Error::OutOfMemory`].
    pub fn upload(&self, device: &Device, dtype: DType, rows: Range<usize>) -> Result<MicroBatch> {
        let mut batch = MicroBatch::new(rows.clone());
        for (name, row_shape, values) in &self.0 {
            let shape = [&[rows.len()], &row_shape[..]].concat();
            let needed = shape
                .iter()
                .try_fold(1usize, |count, size| count.checked_mul(*size));
            if needed != Some(values.len()) {
                let found = format!("{} values", values.len());
                let needed = format!("{} rows of {row_shape:?}", rows.len());
                return Err(Error::invalid(format!("column {name}"), found, needed));
            }
            let column = match values {
                Values::Ids(values) => Tensor::from_slice(device, &shape, values)?,
                Values::Floats(values) if dtype == DType::F32 => {
                    Tensor::from_slice(device, &shape, values)?
                }
                Values::Floats(values) => {
                    let wide: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
                    Tensor::from_f64(device, dtype, &shape, &wide)?
                }
                Values::Doubles(values) => Tensor::from_f64(device, dtype, &shape, values)?,
                Values::Weights(values) => {
                    Tensor::from_f64(device, dtype.accumulator(), &shape, values)?
                }
            };
            batch = batch.with(name, column)?;
        }
        Ok(batch)
    }
}
