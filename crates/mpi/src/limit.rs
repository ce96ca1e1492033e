//! The longest message; longer ones are split.

use hal::{Error, Result, environment::table::LONGEST_MESSAGE};

/// MPI counts in 32 bits.
const MOST: usize = 1 << 30;
/// With shorter messages, most of the traffic would be headers.
const LEAST: usize = 64;

/// The requested number, or the maximum.
///
/// # Errors
/// [`Error::Invalid`] if it is not a number of bytes, or out of bounds.
pub(crate) fn longest_bytes(asked: Option<String>) -> Result<usize> {
    let Some(text) = asked else { return Ok(MOST) };
    let parsed = text
        .trim()
        .parse()
        .ok()
        .filter(|bytes| (LEAST..=MOST).contains(bytes));
    parsed.ok_or_else(|| {
        Error::invalid(
            LONGEST_MESSAGE.name,
            text,
            format!("{LEAST} to {MOST} bytes"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_message_is_a_number_in_bounds() {
        let of = |text: &str| longest_bytes(Some(text.into())).ok();
        assert_eq!(
            (longest_bytes(None).ok(), of("4096")),
            (Some(1 << 30), Some(4096))
        );
        assert_eq!([of("63"), of("1073741825"), of("1 MiB")], [None; 3]);
    }
}
