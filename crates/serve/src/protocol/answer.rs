//! Tokens as one answer, or as pieces while they come.

use super::{Asked, Endpoint, likelihoods};
use serde_json::{Value, json};
use train::{
    data::Tokenizer,
    generate::{Finish, Generated},
};

/// What every answer and piece repeats.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// A name for the answer, different for each.
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    /// The name of the model.
    pub(crate) model: String,
}

/// An answer so far.
pub(crate) struct Answer {
    identity: Identity,
    endpoint: Endpoint,
    tokenizer: Tokenizer,
    choices: Vec<Choice>,
    // Those of one prompt follow each other.
    per_prompt: usize,
    prompt_tokens: usize,
    generated_tokens: usize,
    include_usage: bool,
}

#[derive(Default)]
struct Choice {
    text: String,
    tokens: Vec<Generated>,
    finish: Option<&'static str>,
    // Whether log-probabilities were asked for, and the letters before those that were sent.
    has_likelihoods: bool,
    offset: usize,
    reused_tokens: usize,
}

impl Answer {
    /// To what a client asked for, without a token yet.
    pub(crate) fn new(identity: Identity, asked: &Asked, tokenizer: &Tokenizer) -> Answer {
        let choices = asked.requests.iter().zip(&asked.echo);
        let choices = choices.map(|(request, echo)| Choice {
            text: echo.clone(),
            has_likelihoods: request.log_probabilities.is_some(),
            ..Choice::default()
        });
        Answer {
            identity,
            endpoint: asked.endpoint,
            tokenizer: tokenizer.clone(),
            choices: choices.collect(),
            per_prompt: asked.choices,
            prompt_tokens: asked.prompt_tokens,
            generated_tokens: 0,
            include_usage: asked.include_usage,
        }
    }

    /// Adds a token of a choice.
    pub(crate) fn add(&mut self, index: usize, token: Generated) {
        let choice = &mut self.choices[index];
        choice.text += &token.text;
        choice.reused_tokens = token.reused_tokens;
        choice.finish = token.finish.map(|finish| match finish {
            Finish::Length => "length",
            Finish::Stop | Finish::End => "stop",
        });
        if choice.has_likelihoods {
            choice.tokens.push(token);
        }
        self.generated_tokens += 1;
    }

    /// Whether every choice has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.choices.iter().all(|choice| choice.finish.is_some())
    }

    /// The complete answer, which takes its texts away.
    pub(crate) fn whole(&mut self) -> Value {
        let indices = 0..self.choices.len();
        let choices: Vec<Value> = indices.map(|index| self.choice(index, false)).collect();
        let mut whole = self.document(choices, false);
        whole["usage"] = self.usage();
        whole
    }

    /// The pieces before any token: of a chat, who speaks; of a completion, a prompt that is repeated.
    pub(crate) fn opening(&mut self) -> Vec<Value> {
        let indices = 0..self.choices.len();
        let pieces = indices.filter_map(|index| match self.endpoint {
            Endpoint::Chat => {
                let delta = json!({"role": "assistant", "content": ""});
                let choice = json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null});
                Some(self.piece_of(choice))
            }
            Endpoint::Completions => {
                let is_empty = self.choices[index].text.is_empty();
                (!is_empty).then(|| self.piece(index)).flatten()
            }
        });
        pieces.collect()
    }

    /// What a choice has that was not sent yet, if it is worth a piece.
    pub(crate) fn piece(&mut self, index: usize) -> Option<Value> {
        let choice = &self.choices[index];
        if choice.text.is_empty() && choice.tokens.is_empty() && choice.finish.is_none() {
            return None;
        }
        let choice = self.choice(index, true);
        Some(self.piece_of(choice))
    }

    /// The piece after all others, if the client wants counts.
    pub(crate) fn closing(&self) -> Option<Value> {
        self.include_usage.then(|| {
            let mut piece = self.document(Vec::new(), true);
            piece["usage"] = self.usage();
            piece
        })
    }

    // What a choice has, which it then has no more.
    fn choice(&mut self, index: usize, is_piece: bool) -> Value {
        let choice = &mut self.choices[index];
        let (text, tokens) = (
            std::mem::take(&mut choice.text),
            std::mem::take(&mut choice.tokens),
        );
        let likelihoods = match (choice.has_likelihoods, self.endpoint) {
            (false, _) => Value::Null,
            (true, Endpoint::Chat) => likelihoods::of_chat(&tokens, &self.tokenizer),
            (true, Endpoint::Completions) => {
                likelihoods::of_completion(&tokens, &self.tokenizer, &mut choice.offset)
            }
        };
        let mut value =
            json!({"index": index, "logprobs": likelihoods, "finish_reason": choice.finish});
        match (self.endpoint, is_piece) {
            (Endpoint::Completions, _) => value["text"] = text.into(),
            (Endpoint::Chat, true) if text.is_empty() => value["delta"] = json!({}),
            (Endpoint::Chat, true) => value["delta"] = json!({"content": text}),
            (Endpoint::Chat, false) => {
                value["message"] = json!({"role": "assistant", "content": text, "refusal": null});
            }
        }
        value
    }

    fn piece_of(&self, choice: Value) -> Value {
        let mut piece = self.document(vec![choice], true);
        if self.include_usage {
            piece["usage"] = Value::Null;
        }
        piece
    }

    fn document(&self, choices: Vec<Value>, is_piece: bool) -> Value {
        let Identity { id, created, model } = &self.identity;
        let object = match (self.endpoint, is_piece) {
            (Endpoint::Completions, _) => "text_completion",
            (Endpoint::Chat, true) => "chat.completion.chunk",
            (Endpoint::Chat, false) => "chat.completion",
        };
        json!({"id": id, "object": object, "created": created, "model": model, "choices": choices})
    }

    // The tokens of a prompt count once, whatever the number of its answers.
    fn usage(&self) -> Value {
        let first = self.choices.iter().step_by(self.per_prompt);
        let cached: usize = first.map(|choice| choice.reused_tokens).sum();
        json!({
            "prompt_tokens": self.prompt_tokens,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens": self.generated_tokens,
            "total_tokens": self.prompt_tokens + self.generated_tokens,
        })
    }
}
