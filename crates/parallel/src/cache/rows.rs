//! The rows of a pass over new tokens.

use super::{
    SequenceCache,
    pool::{PagePool, Window},
    tables::PageTables,
};
use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};
use tensor::{Device, Error, Result, Tensor, ops::pages::Pages};

/// New tokens of a sequence, which follow those that its cache holds.
#[derive(Clone, Debug)]
pub struct NewTokens {
    /// What the sequence has computed.
    pub cache: SequenceCache,
    /// The new tokens.
    pub ids: Vec<u32>,
    /// How many of the last ones have outputs, at least 1: each row of a micro-batch has as many as the one that asks for most.
    pub outputs: usize,
}

/// The rows of a pass: equally many new tokens of each sequence.
#[derive(Clone, Debug)]
pub(crate) struct CachedRows(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    rows: Vec<NewTokens>,
    pool: PagePool,
    // What layers read alike, made by the first of them.
    tables: RefCell<BTreeMap<Window, Rc<PageTables>>>,
    places: OnceCell<Tensor>,
}

/// What a layer has kept of the rows of a pass.
pub(crate) struct Kept {
    /// The layer's pages.
    pub(crate) pages: Pages,
    /// Which of them are the rows'.
    pub(crate) tables: Rc<PageTables>,
}

impl CachedRows {
    /// Rows of these sequences, whose pages are those of `pool`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no row, unequally many tokens, no token, and sequences of another pool.
    pub(crate) fn new(rows: &[NewTokens], pool: &PagePool) -> Result<CachedRows> {
        if !rows.iter().all(|row| row.cache.pool().is(pool)) {
            let needed = "those that this pipeline has made";
            return Err(Error::invalid(
                "cached rows",
                "sequences of another pipeline",
                needed,
            ));
        }
        let count = rows.first().map_or(0, |row| row.ids.len());
        match count > 0 && rows.iter().all(|row| row.ids.len() == count) {
            true => Ok(CachedRows(Rc::new(Shared {
                rows: rows.to_vec(),
                pool: pool.clone(),
                tables: RefCell::default(),
                places: OnceCell::new(),
            }))),
            false => {
                let counts: Vec<usize> = rows.iter().map(|row| row.ids.len()).collect();
                let found = format!("rows of {counts:?} new tokens");
                let needed = "at least one row, and equally many in each, at least 1";
                Err(Error::invalid("cached rows", found, needed))
            }
        }
    }

    /// The rows.
    pub(crate) fn rows(&self) -> &[NewTokens] {
        &self.0.rows
    }

    /// New tokens of each row.
    pub(crate) fn num_new(&self) -> usize {
        self.0.rows[0].ids.len()
    }

    /// New tokens of each row after which outputs are asked for.
    pub(crate) fn num_outputs(&self) -> usize {
        let most = self.0.rows.iter().map(|row| row.outputs).max();
        most.unwrap_or(1).clamp(1, self.num_new())
    }

    /// The place of each row's first new token in its sequence, if it is the same in all rows.
    pub(crate) fn common_place(&self) -> Option<usize> {
        let first = self.0.rows[0].cache.len();
        let same = self.0.rows.iter().all(|row| row.cache.len() == first);
        same.then_some(first)
    }

    /// Checks that an operation that is about to run has these rows and tokens.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(crate) fn check(&self, operation: &str, rows: usize, tokens: usize) -> Result<()> {
        match (rows, tokens) == (self.0.rows.len(), self.num_new()) {
            true => Ok(()),
            false => {
                let needed = format!(
                    "{} of {}, the new tokens",
                    self.0.rows.len(),
                    self.num_new()
                );
                let found = format!("{rows} rows of {tokens} tokens");
                Err(Error::invalid(operation, found, needed))
            }
        }
    }

    /// A number for each new token, of what `of_sequence` returns for all tokens of a sequence.
    ///
    /// # Shapes
    /// The result: rows x new tokens, u32.
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn each(
        &self,
        device: &Device,
        of_sequence: impl Fn(&[u32]) -> Vec<u32>,
    ) -> Result<Tensor> {
        let of_row = |row: &NewTokens| {
            let all = of_sequence(&row.cache.followed_by(&row.ids));
            all[row.cache.len()..].to_vec()
        };
        let numbers: Vec<u32> = self.0.rows.iter().flat_map(of_row).collect();
        Tensor::from_slice(device, &[self.0.rows.len(), self.num_new()], &numbers)
    }

    /// The place of each new token in its sequence.
    ///
    /// # Shapes
    /// The result: rows x new tokens, u32.
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn places(&self, device: &Device) -> Result<Tensor> {
        if let Some(places) = self.0.places.get() {
            return Ok(places.clone());
        }
        let of_row = |row: &NewTokens| (row.cache.len() as u32..).take(row.ids.len());
        let all: Vec<u32> = self.0.rows.iter().flat_map(of_row).collect();
        let places = Tensor::from_slice(device, &[self.0.rows.len(), self.num_new()], &all)?;
        Ok(self.0.places.get_or_init(|| places).clone())
    }

    /// Keeps the keys and values of the new tokens, of a layer with heads of this number and size, whose tokens attend to `window` tokens
    /// at most.
    ///
    /// # Shapes
    /// `keys`, `values`: (rows * new tokens) x (kv_heads * head_size).
    /// # Errors
    /// [`Error::Invalid`] if the layer holds other tokens than a sequence, as when two layers share a name;
    /// [`Error::OutOfMemory`].
    pub(crate) fn keep(
        &self,
        layer: &str,
        window: Window,
        heads: [usize; 2],
        [keys, values]: [&Tensor; 2],
    ) -> Result<Kept> {
        let Shared {
            rows, pool, tables, ..
        } = &*self.0;
        for row in rows {
            row.cache.begin_layer(layer, row.ids.len())?;
        }
        let device = keys.device();
        let known = tables.borrow().get(&window).cloned();
        let own = match known {
            Some(own) => own,
            None => {
                let own = Rc::new(PageTables::new(device, window, rows)?);
                tables.borrow_mut().insert(window, own.clone());
                own
            }
        };
        let pages = pool.layer((window, layer), (device, keys.dtype()), heads)?;
        pages.store(&own.slots, keys, values)?;
        Ok(Kept { pages, tables: own })
    }

    /// All layers have kept the new tokens' keys and values.
    ///
    /// # Errors
    /// As [`SequenceCache::commit`].
    pub(crate) fn commit(&self) -> Result<()> {
        self.0
            .rows
            .iter()
            .try_for_each(|row| row.cache.commit(&row.ids))
    }
}
