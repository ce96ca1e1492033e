//! Differences as tables for people.

use super::{Description, DiffReport, ScalarDiff, TensorDiff, Unmatched};
use crate::table::table;
use std::fmt;

impl DiffReport {
    /// The differences in one sentence.
    pub fn sentence(&self) -> String {
        let (a, b) = (self.paths.a.display(), self.paths.b.display());
        let compared = self.num_compared;
        if self.equal {
            return format!("{a} and {b} are equal bit for bit ({compared} tensors)");
        }
        let parts = [
            (self.scalars.len(), "numbers of the trainer".to_owned()),
            (
                self.tensors.len(),
                format!("of {compared} tensors in their elements"),
            ),
            (
                self.unmatched.len(),
                "tensors without a counterpart of the same type and shape".to_owned(),
            ),
        ];
        let found = parts.into_iter().filter(|(count, _)| *count > 0);
        let found: Vec<_> = found
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        format!("{a} and {b} differ: {}", found.join(", "))
    }
}

impl fmt::Display for DiffReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.equal {
            return writeln!(f, "{}", self.sentence());
        }
        writeln!(f, "A  {}", self.paths.a.display())?;
        writeln!(f, "B  {}", self.paths.b.display())?;
        section(f, ["number", "A", "B"], &self.scalars, scalar_row)?;
        let titles = [
            "tensor",
            "differing",
            "first at",
            "A",
            "B",
            "largest difference",
            "file of A",
            "file of B",
        ];
        section(f, titles, &self.tensors, tensor_row)?;
        section(f, ["tensor", "A", "B"], &self.unmatched, unmatched_row)
    }
}

/// A table, if it has rows.
fn section<T, const N: usize>(
    f: &mut fmt::Formatter<'_>,
    titles: [&str; N],
    items: &[T],
    row: fn(&T) -> [String; N],
) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    let titles = [titles.map(str::to_owned)];
    table(f, titles.into_iter().chain(items.iter().map(row)))
}

fn scalar_row(ScalarDiff { name, values }: &ScalarDiff) -> [String; 3] {
    [
        (*name).to_owned(),
        or_missing(values.a.as_ref()),
        or_missing(values.b.as_ref()),
    ]
}

fn tensor_row(tensor: &TensorDiff) -> [String; 8] {
    let (first, elements) = (&tensor.first, &tensor.first.elements);
    [
        tensor.name.clone(),
        format!("{} of {}", tensor.num_differing, tensor.num_elements),
        format!("{:?}", first.index),
        elements.a.text.clone(),
        elements.b.text.clone(),
        format!("{:.3e}", tensor.largest_difference),
        elements.a.file.clone(),
        elements.b.file.clone(),
    ]
}

fn unmatched_row(Unmatched { name, descriptions }: &Unmatched) -> [String; 3] {
    [
        name.clone(),
        or_missing(descriptions.a.as_ref()),
        or_missing(descriptions.b.as_ref()),
    ]
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

fn or_missing(value: Option<&impl fmt::Display>) -> String {
    value.map_or_else(|| "missing".to_owned(), ToString::to_string)
}
