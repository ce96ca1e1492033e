//! The one rule that cuts a length into shards.

use hal::sums;
use std::ops::Range;

/// The part of `0..len` that shard `index` of `num_shards` holds.
///
/// Shards are contiguous and in order; the first `len % num_shards` of them hold one element more than the others.
///
/// # Panics
/// When `index` is not below `num_shards`.
///
/// ```
/// use fascicle_grid::shard_range;
/// assert_eq!([0, 1, 2].map(|index| shard_range(10, 3, index)), [0..4, 4..7, 7..10]);
/// ```
pub fn shard_range(len: usize, num_shards: usize, index: usize) -> Range<usize> {
    assert!(
        index < num_shards,
        "shard_range: a bug: found shard {index}, needs less than {num_shards}"
    );
    let (size, larger) = (len / num_shards, len % num_shards);
    let start = index * size + index.min(larger);
    start..start + size + usize::from(index < larger)
}

/// The part of `0..len` features, or of the rows of a table, that shard `index` of `num_shards` holds.
///
/// Shards are equal if their number divides the length. Otherwise they end at leaves of the sums over this length
/// ([`hal::sums::leaf`]), of which the first shards hold one more than the others, so that every shard is a set of
/// complete nodes of such a sum.
///
/// # Panics
/// As [`shard_range`].
///
/// ```
/// use fascicle_grid::feature_range;
/// assert_eq!([0, 1, 2].map(|index| feature_range(48, 3, index)), [0..16, 16..32, 32..48]);
/// assert_eq!([0, 1, 2].map(|index| feature_range(100, 3, index)), [0..36, 36..68, 68..100]);
/// ```
pub fn feature_range(len: usize, num_shards: usize, index: usize) -> Range<usize> {
    let leaf = sums::leaf(len);
    let leaves = len.div_ceil(leaf);
    if len.is_multiple_of(num_shards.max(1)) || leaves < num_shards {
        return shard_range(len, num_shards, index);
    }
    let shard = shard_range(leaves, num_shards, index);
    shard.start * leaf..len.min(shard.end * leaf)
}

/// The shard that holds `position` of `0..len`: the inverse of [`shard_range`].
///
/// # Panics
/// When `position` is not below `len`, or there are no shards.
pub fn shard_index(len: usize, num_shards: usize, position: usize) -> usize {
    assert!(
        position < len && num_shards > 0,
        "shard_index: a bug: found position {position} of {len} in {num_shards} shards"
    );
    let (size, larger) = (len / num_shards, len % num_shards);
    let boundary = larger * (size + 1);
    if position < boundary {
        position / (size + 1)
    } else {
        larger + (position - boundary) / size
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shards_partition_the_length(len in 0_usize..200, num_shards in 1_usize..40) {
            let ranges: Vec<_> = (0..num_shards).map(|index| shard_range(len, num_shards, index)).collect();
            let joined: Vec<usize> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(joined, (0..len).collect::<Vec<_>>());
            let sizes: Vec<_> = ranges.iter().map(Range::len).collect();
            prop_assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes[0] - sizes[num_shards - 1] <= 1);
            prop_assert_eq!(sizes.iter().filter(|size| **size > len / num_shards).count(), len % num_shards);
        }

        #[test]
        fn the_shard_of_a_position_holds_it(len in 1_usize..200, num_shards in 1_usize..40, at in 0_usize..200) {
            let position = at % len;
            let index = shard_index(len, num_shards, position);
            prop_assert!(shard_range(len, num_shards, index).contains(&position));
        }
    }

    #[test]
    #[should_panic(expected = "found shard 3, needs less than 3")]
    fn a_shard_that_is_not_there_is_a_bug() {
        shard_range(10, 3, 3);
    }
}
