//! Fields that both kinds of bodies have, in the types of the generator.

use super::{
    Refusal,
    fields::{Fields, shown},
};
use serde_json::Value;
use std::hash::{BuildHasher, Hasher, RandomState};
use train::generate::Sampling;

/// Of a chat: whether log-probabilities are returned, and beside them how many of the most likely tokens.
pub(super) fn likelihoods(fields: &mut Fields) -> Result<Option<usize>, Refusal> {
    let wanted = fields.flag("logprobs")?;
    match (wanted, fields.count("top_logprobs")?) {
        (true, count) => Ok(Some(count.unwrap_or(0))),
        (false, None | Some(0)) => Ok(None),
        (false, Some(count)) => {
            let found = format!("{count} without logprobs");
            let needed = "\"logprobs\": true beside it";
            Err(Refusal::field("top_logprobs", found, needed))
        }
    }
}

/// The most tokens to generate; the newer name counts before the older one.
pub(super) fn tokens(fields: &mut Fields) -> Result<Option<usize>, Refusal> {
    let older = fields.count("max_tokens")?;
    Ok(fields.count("max_completion_tokens")?.or(older))
}

/// How tokens are chosen, with the defaults of OpenAI.
pub(super) fn sampling(fields: &mut Fields) -> Result<Sampling, Refusal> {
    let sampling = Sampling {
        temperature: fields.number("temperature")?.unwrap_or(1.0),
        top_k: fields.count("top_k")?.unwrap_or(0),
        top_p: fields.number("top_p")?.unwrap_or(1.0),
        min_p: fields.number("min_p")?.unwrap_or(0.0),
        repetition_penalty: fields.number("repetition_penalty")?.unwrap_or(1.0),
        seed: match fields.value("seed") {
            Some(seed) => seed
                .as_i64()
                .map(|seed| seed as u64)
                .or(seed.as_u64())
                .ok_or_else(|| Refusal::field("seed", shown(&seed), "an integer"))?,
            // Each such request draws anew.
            None => RandomState::new().build_hasher().finish(),
        },
    };
    sampling.check()?;
    Ok(sampling)
}

/// The strings that end a text.
pub(super) fn stop(fields: &mut Fields) -> Result<Vec<String>, Refusal> {
    match fields.value("stop") {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text]),
        Some(other) => serde_json::from_value(other.clone())
            .map_err(|_| Refusal::field("stop", shown(&other), "a string or a list of strings")),
    }
}

/// Whether a stream ends with counts.
pub(super) fn include_usage(fields: &mut Fields) -> Result<bool, Refusal> {
    let Some(found) = fields.value("stream_options") else {
        return Ok(false);
    };
    let needed = "an object with include_usage";
    let refuse = || Refusal::field("stream_options", shown(&found), needed);
    let options = found.as_object().ok_or_else(refuse)?;
    // The other option pads pieces to equal lengths; without it they say the same.
    let is_known = |name: &String| matches!(&**name, "include_usage" | "include_obfuscation");
    match options.keys().all(is_known) {
        true => match options.get("include_usage") {
            Some(Value::Bool(wanted)) => Ok(*wanted),
            None | Some(Value::Null) => Ok(false),
            Some(_) => Err(refuse()),
        },
        false => Err(refuse()),
    }
}
