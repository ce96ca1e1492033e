//! Whether all ranks have pushed the same gradients in the same order: a hash travels with each bucket.

use crate::AxisGroup;
use tensor::{DType, Error, Result, Tensor};

/// The names, lengths and types of a bucket, in the order in which they were pushed.
#[derive(Debug, Default)]
pub(crate) struct Order {
    text: String,
}

impl Order {
    /// Notes a gradient.
    pub(crate) fn push(&mut self, name: &str, length: usize, dtype: DType) {
        self.text += &format!("{name} ({length} of {dtype})\n");
    }

    /// Notes that the step ends with this bucket.
    pub(crate) fn end(&mut self) {
        self.text += "the end of the step\n";
    }

    /// Two numbers and their complements: the largest of all ranks are this rank's own only if all ranks have the same.
    pub(crate) fn numbers(&self) -> [u32; 4] {
        // FNV-1a, 64 bits (Fowler, Noll and Vo): mistakes are to be found, not attacks.
        let hash = self
            .text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        let (high, low) = ((hash >> 32) as u32, hash as u32);
        [high, low, !high, !low]
    }

    /// Compares with the other ranks, after the largest numbers of all have arrived.
    ///
    /// Ranks that differ all find it, and exchange what they have pushed for the message.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the first difference; those of the exchange.
    pub(crate) fn check(&self, group: &AxisGroup, largest: &Tensor) -> Result<()> {
        if largest.to_vec::<u32>()? == self.numbers() {
            return Ok(());
        }
        let all = group
            .exchange("order of gradients")?
            .all_gather(self.text.as_bytes())?;
        let lines = |rank: usize| {
            let text = String::from_utf8_lossy(&all[rank]).into_owned();
            text.lines().map(str::to_owned).collect::<Vec<String>>()
        };
        let own = lines(group.rank());
        let found = (0..all.len()).map(|rank| (rank, lines(rank)));
        let other = found.into_iter().find(|(_, theirs)| *theirs != own);
        let Some((rank, theirs)) = other else {
            let found = "hashes that differ though the names do not";
            return Err(Error::invalid("gradients", found, "one order on all ranks"));
        };
        let same = own.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        let at = |lines: &[String]| lines.get(same).cloned().unwrap_or("nothing more".into());
        Err(Error::invalid(
            format!("gradient {} of a bucket", same + 1),
            format!(
                "{} on rank {} and {} on rank {rank} of the group",
                at(&own),
                group.rank(),
                at(&theirs)
            ),
            "the same on every rank: all push the same gradients in the same order",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(gradients: &[(&str, usize)]) -> [u32; 4] {
        let mut order = Order::default();
        for (name, length) in gradients {
            order.push(name, *length, DType::F32);
        }
        order.numbers()
    }

    #[test]
    fn another_order_name_or_length_is_another_hash() {
        let one = order(&[("a", 1), ("b", 2)]);
        for other in [
            order(&[("b", 2), ("a", 1)]),
            order(&[("a", 1), ("c", 2)]),
            order(&[("a", 1), ("b", 3)]),
            order(&[("a", 1)]),
        ] {
            assert_ne!(one, other);
            // The largest of both differs from both.
            let largest: Vec<u32> = one.iter().zip(other).map(|(&a, b)| a.max(b)).collect();
            assert!(largest != one && largest != other);
        }
        assert_eq!(one, order(&[("a", 1), ("b", 2)]));
    }

    #[test]
    fn the_end_of_a_step_counts() {
        let (mut one, other) = (Order::default(), Order::default());
        one.end();
        assert_ne!(one.numbers(), other.numbers());
    }
}
