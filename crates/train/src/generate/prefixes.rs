//! Keys and values of texts that have ended, for later texts that begin alike.

use parallel::cache::{PAGE_TOKENS, SequenceCache};
use std::collections::VecDeque;

/// The fewest tokens that are worth sharing: each layer copies the last page, and ranks exchange a byte.
pub(super) const LEAST: usize = 16;

/// The tokens that the windows of two sequences begin with, but for the last of each, which it runs itself.
pub(super) fn shared(one: &[u32], other: &[u32]) -> usize {
    let before = |tokens: &[u32]| tokens.len().saturating_sub(1);
    let pairs = one[..before(one)].iter().zip(&other[..before(other)]);
    pairs.take_while(|(one, other)| one == other).count()
}

/// Caches of ended sequences, the one that was used last at the back.
pub(super) struct Prefixes {
    caches: VecDeque<SequenceCache>,
    // Tokens that they hold at most, in whole pages.
    most: usize,
}

impl Prefixes {
    pub(super) fn new(most: usize) -> Prefixes {
        Prefixes {
            caches: VecDeque::new(),
            most,
        }
    }

    /// The tokens whose keys and values are held, in whole pages.
    pub(super) fn tokens(&self) -> usize {
        self.caches.iter().map(in_pages).sum()
    }

    /// Keeps what an ended sequence has computed.
    pub(super) fn keep(&mut self, cache: SequenceCache) {
        if cache.len() < LEAST || in_pages(&cache) > self.most {
            return;
        }
        let covers = |one: &SequenceCache, other: &SequenceCache| {
            one.len() >= other.len() && other.shared_with(&one.tokens()) == other.len()
        };
        let place = self.caches.iter().position(|held| covers(held, &cache));
        let newest = match place.and_then(|place| self.caches.remove(place)) {
            Some(held) => held,
            None => {
                self.caches.retain(|held| !covers(&cache, held));
                cache
            }
        };
        self.caches.push_back(newest);
        self.shrink(self.most);
    }

    /// Drops the oldest caches until the rest hold at most `most` tokens.
    pub(super) fn shrink(&mut self, most: usize) {
        while self.tokens() > most {
            self.caches.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.caches.clear();
    }

    /// The cache, of these and of the running sequences, that begins as the tokens do for longest; and how many of its tokens another
    /// sequence can use, which has to run one itself.
    pub(super) fn find<'a>(
        &'a self,
        tokens: &[u32],
        running: impl Iterator<Item = &'a SequenceCache>,
    ) -> Option<(SequenceCache, usize)> {
        let (_, before) = tokens.split_last()?;
        let all = self.caches.iter().chain(running);
        let shared = all.map(|cache| (cache, cache.shared_with(before)));
        let (cache, count) = shared.max_by_key(|(_, count)| *count)?;
        (self.most > 0 && count >= LEAST).then(|| (cache.clone(), count))
    }

    /// Whether it is one of these; if so, it was used now.
    pub(super) fn touch(&mut self, cache: &SequenceCache) -> bool {
        let is_here = self.has(cache);
        if is_here {
            self.remove(cache);
            self.caches.push_back(cache.clone());
        }
        is_here
    }

    pub(super) fn has(&self, cache: &SequenceCache) -> bool {
        self.caches.iter().any(|held| held.is(cache))
    }

    pub(super) fn remove(&mut self, cache: &SequenceCache) {
        self.caches.retain(|held| !held.is(cache));
    }
}

fn in_pages(cache: &SequenceCache) -> usize {
    cache.len().next_multiple_of(PAGE_TOKENS)
}
