//! A body as requests of the generator.

use super::{
    Refusal,
    fields::{Fields, shown},
    messages,
};
use crate::{Limits, Served};
use serde_json::Value;
use std::hash::{BuildHasher, Hasher, RandomState};
use train::generate::{Request, Sampling};

/// The most answers to one prompt.
const MOST_CHOICES: usize = 128;
/// The tokens of a completion that asks for no number, as clients know it from OpenAI.
const TOKENS: usize = 16;

/// What a body is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `/v1/completions`
    Completions,
    /// `/v1/chat/completions`
    Chat,
}

/// What a client asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) endpoint: Endpoint,
    /// The sequences: all answers to the first prompt, then those to the next.
    pub(crate) requests: Vec<Request>,
    /// The text before each of them, if the answer repeats it.
    pub(crate) echo: Vec<String>,
    /// Tokens of all prompts, each counted once.
    pub(crate) prompt_tokens: usize,
    /// Whether pieces are sent as they come, and counts after them.
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
}

impl Asked {
    /// Reads a body.
    ///
    /// # Errors
    /// For the first field that cannot be, or cannot be honoured.
    pub(crate) fn read(
        endpoint: Endpoint,
        body: &[u8],
        (served, limits): (&Served, &Limits),
    ) -> Result<Asked, Refusal> {
        let mut fields = Fields::parse(body)?;
        model(&mut fields, served)?;
        let (prompts, log_probabilities, echoes) = match endpoint {
            Endpoint::Completions => {
                let prompts = prompts(&mut fields, served)?;
                let logprobs = fields.count("logprobs")?;
                (prompts, logprobs, fields.flag("echo")?)
            }
            Endpoint::Chat => {
                let prompt = chat(&mut fields, served)?;
                (vec![prompt], likelihoods(&mut fields)?, false)
            }
        };
        let tokens = tokens(&mut fields)?;
        let choices = fields.count("n")?.unwrap_or(1);
        if !(1..=MOST_CHOICES).contains(&choices) {
            return Err(Refusal::field("n", choices, "a number from 1 to 128"));
        }
        let (all, most) = (choices * prompts.len(), limits.running + limits.waiting);
        if all > most {
            let found = format!("{} prompts with n = {choices}", prompts.len());
            let needed = format!("at most {most} answers in all");
            return Err(Refusal::field("prompt", found, &needed));
        }
        let (sampling, stop) = (sampling(&mut fields)?, stop(&mut fields)?);
        let stream = fields.flag("stream")?;
        let include_usage = include_usage(&mut fields)?;
        fields.finish()?;
        let mut request = Request {
            prompt: Vec::new(),
            tokens: 1,
            sampling,
            stop,
            end: None,
            log_probabilities,
        };
        if endpoint == Endpoint::Chat {
            request = request.answering(messages::template(served)?, &served.tokenizer)?;
        }
        request.end = request.end.or_else(|| served.tokenizer.document_end());
        let mut asked = Asked {
            endpoint,
            requests: Vec::new(),
            echo: Vec::new(),
            prompt_tokens: prompts.iter().map(Vec::len).sum(),
            stream,
            include_usage,
        };
        for prompt in prompts {
            let room = room(prompt.len(), (tokens, endpoint), limits)?;
            let request = Request {
                prompt,
                tokens: room,
                ..request.clone()
            };
            request.check(served.vocabulary)?;
            asked.add(&request, (choices, echoes), served);
        }
        if echoes && log_probabilities.is_some() {
            let message =
                "echo: this server has no log-probabilities of a prompt; leave out logprobs";
            return Err(Refusal::invalid(message).about("echo").code("unsupported"));
        }
        Ok(asked)
    }

    // Adds the answers to a prompt: each draws by a seed of its own.
    fn add(&mut self, request: &Request, (choices, echoes): (usize, bool), served: &Served) {
        for _ in 0..choices {
            let mut request = request.clone();
            let seed = &mut request.sampling.seed;
            *seed = seed.wrapping_add(self.requests.len() as u64);
            self.echo.push(match echoes {
                true => served.tokenizer.decode(&request.prompt),
                false => String::new(),
            });
            self.requests.push(request);
        }
    }
}

fn model(fields: &mut Fields, served: &Served) -> Result<(), Refusal> {
    let asked: Option<String> = fields.take("model", "the name of a model")?;
    match asked {
        Some(name) if name != served.name => {
            let (found, serves) = (shown(&Value::String(name)), &served.name);
            let message =
                format!("model: found {found}, needs \"{serves}\", which this server has");
            Err(Refusal::new(404, message)
                .about("model")
                .code("model_not_found"))
        }
        _ => Ok(()),
    }
}

// A text, its tokens, or a list of either.
fn prompts(fields: &mut Fields, served: &Served) -> Result<Vec<Vec<u32>>, Refusal> {
    let needed = "a string, token ids, or a list of either";
    let found = fields
        .value("prompt")
        .ok_or_else(|| Refusal::field("prompt", "none", needed))?;
    let several = match &found {
        Value::Array(list) if !list.is_empty() && !list[0].is_number() => list.clone(),
        _ => vec![found],
    };
    let encode = |prompt: &Value| match prompt {
        Value::String(text) => {
            let encoded = served.tokenizer.encode(text);
            encoded.map_err(|error| Refusal::invalid(format!("prompt: {error}")).about("prompt"))
        }
        Value::Array(_) => serde_json::from_value(prompt.clone())
            .map_err(|_| Refusal::field("prompt", shown(prompt), needed)),
        _ => Err(Refusal::field("prompt", shown(prompt), needed)),
    };
    several.iter().map(encode).collect()
}

fn chat(fields: &mut Fields, served: &Served) -> Result<Vec<u32>, Refusal> {
    let template = messages::template(served)?;
    let found = fields
        .value("messages")
        .ok_or_else(|| Refusal::field("messages", "none", "a list of messages"))?;
    let text = messages::prompt(template, &found)?;
    let encoded = served.tokenizer.encode(&text);
    encoded.map_err(|error| Refusal::invalid(format!("messages: {error}")).about("messages"))
}

// Of a chat: whether log-probabilities are returned, and beside them how many of the most likely tokens.
fn likelihoods(fields: &mut Fields) -> Result<Option<usize>, Refusal> {
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

// The newer name counts before the older one.
fn tokens(fields: &mut Fields) -> Result<Option<usize>, Refusal> {
    let older = fields.count("max_tokens")?;
    Ok(fields.count("max_completion_tokens")?.or(older))
}

// The tokens to generate after a prompt.
fn room(
    prompt: usize,
    (asked, endpoint): (Option<usize>, Endpoint),
    limits: &Limits,
) -> Result<usize, Refusal> {
    let left = limits.tokens.saturating_sub(prompt);
    let tokens = match (asked, endpoint) {
        (Some(tokens), _) => tokens,
        (None, Endpoint::Completions) => TOKENS.min(left.max(1)),
        (None, Endpoint::Chat) => left.max(1),
    };
    if tokens > left {
        let most = limits.tokens;
        let message = format!(
            "max_tokens: found a prompt of {prompt} tokens and {tokens} to generate, needs at most {most} in all"
        );
        let refusal = Refusal::invalid(message).about("max_tokens");
        return Err(refusal.code("context_length_exceeded"));
    }
    Ok(tokens)
}

fn sampling(fields: &mut Fields) -> Result<Sampling, Refusal> {
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

fn stop(fields: &mut Fields) -> Result<Vec<String>, Refusal> {
    match fields.value("stop") {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text]),
        Some(other) => serde_json::from_value(other.clone())
            .map_err(|_| Refusal::field("stop", shown(&other), "a string or a list of strings")),
    }
}

fn include_usage(fields: &mut Fields) -> Result<bool, Refusal> {
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
