//! Keys and values of sequences that grow: they lie in pages of [`PAGE_TOKENS`] tokens, of which tables say whose they are.
//!
//! # Source
//! Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", arXiv:2309.06180.

use super::AttentionShape;
use crate::{
    RawSlice,
    operand::{READ, UPDATE, WRITE, operands},
};

/// Tokens of a page: those of a block of keys, in which sums over keys are taken.
pub const PAGE_TOKENS: usize = 64;

/// The most queries of a sequence in [`PagedAttention`]. With more, it takes less time to lay the keys out once.
pub const MOST_PAGED_QUERIES: usize = 16;

/// Sizes of pages. Slot s is token s % [`PAGE_TOKENS`] of page s / [`PAGE_TOKENS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageShape {
    /// Pages of one layer, of all sequences.
    pub pages: usize,
    /// Key and value heads held here.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_size: usize,
}

impl PageShape {
    /// Elements of a token's keys, and of its values.
    #[inline]
    pub fn width(&self) -> usize {
        self.kv_heads * self.head_size
    }

    /// Elements of a page of keys, and of one of values.
    #[inline]
    pub fn elements(&self) -> usize {
        PAGE_TOKENS * self.width()
    }
}

/// Writes tokens' keys and values to their slots. Slots that do not exist are skipped; of equal ones, it is unspecified whose stay.
#[derive(Clone, Debug, PartialEq)]
pub struct StorePages {
    /// Sizes.
    pub shape: PageShape,
    /// Number of tokens.
    pub tokens: usize,
    /// tokens, u32.
    pub slots: RawSlice,
    /// tokens x (kv_heads * head_size), any float type.
    pub keys: RawSlice,
    /// As `keys`.
    pub values: RawSlice,
    /// pages x kv_heads x head_size x [`PAGE_TOKENS`], of the type of the keys: neighbouring elements are of neighbouring tokens.
    pub key_pages: RawSlice,
    /// pages x [`PAGE_TOKENS`] x (kv_heads * head_size), of that type.
    pub value_pages: RawSlice,
}

/// Reads what [`StorePages`] wrote. Slots that do not exist give 0.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPages {
    /// Sizes.
    pub shape: PageShape,
    /// Number of tokens.
    pub tokens: usize,
    /// tokens, u32.
    pub slots: RawSlice,
    /// As in [`StorePages`].
    pub key_pages: RawSlice,
    /// As in [`StorePages`].
    pub value_pages: RawSlice,
    /// tokens x (kv_heads * head_size), of the type of the pages; written.
    pub keys: RawSlice,
    /// As `keys`.
    pub values: RawSlice,
}

/// Sizes of an attention to pages. Query head h reads key and value head `h / (heads / kv_heads)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagedShape {
    /// Sequences.
    pub sequences: usize,
    /// Queries of each, its newest tokens; at most [`MOST_PAGED_QUERIES`].
    pub queries: usize,
    /// Pages in each row of the table: as many as the sequence that has most; at least one.
    pub table_pages: usize,
    /// Query heads held here.
    pub heads: usize,
    /// Sizes of pages.
    pub pages: PageShape,
    /// As in [`AttentionShape`].
    pub window: Option<usize>,
    /// As in [`AttentionShape`].
    pub scale: f64,
    /// As in [`AttentionShape`].
    pub score_cap: Option<f64>,
}

impl PagedShape {
    /// The attention of one sequence that holds `keys` keys, of which the first has the place `first_key`.
    #[inline]
    pub fn of_sequence(&self, keys: usize, first_key: usize) -> AttentionShape {
        AttentionShape {
            sequences: 1,
            queries: self.queries,
            keys,
            first_query: keys.saturating_sub(self.queries),
            first_key,
            window: self.window,
            heads: self.heads,
            kv_heads: self.pages.kv_heads,
            head_size: self.pages.head_size,
            scale: self.scale,
            score_cap: self.score_cap,
            dropout: None,
        }
    }
}

/// Attention of the newest tokens of sequences to all tokens whose keys and values they hold: for each sequence that of
/// [`AttentionForward`](super::AttentionForward) with these keys and values.
///
/// Where a device has [`paged_sums`](crate::Capabilities::paged_sums) the result has its bits, too.
#[derive(Clone, Debug, PartialEq)]
pub struct PagedAttention {
    /// Sizes.
    pub shape: PagedShape,
    /// (sequences * queries) x (heads * head_size), any float type.
    pub q: RawSlice,
    /// As in [`StorePages`].
    pub key_pages: RawSlice,
    /// As in [`StorePages`].
    pub value_pages: RawSlice,
    /// sequences x table_pages, u32: the pages of each sequence in their order. Pages that do not exist leave its result unspecified.
    pub table: RawSlice,
    /// sequences x 2, u32: how many keys a sequence holds, its queries' own included, and the place of the first. More keys than the
    /// table has room for are cut; fewer than queries leave the result unspecified.
    pub held: RawSlice,
    /// As `q`; written.
    pub out: RawSlice,
    /// sequences x queries, u32: as in [`AttentionForward`](super::AttentionForward).
    pub documents: Option<RawSlice>,
}

operands! {
    StorePages {
        slots: READ, keys: READ, values: READ, key_pages: UPDATE, value_pages: UPDATE
        ; shape, tokens
    }
    LoadPages {
        slots: READ, key_pages: READ, value_pages: READ, keys: WRITE, values: WRITE
        ; shape, tokens
    }
    PagedAttention {
        q: READ, key_pages: READ, value_pages: READ, table: READ, held: READ, documents: READ, out: WRITE
        ; shape
    }
}
