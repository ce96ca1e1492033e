//! `fascicle generate`: text from a checkpoint, as it comes.

mod chat;
mod printer;
mod prompts;

use super::{checkpoint, on_ranks::OnRanks};
use crate::{
    Registry, device,
    failure::{Failure, Outcome},
    numbers::{counted, fixed},
    output,
};
use chat::Chats;
use clap::Args;
use printer::{Printer, Written};
use prompts::{Prompts, tokens};
use serde::Serialize;
use std::{path::PathBuf, sync::atomic::Ordering, time::Instant};
use train::{
    data::Tokenizer,
    generate::{Generator, GeneratorOptions, Request, Sampling, Speed, described, load, text},
};

/// Arguments of `fascicle generate`.
#[derive(Args, Debug)]
pub(crate) struct Generate {
    /// A checkpoint, or a run directory, whose newest checkpoint is used
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,
    /// Text to continue; may be repeated, and the texts are then continued together. Without a prompt, stdin is continued, or
    /// the beginning of a line if stdin is empty or a terminal
    #[arg(long, value_name = "TEXT")]
    prompt: Vec<String>,
    /// A file with a text to continue; may be repeated
    #[arg(long, value_name = "FILE")]
    prompt_file: Vec<PathBuf>,
    /// Treat each prompt as a message and print the answer; without a prompt, answer the lines of stdin, one after the other, as
    /// a conversation
    #[arg(long)]
    chat: bool,
    /// How messages become text: a template in Jinja's language, or a tokenizer_config.json; defaults to that which lies in the
    /// checkpoint with its tokenizer
    #[arg(long, value_name = "FILE", requires = "chat")]
    chat_template: Option<PathBuf>,
    /// A first message that says how to answer
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Number of tokens to generate
    #[arg(long, value_name = "N", default_value_t = 256)]
    tokens: usize,
    /// Values above 1 flatten the distribution over tokens, values below 1 sharpen it; 0 takes the most
    /// likely token
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    temperature: f64,
    /// Consider only the K most likely tokens; 0 considers all
    #[arg(long, value_name = "K", default_value_t = 40)]
    top_k: usize,
    /// Consider only the most likely tokens whose probabilities reach P in sum; 1 considers all
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f64,
    /// Consider only tokens at least P times as likely as the most likely one; 0 considers all
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_p: f64,
    /// Make tokens that the text has already less likely: positive logits are divided by R, negative ones multiplied
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    repetition_penalty: f64,
    /// End the text before this string; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// A token that ends the text; defaults to the tokenizer's end of text, if it has one
    #[arg(long, value_name = "ID")]
    end: Option<u32>,
    /// Seed of the random draws, for each text
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// With each token, its log-probability and those of the N most likely tokens
    #[arg(long, value_name = "N", requires = "json")]
    logprobs: Option<usize>,
    #[command(flatten)]
    ranks: OnRanks,
    /// Print prompts, texts and times as JSON, at the end
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Ended {
    checkpoint: PathBuf,
    step: u64,
    texts: Vec<Written>,
    /// From the start of the ranks to the last token.
    seconds: f64,
    prefill_tokens: usize,
    prefill_tokens_per_second: f64,
    decode_tokens: usize,
    decode_tokens_per_second: f64,
}

impl Generate {
    /// Writes the texts to stdout.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let driver = device::preferred(&registry.drivers)?;
        let reader = checkpoint::open(&self.checkpoint)?;
        let path = reader.path().to_owned();
        let (mut config, tokenizer) =
            described(&reader, &registry.families).map_err(Failure::run)?;
        let chats = self.chats(&tokenizer)?;
        let request = self.request(&tokenizer, chats.as_ref())?;
        let vocabulary = text(&config).map_err(Failure::run)?.vocabulary;
        let converses = self.converses()?;
        let prompts = match converses {
            true => Prompts::none(),
            false => Prompts::read(&self.prompt, &self.prompt_file, &tokenizer)?,
        };
        prompts.check(&request, vocabulary, (&tokenizer, chats.as_ref()))?;
        let (team, stored_as) = (self.ranks.team(&mut config)?, self.ranks.frozen_weights);
        let begun = Instant::now();
        let (opened, json) = (path.clone(), self.json);
        let closed = prompts.pipe_closed();
        let ends = team.run(driver, move |world, device| {
            let reader = train::checkpoint::Reader::open(&opened)?;
            train::trainer::verify(world, &reader)?;
            let pipeline = load(world, device, &config, &reader, stored_as)?;
            let text = text(&config)?;
            let prompts = prompts.shared(world)?;
            let options = GeneratorOptions {
                // The next turn of a conversation begins with all before it.
                prefixes: if converses { text.context } else { 0 },
                ..GeneratorOptions::default()
            };
            let mut generator = Generator::new(&pipeline, text, &tokenizer, options)?;
            if let (true, Some(chats)) = (converses, &chats) {
                let model = (&mut generator, &tokenizer);
                chats.converse(world, model, &request, &prompts.pipe_closed())?;
                return Ok((Vec::new(), generator.speed()));
            }
            for prompt in prompts.texts() {
                generator.add(Request {
                    prompt: tokens(prompt, &tokenizer, chats.as_ref())?,
                    ..request.clone()
                })?;
            }
            let streams = !json && world.rank() == 0;
            let mut printer = Printer::new(prompts, &tokenizer, (chats.is_none(), streams))?;
            generator.run(|token| printer.add(token))?;
            Ok((printer.into_written(), generator.speed()))
        });
        let (texts, speed) = match closed.load(Ordering::Relaxed) {
            true => return Err(Failure::PipeClosed),
            false => ends?.swap_remove(0),
        };
        if !self.json {
            output::note(&told(&speed));
            return Ok(());
        }
        output::json(&Ended {
            checkpoint: path,
            step: reader.step(),
            texts,
            seconds: begun.elapsed().as_secs_f64(),
            prefill_tokens: speed.prefill_tokens,
            prefill_tokens_per_second: speed.prefill_per_second(),
            decode_tokens: speed.decode_tokens,
            decode_tokens_per_second: speed.decode_per_second(),
        })
    }

    fn chats(&self, tokenizer: &Tokenizer) -> Outcome<Option<Chats>> {
        let (file, system) = (self.chat_template.as_deref(), self.system.as_deref());
        let chats = || Chats::new(tokenizer, file, system);
        self.chat.then(chats).transpose()
    }

    // Whether messages come from stdin, one after the other.
    fn converses(&self) -> Outcome<bool> {
        let converses = self.chat && self.prompt.is_empty() && self.prompt_file.is_empty();
        match converses && self.json {
            true => Err(Failure::usage(
                "--json: a chat without --prompt has no end, needs --prompt",
            )),
            false => Ok(converses),
        }
    }

    // Of each text, without its prompt.
    fn request(&self, tokenizer: &Tokenizer, chats: Option<&Chats>) -> Outcome<Request> {
        let request = Request {
            prompt: Vec::new(),
            tokens: self.tokens,
            sampling: Sampling {
                temperature: self.temperature,
                top_k: self.top_k,
                top_p: self.top_p,
                min_p: self.min_p,
                repetition_penalty: self.repetition_penalty,
                seed: self.seed,
            },
            stop: self.stop.clone(),
            end: self.end,
            log_probabilities: self.logprobs,
        };
        let mut request = match chats {
            Some(chats) => chats.request(request, tokenizer).map_err(Failure::usage)?,
            None => request,
        };
        request.end = request.end.or_else(|| tokenizer.document_end());
        Ok(request)
    }
}

fn told(speed: &Speed) -> String {
    format!(
        "prefill {}, {} tokens/s; decode {}, {} tokens/s",
        counted(speed.prefill_tokens, "token"),
        fixed(speed.prefill_per_second(), 1),
        counted(speed.decode_tokens, "token"),
        fixed(speed.decode_per_second(), 1)
    )
}
