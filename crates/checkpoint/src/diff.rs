//! Where two checkpoints differ, whatever grids wrote them.

mod compare;
mod report;

use crate::{
    Reader, Result, TensorInfo,
    scalar::{Scalar, ScalarValue, with_step},
};
use compare::compare;
use serde::Serialize;
use std::{collections::BTreeSet, path::PathBuf};

/// One value of each of two checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair<T> {
    /// That of the first.
    pub a: T,
    /// That of the second.
    pub b: T,
}

/// The differences between two checkpoints. Displays as text for people and serialises for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffReport {
    /// Their folders.
    pub paths: Pair<PathBuf>,
    /// Whether they hold the same state bit for bit, and so have the same [`digest`](fn@crate::digest).
    pub equal: bool,
    /// Number of tensors of which both have one with the same name, type and shape.
    pub num_compared: usize,
    /// Scalars that differ; `None` where one side has none of that name.
    pub scalars: Vec<ScalarDiff>,
    /// Tensors whose elements differ, by name.
    pub tensors: Vec<TensorDiff>,
    /// Tensors that only one side has, or that have another type or shape, by name.
    pub unmatched: Vec<Unmatched>,
}

/// A scalar that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScalarDiff {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    #[serde(flatten)]
    pub values: Pair<Option<ScalarValue>>,
}

/// A tensor whose elements differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorDiff {
    /// Its name.
    pub name: String,
    /// Number of its elements.
    pub num_elements: u64,
    /// Number of elements with other bits.
    pub num_differing: u64,
    /// The first of these in row-major order.
    pub first: FirstDifference,
    /// The largest absolute difference, in f64; NaN, which JSON writes as `null`, if one of the elements is NaN.
    pub largest_difference: f64,
}

/// The first element that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FirstDifference {
    /// Its global index.
    pub index: Vec<usize>,
    /// What each side holds there.
    #[serde(flatten)]
    pub elements: Pair<StoredElement>,
}

/// An element and its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredElement {
    /// Its value; JSON writes `null` if it is not finite.
    pub value: f64,
    /// Its value as the shortest decimal that leads back to it; NaN with its bits.
    pub text: String,
    /// Its bits in hexadecimal.
    pub bits: String,
    /// The file that stores it. Its number is the rank that wrote it.
    pub file: String,
}

/// A tensor that cannot be compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unmatched {
    /// Its name.
    pub name: String,
    /// Its description on each side; `None` where there is no such tensor.
    #[serde(flatten)]
    pub descriptions: Pair<Option<Description>>,
}

/// Type and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// The type of its elements.
    pub dtype: &'static str,
    /// Its global shape.
    pub shape: Vec<usize>,
}

/// Compares the steps, these scalars and all tensors of two checkpoints, bit for bit.
///
/// It compares what [`digest`](fn@crate::digest) covers. Memory holds a slab of 16 MiB of each side and a window of 1 MiB of
/// one file at a time. Stored checksums are not compared, so damage appears as a difference.
///
/// # Errors
/// [`Error::Damaged`](crate::Error::Damaged) or [`Error::Io`](crate::Error::Io) if a file has disappeared or shrunk since its
/// checkpoint was opened.
pub fn diff(readers: [&Reader; 2], scalars: [&[Scalar]; 2]) -> Result<DiffReport> {
    let [a, b] = readers;
    let names: BTreeSet<&str> = a.names().chain(b.names()).collect();
    let (mut num_compared, mut tensors, mut unmatched) = (0, Vec::new(), Vec::new());
    for name in names {
        let descriptions = [a, b].map(|reader| reader.info(name).ok().map(Description::of));
        match descriptions {
            [Some(one), Some(other)] if one == other => {
                num_compared += 1;
                tensors.extend(compare(readers, name)?);
            }
            [one, other] => unmatched.push(Unmatched {
                name: name.to_owned(),
                descriptions: Pair { a: one, b: other },
            }),
        }
    }
    let scalars = differing(with_step(a, scalars[0]), with_step(b, scalars[1]));
    Ok(DiffReport {
        paths: Pair {
            a: a.path().to_owned(),
            b: b.path().to_owned(),
        },
        equal: scalars.is_empty() && tensors.is_empty() && unmatched.is_empty(),
        num_compared,
        scalars,
        tensors,
        unmatched,
    })
}

impl Description {
    fn of(info: &TensorInfo) -> Description {
        Description {
            dtype: info.dtype.name(),
            shape: info.global_shape.clone(),
        }
    }
}

fn differing(a: Vec<Scalar>, b: Vec<Scalar>) -> Vec<ScalarDiff> {
    let value = |scalars: &[Scalar], name| {
        let mut named = scalars.iter().filter(|scalar| scalar.name == name);
        named.next().map(|scalar| scalar.value)
    };
    let only_b = b.iter().filter(|scalar| value(&a, scalar.name).is_none());
    let names = a.iter().chain(only_b).map(|scalar| scalar.name);
    let pairs = names.map(|name| ScalarDiff {
        name,
        values: Pair {
            a: value(&a, name),
            b: value(&b, name),
        },
    });
    let bits = |value: Option<ScalarValue>| value.map(|value| (value.dtype(), value.bytes()));
    pairs
        .filter(|ScalarDiff { values, .. }| bits(values.a) != bits(values.b))
        .collect()
}
