//! One request while it runs.

use super::{
    Finish, Generated, Request, RequestId, choice::Choice, sampling::Sampler, text::TextStream,
    window,
};
use crate::data::Tokenizer;
use parallel::cache::{PAGE_TOKENS, SequenceCache};

/// A request, its tokens so far, and what the model keeps of them.
pub(super) struct Sequence {
    pub(super) id: RequestId,
    pub(super) request: Request,
    pub(super) cache: SequenceCache,
    /// The tokens of the prompt whose keys and values came from another sequence.
    pub(super) reused_tokens: usize,
    pub(super) sampler: Sampler,
    // Prompt and new tokens.
    tokens: Vec<u32>,
    // Where the window begins of which the cache holds the first tokens.
    start: usize,
    text: TextStream,
}

impl Sequence {
    /// `cache`: one of no tokens.
    pub(super) fn new(
        id: RequestId,
        request: Request,
        tokenizer: &Tokenizer,
        cache: SequenceCache,
    ) -> Sequence {
        Sequence {
            id,
            cache,
            reused_tokens: 0,
            sampler: Sampler::new(request.sampling.clone(), &request.prompt),
            tokens: request.prompt.clone(),
            start: 0,
            text: TextStream::new(tokenizer, &request.prompt, &request.stop),
            request,
        }
    }

    /// The tokens from which the next one is predicted.
    pub(super) fn window(&self, context: usize) -> &[u32] {
        &self.tokens[window::start(self.tokens.len(), context)..]
    }

    /// Moves the window, whose keys then have other places: they are forgotten.
    pub(super) fn move_window(&mut self, context: usize) {
        let start = window::start(self.tokens.len(), context);
        if start != self.start {
            self.start = start;
            self.forget();
        }
    }

    /// The tokens of the window that the cache does not hold.
    pub(super) fn new_tokens(&self) -> &[u32] {
        &self.tokens[self.start + self.cache.len()..]
    }

    /// Returns the memory of its keys and values, which are computed again if it runs on.
    pub(super) fn forget(&mut self) {
        self.cache = self.cache.another();
    }

    /// Whether no token was generated yet.
    pub(super) fn is_prompt(&self) -> bool {
        self.tokens.len() == self.request.prompt.len()
    }

    /// The tokens for which it may need memory, in whole pages.
    pub(super) fn most_kept(request: &Request, context: usize) -> usize {
        // The last token is never run.
        let all = request.prompt.len() + request.tokens - 1;
        all.min(context).next_multiple_of(PAGE_TOKENS)
    }

    /// Appends a chosen token.
    pub(super) fn push(&mut self, choice: Choice) -> Generated {
        let Choice {
            token,
            log_probability,
            likeliest,
        } = choice;
        self.tokens.push(token);
        self.sampler.note(token);
        let is_end = self.request.end == Some(token);
        let (mut text, stops) = match is_end {
            true => Default::default(),
            false => self.text.push(token),
        };
        let generated = self.tokens.len() - self.request.prompt.len();
        let finish = match (is_end, stops) {
            (true, _) => Some(Finish::End),
            (_, true) => Some(Finish::Stop),
            _ => (generated >= self.request.tokens).then_some(Finish::Length),
        };
        if matches!(finish, Some(Finish::End | Finish::Length)) {
            text += &self.text.finish();
        }
        Generated {
            request: self.id,
            token,
            text,
            log_probability,
            likeliest,
            finish,
            reused_tokens: self.reused_tokens,
        }
    }
}
