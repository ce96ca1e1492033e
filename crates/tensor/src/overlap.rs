//! Whether concurrent work accesses disjoint memory.

use hal::{Error, RawSlice, Result};

/// Refuses pieces of memory if a written one shares a byte with another.
///
/// # Errors
/// [`Error::Invalid`] with the two that overlap.
pub(crate) fn disjoint(operation: &str, pieces: &mut Vec<(RawSlice, bool)>) -> Result<()> {
    pieces.retain(|(slice, _)| slice.len > 0);
    pieces.sort_unstable_by_key(|(slice, _)| slice.addr);
    // In the order of addresses, a piece must begin after the end of every written piece before it, and a
    // written piece after the end of all pieces before it.
    let (mut last, mut last_written): (Option<RawSlice>, Option<RawSlice>) = (None, None);
    for &(slice, written) in &*pieces {
        let before = if written { last } else { last_written };
        if let Some(before) = before.filter(|before| before.end() > slice.addr) {
            let found = format!(
                "{} elements of {} overlapping {} of {}",
                slice.len, slice.dtype, before.len, before.dtype
            );
            return Err(Error::invalid(
                operation,
                found,
                "what is written apart from all else",
            ));
        }
        let further = |known: &RawSlice| known.end() >= slice.end();
        if !last.as_ref().is_some_and(further) {
            last = Some(slice);
        }
        if written && !last_written.as_ref().is_some_and(further) {
            last_written = Some(slice);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::DType;

    fn check(pieces: &[(u64, usize, bool)]) -> bool {
        let slice = |addr, len| RawSlice {
            addr,
            len,
            dtype: DType::F32,
        };
        let mut pieces = pieces
            .iter()
            .map(|&(addr, len, written)| (slice(addr, len), written))
            .collect();
        disjoint("test", &mut pieces).is_ok()
    }

    #[test]
    fn only_reads_may_overlap() {
        assert!(check(&[(0, 4, false), (8, 4, false), (24, 2, true)]));
        assert!(!check(&[(0, 4, true), (8, 4, false)]));
        assert!(!check(&[(0, 4, false), (8, 4, true)]));
        assert!(!check(&[(0, 4, true), (0, 4, true)]));
        // A long piece that is read extends over a short written one to the next written one.
        assert!(!check(&[(0, 100, false), (400, 1, true), (8, 1, true)]));
        assert!(check(&[(0, 4, true), (8, 0, true), (16, 4, true)]));
    }
}
