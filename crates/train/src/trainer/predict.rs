//! What a model gives for the rows of a batch, collected from all ranks.

use super::Trainer;
use crate::{Error, Result};
use grid::Axis;
use parallel::{Batch, DTensor, Pass};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The tensors that a model gives to its objective, under the names of their wires, for all rows of a global batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predictions(BTreeMap<String, Output>);

/// One of these tensors on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The shape of one row, of which the last dim counts features: all of them.
    pub row_shape: Vec<usize>,
    /// The rows one behind the other, in the order of the global batch.
    pub values: Vec<f64>,
}

impl Predictions {
    /// The names of the outputs, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The output of that name.
    ///
    /// # Errors
    /// [`Error::Parallel`] with the names that there are.
    pub fn output(&self, name: &str) -> Result<&Output> {
        self.0.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            let needed = format!("one of {}", names.join(", "));
            invalid(format!("output `{name}`"), needed)
        })
    }

    /// The share of predictions whose largest feature is the one that their label names.
    ///
    /// # Shapes
    /// `labels`: one for each vector of features of the output `name`, row after row; those without such a feature, as
    /// `u32::MAX` for a prediction that does not count, are left out.
    /// # Errors
    /// [`Error::Parallel`] for an unknown name, and when the number of labels is not that of predictions.
    pub fn accuracy(&self, name: &str, labels: impl IntoIterator<Item = u32>) -> Result<f64> {
        let output = self.output(name)?;
        let features = output.row_shape.last().copied().unwrap_or(1).max(1);
        let labels: Vec<u32> = labels.into_iter().collect();
        let vectors = output.values.chunks(features);
        if labels.len() != vectors.len() {
            let found = format!("{} labels", labels.len());
            let needed = format!("one for each of {} predictions of `{name}`", vectors.len());
            return Err(invalid(found, needed));
        }
        let pairs = vectors.zip(labels).map(|(x, label)| (x, label as usize));
        let counted: Vec<bool> = pairs
            .filter(|(x, label)| *label < x.len())
            .map(|(x, label)| x.iter().all(|other| *other <= x[label]))
            .collect();
        let right = counted.iter().filter(|right| **right).count();
        Ok(right as f64 / counted.len().max(1) as f64)
    }
}

impl Trainer {
    /// What the model gives to its objective for all rows of a batch; the same on every rank. Collective.
    ///
    /// # Cost
    /// A forward pass. Each output's features are gathered, and the values travel from the hosts of the last stage to all
    /// ranks: meant for what a program reads or measures, such as class scores, not for large activations.
    /// # Errors
    /// [`Error::Parallel`] from layers and collectives, for an output whose first dim is not the rows, and on a device
    /// that holds no values.
    pub fn predict(&self, batch: &Batch) -> Result<Predictions> {
        let context = self.context();
        // Ranks of X and Y hold the same rows; the first of them reports these.
        let reports = context.index(Axis::X) == 0 && context.index(Axis::Y) == 0;
        let micro_batches = self.pipeline().evaluate(batch, |pass, _, wires| {
            let pieces = wires.into_iter();
            let pieces = pieces.map(|(name, x)| Piece::of(name.into_owned(), pass, &x));
            pieces.collect::<parallel::Result<Vec<_>>>()
        })?;
        let own: Vec<Piece> = micro_batches.into_iter().flatten().collect();
        let refuse =
            |error: postcard::Error| invalid(error.to_string(), "outputs that can be sent");
        let sent: &[Piece] = if reports { &own } else { &[] };
        let bytes = postcard::to_stdvec(sent).map_err(refuse)?;
        let mut pieces = Vec::new();
        for bytes in context.world().everyone().all_gather(&bytes)? {
            pieces.extend(postcard::from_bytes::<Vec<Piece>>(&bytes).map_err(refuse)?);
        }
        assembled(pieces, batch.num_rows)
    }
}

fn invalid(found: String, needed: impl Into<String>) -> Error {
    parallel::Error::invalid("predictions", found, needed.into()).into()
}

/// Some rows of an output.
#[derive(Serialize, Deserialize)]
struct Piece {
    name: String,
    rows: (usize, usize),
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Piece {
    fn of(name: String, pass: &Pass, x: &DTensor) -> parallel::Result<Piece> {
        let whole = x.whole("predictions")?;
        Ok(Piece {
            name,
            rows: (pass.rows().start, pass.rows().end),
            shape: whole.shape(),
            values: whole.tensor()?.to_f64()?,
        })
    }
}

// The pieces in the order of their rows, which together are the batch.
fn assembled(mut pieces: Vec<Piece>, num_rows: usize) -> Result<Predictions> {
    pieces.sort_by_key(|piece| piece.rows);
    let mut outputs: BTreeMap<String, Output> = BTreeMap::new();
    for piece in pieces {
        let (name, rows) = (piece.name, piece.rows.0..piece.rows.1);
        let Some((_, row_shape)) = piece
            .shape
            .split_first()
            .filter(|(first, _)| **first == rows.len())
        else {
            let shape = piece.shape;
            let found = format!("output `{name}` of shape {shape:?}");
            return Err(invalid(found, format!("rows {rows:?} as its first dim")));
        };
        let output = outputs.entry(name).or_insert_with(|| Output {
            row_shape: row_shape.to_vec(),
            values: Vec::with_capacity(num_rows * row_shape.iter().product::<usize>()),
        });
        output.values.extend(piece.values);
    }
    for (name, output) in &outputs {
        let (found, row) = (
            output.values.len(),
            output.row_shape.iter().product::<usize>(),
        );
        if found != num_rows * row {
            let found = format!("{found} values of output `{name}`");
            return Err(invalid(found, format!("{num_rows} rows of {row}")));
        }
    }
    Ok(Predictions(outputs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(name: &str, rows: (usize, usize), shape: &[usize]) -> Piece {
        let (first, count) = (rows.0 * 10, shape.iter().product::<usize>());
        Piece {
            name: name.into(),
            rows,
            shape: shape.to_vec(),
            values: (first..first + count).map(|value| value as f64).collect(),
        }
    }

    #[test]
    fn pieces_come_together_in_the_order_of_their_rows() {
        let pieces = vec![
            piece("b", (1, 3), &[2, 2]),
            piece("a", (0, 3), &[3]),
            piece("b", (0, 1), &[1, 2]),
        ];
        let found = assembled(pieces, 3).unwrap();
        assert_eq!(found.names().collect::<Vec<_>>(), ["a", "b"]);
        let b = found.output("b").unwrap();
        assert_eq!(b.row_shape, [2]);
        assert_eq!(b.values, [0.0, 1.0, 10.0, 11.0, 12.0, 13.0]);
        let text = found.output("c").unwrap_err().to_string();
        assert!(text.contains("`c`") && text.contains("a, b"), "{text}");
        let text = assembled(vec![piece("a", (0, 2), &[3])], 2).unwrap_err();
        assert!(text.to_string().contains("rows 0..2"), "{text}");
        let text = assembled(vec![piece("a", (0, 2), &[2])], 3).unwrap_err();
        assert!(text.to_string().contains("3 rows of 1"), "{text}");
    }

    #[test]
    fn accuracy_counts_labels_that_name_a_feature() {
        let values = vec![0.1, 0.9, 0.8, 0.2, 0.4, 0.6];
        let output = Output {
            row_shape: vec![2],
            values,
        };
        let found = Predictions(BTreeMap::from([("x".into(), output)]));
        assert_eq!(found.accuracy("x", [1, 0, 1]).unwrap(), 1.0);
        assert_eq!(found.accuracy("x", [1, 1, u32::MAX]).unwrap(), 0.5);
        let text = found.accuracy("x", [1]).unwrap_err().to_string();
        assert!(text.contains("1 labels") && text.contains("3"), "{text}");
    }
}
