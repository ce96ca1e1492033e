//! What a column holds for one row: a number, or an array of them.

use super::Values;

/// The value that one row has in a column: a number, or an array of values. Its type gives the column's shape.
pub trait RowValue {
    /// The type of the numbers.
    type Number;

    /// The shape of a row: of a number none, of an array its length and then the shape of its elements.
    fn shape() -> Vec<usize>;

    /// Appends the numbers, in row-major order.
    fn append_to(self, numbers: &mut Vec<Self::Number>);
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl RowValue for $number {
            type Number = $number;

            fn shape() -> Vec<usize> {
                Vec::new()
            }

            fn append_to(self, numbers: &mut Vec<$number>) {
                numbers.push(self);
            }
        })*
    };
}

numbers!(f32, f64, u32);

impl<V: RowValue, const N: usize> RowValue for [V; N] {
    type Number = V::Number;

    fn shape() -> Vec<usize> {
        [vec![N], V::shape()].concat()
    }

    fn append_to(self, numbers: &mut Vec<V::Number>) {
        self.into_iter().for_each(|value| value.append_to(numbers));
    }
}

/// The values of all these rows, one behind the other.
pub(super) fn collected<V: RowValue>(rows: impl Iterator<Item = V>) -> Values
where
    Vec<V::Number>: Into<Values>,
{
    let mut numbers = Vec::new();
    rows.for_each(|row| row.append_to(&mut numbers));
    numbers.into()
}
