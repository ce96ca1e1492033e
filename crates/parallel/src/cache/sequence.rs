//! What one sequence has computed on this rank.

use super::{
    PAGE_TOKENS,
    pool::{PagePool, Window},
};
use std::{cell::RefCell, collections::BTreeMap, fmt, ops::Range, rc::Rc};
use tensor::{Error, Result};

/// Keys and values of one sequence, of all layers on this rank: [`Pipeline::sequence`](crate::Pipeline::sequence) makes it. Cloning clones
/// the handle.
///
/// Its pages grow with the tokens held, and return to the pipeline's other sequences with the last handle. Pages before the window of
/// their layers return when it grows.
#[derive(Clone)]
pub struct SequenceCache(Rc<RefCell<Held>>);

struct Held {
    pool: PagePool,
    // The tokens whose keys and values all layers hold.
    tokens: Vec<u32>,
    tables: BTreeMap<Window, Table>,
    // How many tokens' keys and values each layer holds or has dropped.
    layers: BTreeMap<String, usize>,
}

/// The pages of the layers of a window.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// The place of the first token whose keys and values they hold, a multiple of a page.
    pub(super) first: usize,
    pub(super) pages: Vec<u32>,
}

impl SequenceCache {
    /// A cache of no tokens, without pages.
    pub(super) fn new(pool: PagePool) -> SequenceCache {
        SequenceCache(Rc::new(RefCell::new(Held {
            pool,
            tokens: Vec::new(),
            tables: BTreeMap::new(),
            layers: BTreeMap::new(),
        })))
    }

    /// A cache of no tokens, of the same pipeline.
    pub fn another(&self) -> SequenceCache {
        self.pool().sequence()
    }

    pub(super) fn pool(&self) -> PagePool {
        self.0.borrow().pool.clone()
    }

    /// Number of tokens held.
    pub fn len(&self) -> usize {
        self.0.borrow().tokens.len()
    }

    /// Whether it holds no token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the device that its pages take, those included that it shares with other sequences.
    pub fn bytes(&self) -> usize {
        let held = self.0.borrow();
        let tables = held.tables.iter();
        tables
            .map(|(window, table)| table.pages.len() * held.pool.page_bytes(*window))
            .sum()
    }

    /// The tokens held.
    pub fn tokens(&self) -> Vec<u32> {
        self.0.borrow().tokens.clone()
    }

    /// The number of its first tokens that these begin with too.
    pub fn shared_with(&self, tokens: &[u32]) -> usize {
        let held = self.0.borrow();
        let pairs = held.tokens.iter().zip(tokens);
        pairs.take_while(|(own, other)| own == other).count()
    }

    /// Whether this rank's layers hold all that tokens behind the first `count` ones attend to: layers with a window may have dropped
    /// it.
    pub fn can_continue_after(&self, count: usize) -> bool {
        let held = self.0.borrow();
        let has = |(window, table): (&Window, &Table)| table.first <= met(*window, count);
        count <= held.tokens.len() && held.tables.iter().all(has)
    }

    /// A cache of its first `count` tokens, after which it [can continue](Self::can_continue_after). The two share their pages, but for a
    /// last one that is not full: of this one the other has a copy.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it cannot; [`Error::OutOfMemory`].
    pub fn beginning(&self, count: usize) -> Result<SequenceCache> {
        if !self.can_continue_after(count) {
            let found = format!("the first {count} of {} tokens", self.len());
            let needed = "tokens of which its layers hold what later ones attend to";
            return Err(Error::invalid("sequence cache", found, needed));
        }
        let other = self.another();
        let held = self.0.borrow();
        {
            // Its pages are released if a copy fails.
            let mut own = other.0.borrow_mut();
            for (window, table) in &held.tables {
                let first = table.first.max(met(*window, count));
                let shared = &table.pages[(first - table.first) / PAGE_TOKENS..];
                let (full, rest) = shared.split_at((count - first) / PAGE_TOKENS);
                held.pool.share(*window, full);
                let of_window = own.tables.entry(*window).or_default();
                (of_window.first, of_window.pages) = (first, full.to_vec());
                if !(count - first).is_multiple_of(PAGE_TOKENS) {
                    let page = held.pool.exchange(*window, &[], 1);
                    of_window.pages.extend(&page);
                    held.pool.copy(*window, [rest[0], page[0]])?;
                }
            }
            let names = held.layers.keys();
            own.layers = names.map(|name| (name.clone(), count)).collect();
            own.tokens = held.tokens[..count].to_vec();
        }
        Ok(other)
    }

    /// Whether the two are handles of one cache.
    pub fn is(&self, other: &SequenceCache) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The tokens held, followed by `new` ones.
    pub(super) fn followed_by(&self, new: &[u32]) -> Vec<u32> {
        [&self.0.borrow().tokens[..], new].concat()
    }

    /// A layer is about to keep the keys and values of `new` more tokens.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it holds other tokens than the sequence, as when two layers share a name.
    pub(super) fn begin_layer(&self, layer: &str, new: usize) -> Result<()> {
        let mut held = self.0.borrow_mut();
        let first = held.tokens.len();
        let kept = held.layers.get(layer).copied().unwrap_or(0);
        if kept != first {
            let needed =
                format!("{first}, as its sequence: one call per pass, under a name of its own");
            return Err(Error::invalid(layer, format!("{kept} tokens kept"), needed));
        }
        held.layers.insert(layer.to_owned(), first + new);
        Ok(())
    }

    /// The pages of the layers of a window, with room for `new` more tokens and without those that these do not meet.
    pub(super) fn with_room(&self, window: Window, new: usize) -> Table {
        let mut held = self.0.borrow_mut();
        let Held {
            pool,
            tokens,
            tables,
            ..
        } = &mut *held;
        let (known, table) = (tokens.len(), tables.entry(window).or_default());
        let needed = (known + new).div_ceil(PAGE_TOKENS);
        if table.first / PAGE_TOKENS + table.pages.len() < needed {
            let unmet = met(window, known).saturating_sub(table.first) / PAGE_TOKENS;
            let unmet: Vec<u32> = table.pages.drain(..unmet.min(table.pages.len())).collect();
            table.first += unmet.len() * PAGE_TOKENS;
            let taken = needed - table.first / PAGE_TOKENS - table.pages.len();
            table.pages.extend(pool.exchange(window, &unmet, taken));
        }
        table.clone()
    }

    /// From now on the sequence has these tokens too, whose keys and values all layers have kept.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a layer has not.
    pub(super) fn commit(&self, new: &[u32]) -> Result<()> {
        let mut held = self.0.borrow_mut();
        let needed = held.tokens.len() + new.len();
        let behind = held.layers.iter().find(|(_, kept)| **kept != needed);
        if let Some((name, kept)) = behind {
            let found = format!("{kept} tokens kept");
            let needed = format!("{needed}: each layer of attention runs in every pass");
            return Err(Error::invalid(name, found, needed));
        }
        held.tokens.extend_from_slice(new);
        Ok(())
    }
}

impl Table {
    /// The slots of the tokens at these places.
    pub(super) fn slots(&self, places: Range<usize>) -> impl Iterator<Item = u32> + '_ {
        places.map(|place| {
            let own = place - self.first;
            // The pool has fewer slots than 2^32.
            self.pages[own / PAGE_TOKENS] * PAGE_TOKENS as u32 + (own % PAGE_TOKENS) as u32
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for (window, table) in &self.tables {
            self.pool.release(*window, &table.pages);
        }
    }
}

// The first key that is kept for tokens behind the first `known` ones: no such token meets a key before. Whole pages, so that the
// others begin where they did, and sums over keys keep their bits.
fn met(window: Window, known: usize) -> usize {
    let met = window.map_or(0, |window| (known + 1).saturating_sub(window));
    met / PAGE_TOKENS * PAGE_TOKENS
}

impl fmt::Debug for SequenceCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers = self.0.borrow().layers.len();
        write!(f, "SequenceCache({} tokens, {layers} layers)", self.len())
    }
}
