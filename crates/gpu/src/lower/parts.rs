//! Parts of a row, and the order in which they are joined to the node of the full row. C++: `parts.h`.

use hal::{Error, Result, sums};

/// The most parts of a row.
pub(super) const MOST_PARTS: usize = 512;

/// How a thread joins the parts of a row.
pub(super) struct PartJoins {
    /// How many of the nodes that wait are joined with each part.
    pub(super) counts: [u8; MOST_PARTS],
    /// The most nodes that wait at a time.
    pub(super) depth: usize,
}

impl PartJoins {
    /// # Errors
    /// [`Error::Invalid`] for more parts than a launch takes.
    pub(super) fn new(operation: &str, widths: &[usize]) -> Result<PartJoins> {
        if widths.len() > MOST_PARTS {
            let found = format!("{} parts of a row", widths.len());
            return Err(Error::invalid(
                operation,
                found,
                format!("at most {MOST_PARTS}"),
            ));
        }
        let (mut counts, mut depth) = ([0; MOST_PARTS], 0);
        let mut tree = sums::Tree::default();
        for (part, &columns) in widths.iter().enumerate() {
            // A node counts the parts in it. Those that wait are the left ones of its joins.
            tree.push(sums::level(columns), 1, |left, right| {
                counts[part] += 1;
                left + right
            });
            depth = depth.max(part - counts[..part].iter().map(|&n| n as usize).sum::<usize>());
        }
        if let Some(last) = widths.len().checked_sub(1) {
            tree.sum(|left, right| {
                counts[last] += 1;
                left + right
            });
        }
        Ok(PartJoins { counts, depth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(widths: &[usize]) -> (Vec<u8>, usize) {
        let joins = PartJoins::new("norm_combine", widths).unwrap();
        (joins.counts[..widths.len()].to_vec(), joins.depth)
    }

    #[test]
    fn halves_are_joined_as_soon_as_both_are_there() {
        assert_eq!(of(&[64]), (vec![0], 0));
        assert_eq!(of(&[32, 32, 32, 32]), (vec![0, 1, 0, 2], 2));
        // Three ranks, the last of which holds a shorter leaf.
        assert_eq!(of(&[64, 32, 32, 64, 20]), (vec![0, 0, 2, 0, 2], 2));
        assert_eq!(of(&[]), (vec![], 0));
    }

    #[test]
    fn too_many_parts_are_refused() {
        let error = PartJoins::new("norm_combine", &[1; 513]).err().unwrap();
        let text = "norm_combine: 513 parts of a row, needs at most 512";
        assert_eq!(error.to_string(), text);
    }
}
