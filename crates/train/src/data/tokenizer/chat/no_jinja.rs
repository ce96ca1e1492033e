//! Replaces `jinja` in a build without the feature `tokenizers`, and refuses every template.

use serde_json::Value;

/// No value of this type exists, so its methods are never called.
pub(super) struct Compiled(std::convert::Infallible);

impl Compiled {
    pub(super) fn new(_template: &str) -> Result<Compiled, String> {
        Err("found a build without the feature `tokenizers`, needs one with it: cargo build --features tokenizers".into())
    }

    pub(super) fn render(&self, _known: Value) -> Result<String, String> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_names_the_feature() {
        let refused = Compiled::new("").map(drop).unwrap_err();
        assert!(
            refused.ends_with("cargo build --features tokenizers"),
            "{refused}"
        );
    }
}
