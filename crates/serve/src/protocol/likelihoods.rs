//! Log-probabilities in the two shapes that clients read.

use serde_json::{Map, Value, json};
use train::{data::Tokenizer, generate::Generated};

/// Those of a completion's tokens. `offset` is the number of letters before the first one, and moves behind the last one.
pub(super) fn of_completion(
    tokens: &[Generated],
    tokenizer: &Tokenizer,
    offset: &mut usize,
) -> Value {
    let (mut texts, mut own) = (Vec::new(), Vec::new());
    let (mut top, mut offsets) = (Vec::new(), Vec::new());
    for token in tokens {
        let text = tokenizer.decode(&[token.token]);
        offsets.push(*offset);
        *offset += text.chars().count();
        texts.push(text);
        own.push(token.log_probability);
        let mut likeliest = Map::new();
        for (id, log_probability) in &token.likeliest {
            // Tokens of incomplete characters have one text; the most likely of them comes first.
            let text = tokenizer.decode(&[*id]);
            likeliest.entry(text).or_insert(json!(log_probability));
        }
        top.push(likeliest);
    }
    json!({"tokens": texts, "token_logprobs": own, "top_logprobs": top, "text_offset": offsets})
}

/// Those of a chat's tokens.
pub(super) fn of_chat(tokens: &[Generated], tokenizer: &Tokenizer) -> Value {
    let described = |id: u32, log_probability: Option<f64>| {
        let text = tokenizer.decode(&[id]);
        json!({"token": text, "logprob": log_probability, "bytes": text.as_bytes()})
    };
    let content = tokens.iter().map(|token| {
        let mut content = described(token.token, token.log_probability);
        let likeliest = token.likeliest.iter();
        let top = likeliest.map(|(id, log_probability)| described(*id, Some(*log_probability)));
        content["top_logprobs"] = top.collect();
        content
    });
    json!({"content": content.collect::<Vec<_>>(), "refusal": null})
}
