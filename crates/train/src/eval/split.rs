//! Where the tokens of a continuation begin.

use crate::{Error, Result, data::Tokenizer};

/// The tokens of `context` and of `continuation`, which are not empty.
///
/// The two are encoded as one text, and the tokens of the context alone are cut off. White space at the end of the context
/// belongs to the continuation first, because learnt vocabularies join it to the word that follows. An empty context, or one of
/// white space alone, stands for `prefix`.
///
/// # Errors
/// Those of the tokenizer; [`Error::Setting`] if the context has all tokens of both, and if it is empty without a `prefix`.
pub fn split(
    tokenizer: &Tokenizer,
    context: &str,
    continuation: &str,
    prefix: Option<u32>,
) -> Result<(Vec<u32>, Vec<u32>)> {
    let (own, space) = context.split_at(context.trim_end().len());
    let given = match (own.is_empty(), prefix) {
        (false, _) => tokenizer.encode(own)?,
        (true, Some(prefix)) => vec![prefix],
        (true, None) => {
            let needed = "some, or a token that stands before every text";
            return Err(Error::setting("context", "no text", needed));
        }
    };
    let whole = tokenizer.encode(&format!("{own}{space}{continuation}"))?;
    let skipped = if own.is_empty() { 0 } else { given.len() };
    match whole.get(skipped..) {
        Some(rest) if !rest.is_empty() => Ok((given, rest.to_vec())),
        _ => Err(Error::setting(
            "continuation",
            format!("{} tokens with its context, {skipped} without", whole.len()),
            "at least 1 of its own",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(context: &str, continuation: &str) -> (String, String) {
        let tokenizer = Tokenizer::bytes();
        let (given, rest) = split(&tokenizer, context, continuation, Some(0)).unwrap();
        (tokenizer.decode(&given), tokenizer.decode(&rest))
    }

    #[test]
    fn white_space_moves_to_the_continuation() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(bytes("ab", " c"), pair("ab", " c"));
        assert_eq!(bytes("ab \n", "c"), pair("ab", " \nc"));
        assert_eq!(bytes("", "c"), pair("\0", "c"));
        assert_eq!(bytes(" ", "c"), pair("\0", " c"));
    }

    // Letters, with tokens for `ab` and for a space and `c`, which the library writes as `Ġ`.
    #[cfg(feature = "tokenizers")]
    const JOINED: &str = r#"{
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "decoder": null, "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "c": 3, "Ġc": 4, "ab": 5},
                  "merges": ["Ġ c", "a b"]}
    }"#;

    #[cfg(feature = "tokenizers")]
    #[test]
    fn a_space_is_joined_to_the_continuation_wherever_it_stands() {
        let tokenizer = Tokenizer::json("joined", JOINED).unwrap();
        for (context, continuation) in [("ab", " c"), ("ab ", "c")] {
            let found = split(&tokenizer, context, continuation, None).unwrap();
            assert_eq!(found, (vec![5], vec![4]), "{context:?}");
        }
        // The continuation begins within a token, which then belongs to the context.
        let error = split(&tokenizer, "a", "b", None).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("found 1 tokens with its context, 1 without")
        );
    }

    #[test]
    fn a_continuation_without_tokens_is_refused() {
        let numbers = Tokenizer::ids(10);
        let (given, rest) = split(&numbers, "1 2", " 3", None).unwrap();
        assert_eq!((&given[..], &rest[..]), (&[1, 2][..], &[3][..]));
        let error = split(&numbers, "1 2", " ", None).unwrap_err().to_string();
        assert_eq!(
            error,
            "continuation: found 2 tokens with its context, 2 without, needs at least 1 of its own"
        );
        let error = split(&numbers, " ", "1", None).unwrap_err().to_string();
        assert!(
            error.starts_with("context: found no text, needs some"),
            "{error}"
        );
    }
}
