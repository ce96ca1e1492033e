//! What makes two tokenizers the same.

use sha2::{Digest, Sha256};

use super::{Tokenizer, TokenizerKind};

/// Bytes of a hash that are enough to tell tokenizers apart.
const BYTES: usize = 16;

impl Tokenizer {
    /// A text that is the same for tokenizers that give every text the same tokens by the same tables: the beginning of the
    /// SHA-256 of their kind and content. Names, and templates of chats, do not matter.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        match &self.kind {
            TokenizerKind::Bytes => hash.update("bytes"),
            TokenizerKind::Characters(table) => {
                hash.update("characters:");
                hash.update(table.text());
            }
            TokenizerKind::Json(json) => {
                hash.update("json:");
                hash.update(json.content());
            }
            TokenizerKind::Ids { vocabulary_size } => hash.update(format!("ids:{vocabulary_size}")),
        }
        let hex = |byte: &u8| format!("{byte:02x}");
        hash.finalize().iter().take(BYTES).map(hex).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        let table = |text: &str| Tokenizer::characters(&[text.to_owned()]).fingerprint();
        assert_eq!(table("abba"), table("ab"));
        let all = [
            Tokenizer::bytes().fingerprint(),
            table("ab"),
            table("abc"),
            Tokenizer::ids(256).fingerprint(),
            Tokenizer::ids(257).fingerprint(),
        ];
        for (index, one) in all.iter().enumerate() {
            assert_eq!(one.len(), 32);
            assert!(!all[index + 1..].contains(one));
        }
    }
}
