//! Requests that share the steps of a model.

use super::{
    Generated, Request, RequestId,
    choice::choose,
    micro_batches::{MicroBatches, Row},
    prefixes::{self, Prefixes},
    request::within,
    sequence::Sequence,
    speed::Speed,
};
use crate::{Error, Result, architecture::Text, data::Tokenizer};
use parallel::Pipeline;
use std::{collections::VecDeque, time::Instant};

/// The most sequences that run at a time.
const MOST_SEQUENCES: usize = 4096;

/// How requests share a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorOptions {
    /// Sequences that run at a time; others wait.
    pub sequences: usize,
    /// Tokens of prompts that a step runs at most, so that a long prompt does not keep others from their next tokens.
    pub prefill: usize,
    /// Tokens whose keys and values are kept at most, of all sequences together, in whole pages of
    /// [`PAGE_TOKENS`](parallel::cache::PAGE_TOKENS); a sequence waits until all that it may need is free. Their memory may be
    /// an eighth larger. 0 leaves the limit to the device's memory, where a sequence may fail.
    pub kept_tokens: usize,
    /// Tokens of texts that have ended whose keys and values stay at most, in whole pages, for texts that begin alike: these then run
    /// the rest of their prompts alone. They are the first to go where `kept_tokens` leaves no room. 0: none.
    pub prefixes: usize,
}

impl Default for GeneratorOptions {
    fn default() -> Self {
        GeneratorOptions {
            sequences: 16,
            prefill: 512,
            kept_tokens: 0,
            prefixes: 0,
        }
    }
}

/// Continues texts with the model of a pipeline, several at a time: requests may be added between any two steps, and each step
/// gives every running sequence its next token.
///
/// Every rank makes the same calls, and gets the same tokens. If the model is [incremental](parallel::Model::is_incremental),
/// a step runs new tokens alone, otherwise the window of each sequence. A request's tokens do not depend on the other requests,
/// bit for bit on devices whose sums have one order for every number of rows, as on the CPU.
pub struct Generator<'a> {
    pipeline: &'a Pipeline,
    text: Text,
    tokenizer: &'a Tokenizer,
    options: GeneratorOptions,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    prefixes: Prefixes,
    num_added: u64,
    speed: Speed,
}

impl<'a> Generator<'a> {
    /// A generator without requests, for a model that reads `text` whose tokens are those of `tokenizer`.
    ///
    /// # Errors
    /// [`Error::Setting`] for options of 0 sequences or tokens, and too many sequences.
    pub fn new(
        pipeline: &'a Pipeline,
        text: Text,
        tokenizer: &'a Tokenizer,
        options: GeneratorOptions,
    ) -> Result<Generator<'a>> {
        within("sequences", options.sequences, 1, MOST_SEQUENCES)?;
        within("prefill", options.prefill, 1, usize::MAX)?;
        Ok(Generator {
            prefixes: Prefixes::new(options.prefixes),
            pipeline,
            text,
            tokenizer,
            options,
            waiting: VecDeque::new(),
            running: Vec::new(),
            num_added: 0,
            speed: Speed::default(),
        })
    }

    /// Adds a request, whose tokens come with later steps.
    ///
    /// # Errors
    /// Those of [`Request::check`]; [`Error::Setting`] for one that needs more memory than all sequences may have.
    pub fn add(&mut self, request: Request) -> Result<RequestId> {
        request.check(self.text.vocabulary)?;
        let (needs, have) = (self.most_kept(&request), self.options.kept_tokens);
        if have > 0 && needs > have {
            let found = format!("{needs} tokens to be kept for one request");
            return Err(Error::setting(
                "kept_tokens",
                found,
                format!("at most {have}"),
            ));
        }
        let id = RequestId(self.num_added);
        self.num_added += 1;
        let cache = self.pipeline.sequence();
        self.waiting
            .push_back(Sequence::new(id, request, self.tokenizer, cache));
        Ok(id)
    }

    /// Drops a request; whether it had not ended.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        let before = self.waiting.len() + self.running.len();
        self.waiting.retain(|sequence| sequence.id != id);
        self.end(|sequence| sequence.id == id);
        before > self.waiting.len() + self.running.len()
    }

    // Ends running sequences.
    fn end(&mut self, ends: impl Fn(&Sequence) -> bool) {
        for sequence in self.running.extract_if(.., |sequence| ends(sequence)) {
            self.prefixes.keep(sequence.cache);
        }
    }

    /// Whether all requests have ended.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// The number of requests that run.
    pub fn num_running(&self) -> usize {
        self.running.len()
    }

    /// The number of requests that wait to run.
    pub fn num_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// What was run so far, and the time it took.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// Runs a step, and returns the new tokens in the order of requests: at most one of each running sequence, and none of
    /// those whose prompt is longer than a step allows. Collective.
    ///
    /// # Errors
    /// [`Error::Parallel`] from layers and collectives, as when keys and values exceed the device's memory; [`Error::Setting`]
    /// for logits that are not numbers. No token is lost: if a step is repeated, it first computes again what was kept.
    pub fn step(&mut self) -> Result<Vec<Generated>> {
        let begun = Instant::now();
        let made = self.admit().and_then(|()| self.tokens());
        if made.is_err() {
            self.running.iter_mut().for_each(Sequence::forget);
            self.prefixes.clear();
        }
        let (rows, generated) = made?;
        let prompts = rows
            .iter()
            .filter(|row| row.is_prompt)
            .map(|row| row.tokens)
            .sum();
        self.speed.add(prompts, generated.len(), begun.elapsed());
        Ok(generated)
    }

    /// Runs steps until all requests have ended, and calls `each` with every token as it comes. Collective.
    ///
    /// # Errors
    /// Those of [`step`](Generator::step) and of `each`, which ends the job unless all ranks return it.
    pub fn run(&mut self, mut each: impl FnMut(&Generated) -> Result<()>) -> Result<()> {
        while !self.is_idle() {
            self.step()?.iter().try_for_each(&mut each)?;
        }
        Ok(())
    }

    // The rows of a step, and the tokens that follow them.
    fn tokens(&mut self) -> Result<(Vec<Row>, Vec<Generated>)> {
        let context = self.text.context;
        self.running
            .iter_mut()
            .for_each(|sequence| sequence.move_window(context));
        let step = match self.pipeline.model().is_incremental() {
            true => MicroBatches::of_new_tokens(self.pipeline, &self.running, self.options.prefill),
            false => MicroBatches::of_windows(&self.running, context),
        };
        let logits = step.logits(self.pipeline, &self.running, self.text)?;
        let rows = step.into_rows();
        let complete = || rows.iter().filter(|row| row.completes);
        let sequences = complete().map(|row| &self.running[row.sequence]);
        let choices = choose(self.pipeline.context(), sequences, &logits)?;
        let chosen = complete().map(|row| row.sequence).zip(choices);
        let chosen: Vec<_> = chosen.collect();
        let mut generated = Vec::with_capacity(chosen.len());
        for (sequence, choice) in chosen {
            generated.push(self.running[sequence].push(choice));
        }
        generated.sort_by_key(|token| token.request);
        let ended = |id| {
            generated
                .iter()
                .any(|token| token.request == id && token.finish.is_some())
        };
        self.end(|sequence| ended(sequence.id));
        Ok((rows, generated))
    }

    // Lets requests run that waited, in their order, but for those that begin as one does whose beginning is being run.
    fn admit(&mut self) -> Result<()> {
        let most_kept = |sequence: &Sequence| self.most_kept(&sequence.request);
        let mut kept: usize = self.running.iter().map(most_kept).sum();
        while self.running.len() < self.options.sequences {
            let is_ready = |next: &Sequence| !self.is_being_run(next);
            let Some(place) = self.waiting.iter().position(is_ready) else {
                return Ok(());
            };
            let next = &self.waiting[place];
            kept += self.most_kept(&next.request);
            let room = match self.options.kept_tokens {
                0 => usize::MAX,
                most if kept > most => return Ok(()),
                most => most - kept,
            };
            if let Some(mut next) = self.waiting.remove(place) {
                self.begin_alike(&mut next, room)?;
                self.running.push(next);
            }
        }
        Ok(())
    }

    // Whether a step to come runs tokens with which a sequence begins.
    fn is_being_run(&self, sequence: &Sequence) -> bool {
        let context = self.text.context;
        let is_run = |other: &Sequence| {
            let count = prefixes::shared(sequence.window(context), other.window(context));
            count >= prefixes::LEAST && count > other.cache.len()
        };
        let mut of_prompts = self.running.iter().filter(|other| other.is_prompt());
        self.options.prefixes > 0 && of_prompts.any(is_run)
    }

    // Gives a sequence the keys and values of the first tokens that another one has computed: the same pages, or the other's own
    // cache if an ended one has nothing else. What is kept of ended ones then fits into `room`.
    fn begin_alike(&mut self, sequence: &mut Sequence, room: usize) -> Result<()> {
        sequence.move_window(self.text.context);
        let window = sequence.window(self.text.context);
        let running = self.running.iter().map(|sequence| &sequence.cache);
        let found = self.prefixes.find(window, running);
        let used = found.as_ref().map(|(cache, _)| cache);
        let is_ended = used.is_some_and(|cache| self.prefixes.touch(cache));
        self.prefixes.shrink(room);
        let Some((cache, count)) = found else {
            return Ok(());
        };
        let is_all = is_ended && count == cache.len();
        let is_kept = !is_ended || self.prefixes.has(&cache);
        let own = match (is_all, is_kept) {
            (true, _) => Some(cache.clone()),
            (_, true) => cache.beginning(count).ok(),
            // There is no room for the other's beside its own.
            (_, false) => return Ok(()),
        };
        // Of layers with windows, which may have dropped what is needed, some ranks may have none.
        let world = self.pipeline.context().world();
        if world.everyone().any(own.is_none())? {
            return Ok(());
        }
        if is_all {
            self.prefixes.remove(&cache);
        }
        if let Some(own) = own {
            sequence.cache = own;
        }
        sequence.reused_tokens = count;
        self.speed.reused_tokens += count;
        Ok(())
    }

    fn most_kept(&self, request: &Request) -> usize {
        Sequence::most_kept(request, self.text.context)
    }
}

impl std::fmt::Debug for Generator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (running, waiting) = (self.running.len(), self.waiting.len());
        write!(
            f,
            "Generator({running} sequences running, {waiting} waiting)"
        )
    }
}
