//! Differences as tables for people.

use super::{Description, DiffReport, Pair, ScalarDiff, TensorDiff, Unmatched};
use crate::table::table;
use hal::error::{Counted, Grouped};
use std::fmt;

impl DiffReport {
    /// The differences in one sentence.
    pub fn sentence(&self) -> String {
        let (a, b) = (self.paths.a.display(), self.paths.b.display());
        let compared = self.num_compared;
        match self.equal {
            true => format!(
                "{a} and {b} are equal bit for bit ({})",
                Counted(compared, "tensor")
            ),
            false => format!("{a} and {b} differ: {}", self.counts()),
        }
    }

    /// How much differs, as in `3 of 44 tensors in their elements`; empty if nothing does.
    pub fn counts(&self) -> String {
        let compared = self.num_compared;
        let parts = [
            (self.scalars.len(), "numbers of the trainer".to_owned()),
            (
                self.tensors.len(),
                format!("of {} in their elements", Counted(compared, "tensor")),
            ),
            (
                self.unmatched.len(),
                "tensors without a counterpart of the same type and shape".to_owned(),
            ),
        ];
        let found = parts.into_iter().filter(|(count, _)| *count > 0);
        let found: Vec<_> = found
            .map(|(count, what)| format!("{} {what}", Grouped(count as u64)))
            .collect();
        found.join(", ")
    }

    /// The first difference with what each side holds: of a tensor, if any differs.
    pub fn first(&self) -> Option<(String, Pair<String>)> {
        let named = |name: &str, [a, b]: [String; 2]| (name.to_owned(), Pair { a, b });
        let tensor = self.tensors.first().map(|TensorDiff { name, first, .. }| {
            let Pair { a, b } = &first.elements;
            let place = format!("{name} at {:?}", first.index);
            named(&place, [a.text.clone(), b.text.clone()])
        });
        let unmatched = || {
            self.unmatched
                .first()
                .map(|row| named(&row.name, sides(&row.descriptions)))
        };
        let scalar = || {
            self.scalars
                .first()
                .map(|row| named(row.name, sides(&row.values)))
        };
        tensor.or_else(unmatched).or_else(scalar)
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
    let [a, b] = sides(values);
    [(*name).to_owned(), a, b]
}

fn tensor_row(tensor: &TensorDiff) -> [String; 8] {
    let (first, elements) = (&tensor.first, &tensor.first.elements);
    [
        tensor.name.clone(),
        format!(
            "{} of {}",
            Grouped(tensor.num_differing),
            Grouped(tensor.num_elements)
        ),
        format!("{:?}", first.index),
        elements.a.text.clone(),
        elements.b.text.clone(),
        format!("{:.3e}", tensor.largest_difference),
        elements.a.file.clone(),
        elements.b.file.clone(),
    ]
}

fn unmatched_row(Unmatched { name, descriptions }: &Unmatched) -> [String; 3] {
    let [a, b] = sides(descriptions);
    [name.clone(), a, b]
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

fn sides<T: fmt::Display>(pair: &Pair<Option<T>>) -> [String; 2] {
    [&pair.a, &pair.b].map(|value| match value {
        Some(value) => value.to_string(),
        None => "missing".to_owned(),
    })
}
