//! What one sequence has computed on this rank.

use std::{cell::RefCell, collections::BTreeMap, fmt, ops::Range, rc::Rc};
use tensor::{Error, MemoryKind, Result, Tensor, ops};

/// Tokens by which the memory of a layer grows. A longer block would waste more at the end of each sequence, and a shorter one
/// copies more often: with this one, growth moves 1/32 of the bytes that attention reads.
pub const BLOCK_TOKENS: usize = 64;

/// Keys and values of one sequence, of all layers on this rank. Cloning clones the handle.
///
/// The memory grows with the tokens held, by blocks, and returns to the device with the last handle. Layers with a window drop the
/// blocks before it when they grow.
#[derive(Clone, Default)]
pub struct SequenceCache(Rc<RefCell<Held>>);

#[derive(Default)]
struct Held {
    // The tokens whose keys and values all layers hold.
    tokens: Vec<u32>,
    layers: BTreeMap<String, Layer>,
}

struct Layer {
    // The places of the tokens whose keys and values it has kept: the first is a multiple of a block.
    tokens: Range<usize>,
    // Blocks of tokens x (kv_heads/X * head_size).
    keys: Tensor,
    values: Tensor,
    // The most tokens to which one attends, if there is a bound.
    window: Option<usize>,
}

/// What a layer holds of the tokens from the place `first` on.
pub(crate) struct Kept {
    pub(crate) first: usize,
    /// Tokens x (kv_heads/X * head_size).
    pub(crate) keys: Tensor,
    /// As `keys`.
    pub(crate) values: Tensor,
}

impl SequenceCache {
    /// A cache of no tokens, without memory.
    pub fn new() -> SequenceCache {
        SequenceCache::default()
    }

    /// Number of tokens held.
    pub fn len(&self) -> usize {
        self.0.borrow().tokens.len()
    }

    /// Whether it holds no token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the device that this rank's layers take.
    pub fn bytes(&self) -> usize {
        let held = self.0.borrow();
        let layers = held.layers.values();
        layers
            .map(|layer| layer.keys.bytes() + layer.values.bytes())
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
        let has = |layer: &Layer| layer.tokens.start <= met(layer.window, count);
        count <= held.tokens.len() && held.layers.values().all(has)
    }

    /// A copy of what it holds of its first `count` tokens, after which it [can continue](Self::can_continue_after).
    ///
    /// # Errors
    /// [`Error::Invalid`] if it cannot; [`Error::OutOfMemory`].
    pub fn copy_of_first(&self, count: usize) -> Result<SequenceCache> {
        if !self.can_continue_after(count) {
            let found = format!("the first {count} of {} tokens", self.len());
            let needed = "tokens of which its layers hold what later ones attend to";
            return Err(Error::invalid("sequence cache", found, needed));
        }
        let held = self.0.borrow();
        let copied = |(name, layer): (&String, &Layer)| Ok((name.clone(), layer.first(count)?));
        let copy = Held {
            tokens: held.tokens[..count].to_vec(),
            layers: held.layers.iter().map(copied).collect::<Result<_>>()?,
        };
        Ok(SequenceCache(Rc::new(RefCell::new(copy))))
    }

    /// Whether the two are handles of one cache.
    pub fn is(&self, other: &SequenceCache) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The tokens held, followed by `new` ones.
    pub(super) fn followed_by(&self, new: &[u32]) -> Vec<u32> {
        [&self.0.borrow().tokens[..], new].concat()
    }

    /// Appends the keys and values of new tokens to those of a layer, whose tokens attend to `window` tokens at most; returns all
    /// that it holds.
    ///
    /// # Shapes
    /// `keys`, `values`: new tokens x (kv_heads/X * head_size).
    /// # Errors
    /// [`Error::Invalid`] if the layer holds other tokens than the sequence, as when two layers share a name;
    /// [`Error::OutOfMemory`].
    pub(crate) fn append(
        &self,
        layer: &str,
        [keys, values]: [&Tensor; 2],
        window: Option<usize>,
    ) -> Result<Kept> {
        let mut held = self.0.borrow_mut();
        let first = held.tokens.len();
        let kept = held.layers.get(layer).map_or(0, |layer| layer.tokens.end);
        if kept != first {
            let needed =
                format!("{first}, as its sequence: one call per pass, under a name of its own");
            return Err(Error::invalid(layer, format!("{kept} tokens kept"), needed));
        }
        let end = first + keys.num_rows();
        if !held.layers.contains_key(layer) {
            let own = Layer {
                tokens: 0..0,
                keys: blocks(keys, end)?,
                values: blocks(values, end)?,
                window,
            };
            held.layers.insert(layer.to_owned(), own);
        }
        let own = held.layers.get_mut(layer).expect("inserted above");
        own.append(end, [keys, values])?;
        let count = own.tokens.len();
        Ok(Kept {
            first: own.tokens.start,
            keys: own.keys.rows(0, count)?,
            values: own.values.rows(0, count)?,
        })
    }

    /// From now on the sequence has these tokens too, whose keys and values all layers have appended.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a layer has not.
    pub(super) fn commit(&self, new: &[u32]) -> Result<()> {
        let mut held = self.0.borrow_mut();
        let needed = held.tokens.len() + new.len();
        let behind = held
            .layers
            .iter()
            .find(|(_, layer)| layer.tokens.end != needed);
        if let Some((name, layer)) = behind {
            let found = format!("{} tokens kept", layer.tokens.end);
            let needed = format!("{needed}: each layer of attention runs in every pass");
            return Err(Error::invalid(name, found, needed));
        }
        held.tokens.extend_from_slice(new);
        Ok(())
    }
}

impl Layer {
    fn append(&mut self, end: usize, new: [&Tensor; 2]) -> Result<()> {
        let Range { start, end: known } = self.tokens;
        if end - start > self.keys.num_rows() {
            let first = start.max(met(self.window, known));
            let (keys, values) = (
                blocks(&self.keys, end - first)?,
                blocks(&self.values, end - first)?,
            );
            let kept = known - first;
            for (held, larger) in [(&self.keys, &keys), (&self.values, &values)] {
                if kept > 0 {
                    ops::copy(&held.rows(first - start, kept)?, &larger.rows(0, kept)?)?;
                }
            }
            (self.keys, self.values, self.tokens.start) = (keys, values, first);
        }
        for (held, new) in [&self.keys, &self.values].into_iter().zip(new) {
            ops::copy(new, &held.rows(known - self.tokens.start, end - known)?)?;
        }
        self.tokens.end = end;
        Ok(())
    }

    // A copy of what tokens behind the first `count` ones attend to.
    fn first(&self, count: usize) -> Result<Layer> {
        let start = self.tokens.start.max(met(self.window, count));
        let copied = |held: &Tensor| {
            let kept = count - start;
            let copy = blocks(held, kept)?;
            let of_held = held.rows(start - self.tokens.start, kept)?;
            ops::copy(&of_held, &copy.rows(0, kept)?)?;
            Ok(copy)
        };
        Ok(Layer {
            tokens: start..count,
            keys: copied(&self.keys)?,
            values: copied(&self.values)?,
            window: self.window,
        })
    }
}

// The first key that is kept for tokens behind the first `known` ones: no such token meets a key before. Whole blocks, so that the
// others begin where they did, and sums over keys keep their bits.
fn met(window: Option<usize>, known: usize) -> usize {
    let met = window.map_or(0, |window| (known + 1).saturating_sub(window));
    met / BLOCK_TOKENS * BLOCK_TOKENS
}

// Memory for `tokens` rows as those of `like`, in whole blocks.
fn blocks(like: &Tensor, tokens: usize) -> Result<Tensor> {
    let (device, rows) = (like.device(), tokens.next_multiple_of(BLOCK_TOKENS));
    let shape = [rows, like.columns()];
    device.allocating(MemoryKind::KeysValues, || {
        Tensor::empty(device, like.dtype(), &shape)
    })
}

impl fmt::Debug for SequenceCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers = self.0.borrow().layers.len();
        write!(f, "SequenceCache({} tokens, {layers} layers)", self.len())
    }
}
