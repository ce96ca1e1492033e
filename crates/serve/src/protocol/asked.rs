//! A body as requests of the generator.

use super::{
    Refusal,
    fields::{Fields, shown},
    messages, options,
};
use crate::{Limits, Served};
use serde_json::Value;
use train::generate::Request;

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
    /// The answers to each prompt.
    pub(crate) choices: usize,
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
                (prompts, fields.count("logprobs")?, fields.flag("echo")?)
            }
            Endpoint::Chat => {
                let prompt = chat(&mut fields, served)?;
                (vec![prompt], options::likelihoods(&mut fields)?, false)
            }
        };
        let choices = choices(&mut fields, prompts.len(), limits)?;
        let mut asked = Asked {
            endpoint,
            requests: Vec::new(),
            choices,
            echo: Vec::new(),
            prompt_tokens: prompts.iter().map(Vec::len).sum(),
            stream: fields.flag("stream")?,
            include_usage: options::include_usage(&mut fields)?,
        };
        let tokens = options::tokens(&mut fields)?;
        let request = Request {
            prompt: Vec::new(),
            tokens: 1,
            sampling: options::sampling(&mut fields)?,
            stop: options::stop(&mut fields)?,
            end: None,
            log_probabilities,
        };
        fields.finish()?;
        if echoes && log_probabilities.is_some() {
            let message =
                "echo: this server has no log-probabilities of a prompt; leave out logprobs";
            return Err(Refusal::invalid(message).about("echo").code("unsupported"));
        }
        let request = ending(request, endpoint, served)?;
        for prompt in prompts {
            let tokens = room(prompt.len(), (tokens, endpoint), limits)?;
            let request = Request {
                prompt,
                tokens,
                ..request.clone()
            };
            request.check(served.vocabulary)?;
            asked.add(&request, echoes, served);
        }
        Ok(asked)
    }

    // Adds the answers to a prompt: each draws by a seed of its own.
    fn add(&mut self, request: &Request, echoes: bool, served: &Served) {
        for _ in 0..self.choices {
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

// The answers to each prompt.
fn choices(fields: &mut Fields, prompts: usize, limits: &Limits) -> Result<usize, Refusal> {
    let choices = fields.count("n")?.unwrap_or(1);
    if !(1..=MOST_CHOICES).contains(&choices) {
        let needed = format!("a number from 1 to {MOST_CHOICES}");
        return Err(Refusal::field("n", choices, &needed));
    }
    // More than this never find a place at the same time.
    let most = limits.running + limits.waiting;
    if choices * prompts > most {
        let found = format!("{prompts} prompts with n = {choices}");
        let needed = format!("at most {most} answers in all");
        return Err(Refusal::field("prompt", found, &needed));
    }
    Ok(choices)
}

// The request with the token at which its text ends, and of a chat the text that follows an answer.
fn ending(request: Request, endpoint: Endpoint, served: &Served) -> Result<Request, Refusal> {
    let mut request = match endpoint {
        Endpoint::Completions => request,
        Endpoint::Chat => request.answering(messages::template(served)?, &served.tokenizer)?,
    };
    request.end = request.end.or_else(|| served.tokenizer.document_end());
    Ok(request)
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
