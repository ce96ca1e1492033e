//! Keys and values in pages: see [`hal::kernel::pages`].

use super::{attention::check_sizes, copy, float, holds, launch};
use crate::{Arguments, Device, Tensor, shape::product};
use hal::{
    DType, Error, Kernel, Result,
    kernel::{LoadPages, PagedAttention, StorePages, pages::MOST_PAGED_QUERIES},
};

pub use hal::kernel::{PageShape, PagedShape, pages::PAGE_TOKENS};

/// The keys and values of a layer: slots for tokens, in pages of [`PAGE_TOKENS`]. Cloning clones the handles.
#[derive(Clone, Debug)]
pub struct Pages {
    shape: PageShape,
    // Pages x elements.
    keys: Tensor,
    values: Tensor,
}

impl Pages {
    /// Pages that hold zeros.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers, and for more slots than a u32 counts; [`Error::OutOfMemory`].
    pub fn new(device: &Device, dtype: DType, shape: PageShape) -> Result<Pages> {
        let sizes = [PAGE_TOKENS, shape.kv_heads, shape.head_size];
        let elements = product("pages", &sizes)?;
        let slots = product("pages", &[shape.pages, PAGE_TOKENS])?;
        if u32::try_from(slots).is_err() {
            let found = format!("{} pages of {PAGE_TOKENS} tokens", shape.pages);
            return Err(Error::invalid("pages", found, "fewer than 2^32 tokens"));
        }
        let zeros = || Tensor::zeros(device, dtype, &[shape.pages, elements]);
        let pages = Pages {
            shape,
            keys: zeros()?,
            values: zeros()?,
        };
        float("pages", &pages.keys)?;
        Ok(pages)
    }

    /// Their sizes.
    pub fn shape(&self) -> PageShape {
        self.shape
    }

    /// Where they lie.
    pub fn device(&self) -> &Device {
        self.keys.device()
    }

    /// The type of their elements.
    pub fn dtype(&self) -> DType {
        self.keys.dtype()
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.keys.bytes() + self.values.bytes()
    }

    /// Writes `count` pages from `first` on to those of `to` from `place` on.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they do not exist or have other sizes.
    pub fn copy_to(&self, first: usize, count: usize, to: &Pages, place: usize) -> Result<()> {
        copy(&self.keys.rows(first, count)?, &to.keys.rows(place, count)?)?;
        copy(
            &self.values.rows(first, count)?,
            &to.values.rows(place, count)?,
        )
    }

    /// Writes tokens' keys and values to their slots. Slots that do not exist are skipped; of equal ones, it is unspecified whose stay.
    ///
    /// # Shapes
    /// `slots`: tokens, u32. `keys`, `values`: tokens x (kv_heads * head_size), of the type of the pages.
    /// # Errors
    /// [`Error::Invalid`] if a tensor has another size or type.
    pub fn store(&self, slots: &Tensor, keys: &Tensor, values: &Tensor) -> Result<()> {
        const NAME: &str = "store_pages";
        let tokens = slots.num_elements();
        holds(NAME, "slots", slots, tokens, DType::U32)?;
        let elements = product(NAME, &[tokens, self.shape.width()])?;
        holds(NAME, "keys", keys, elements, self.dtype())?;
        holds(NAME, "values", values, elements, self.dtype())?;
        let mut args = Arguments::default();
        let kernel = StorePages {
            shape: self.shape,
            tokens,
            slots: args.take(slots),
            keys: args.take(keys),
            values: args.take(values),
            key_pages: args.take(&self.keys),
            value_pages: args.take(&self.values),
        };
        launch(&mut args, Kernel::StorePages(kernel))
    }

    /// The keys and the values of slots; those of slots that do not exist are 0.
    ///
    /// # Shapes
    /// `slots`: tokens, u32. The results: tokens x (kv_heads * head_size).
    /// # Errors
    /// [`Error::Invalid`] for slots of another type; [`Error::OutOfMemory`].
    pub fn load(&self, slots: &Tensor) -> Result<[Tensor; 2]> {
        let tokens = slots.num_elements();
        holds("load_pages", "slots", slots, tokens, DType::U32)?;
        let shape = [tokens, self.shape.width()];
        let empty = || Tensor::empty(self.device(), self.dtype(), &shape);
        let (keys, values) = (empty()?, empty()?);
        let mut args = Arguments::default();
        let kernel = LoadPages {
            shape: self.shape,
            tokens,
            slots: args.take(slots),
            key_pages: args.take(&self.keys),
            value_pages: args.take(&self.values),
            keys: args.take(&keys),
            values: args.take(&values),
        };
        launch(&mut args, Kernel::LoadPages(kernel))?;
        Ok([keys, values])
    }

    /// Attention of the newest tokens of sequences to all tokens that they hold. `table` has the pages of each sequence; `held` how many
    /// keys it holds, its newest tokens' own included, and the place of the first in its complete sequence. Pages that do not exist and
    /// fewer keys than newest tokens leave the result of a sequence unspecified; what lies behind its keys is not read.
    ///
    /// # Shapes
    /// `q` and the result: (sequences * queries) x (heads * head_size). `table`: sequences x table_pages, u32. `held`: sequences x 2, u32.
    /// `documents`: as in [`attention`](fn@super::attention).
    /// # Errors
    /// [`Error::Invalid`] for pages of other sizes, too many queries, no page, and as [`attention`](fn@super::attention).
    pub fn attention(
        &self,
        shape: PagedShape,
        q: &Tensor,
        (table, held): (&Tensor, &Tensor),
        documents: Option<&Tensor>,
    ) -> Result<Tensor> {
        const NAME: &str = "paged_attention";
        float(NAME, q)?;
        let refuse = |found: String, needed: String| Err(Error::invalid(NAME, found, needed));
        if shape.pages != self.shape || q.dtype() != self.dtype() {
            let found = format!("{:?} of {}", shape.pages, q.dtype());
            return refuse(found, format!("{:?} of {}", self.shape, self.dtype()));
        }
        if shape.queries > MOST_PAGED_QUERIES {
            let found = format!("{} queries of a sequence", shape.queries);
            return refuse(found, format!("at most {MOST_PAGED_QUERIES}"));
        }
        if shape.pages.pages == 0 || shape.table_pages == 0 {
            let found = format!(
                "{} pages, {} in a row of the table",
                shape.pages.pages, shape.table_pages
            );
            return refuse(found, "at least one of each".into());
        }
        let most = product(NAME, &[shape.table_pages, PAGE_TOKENS])?;
        check_sizes(&shape.of_sequence(most, 0))?;
        let queries = product(NAME, &[shape.sequences, shape.queries])?;
        let elements = product(NAME, &[queries, shape.heads, shape.pages.head_size])?;
        holds(NAME, "queries", q, elements, q.dtype())?;
        let rows = product(NAME, &[shape.sequences, shape.table_pages])?;
        holds(NAME, "table", table, rows, DType::U32)?;
        let numbers = product(NAME, &[shape.sequences, 2])?;
        holds(NAME, "numbers of keys", held, numbers, DType::U32)?;
        if let Some(starts) = documents {
            holds(NAME, "documents", starts, queries, DType::U32)?;
        }
        let out = Tensor::empty(q.device(), q.dtype(), q.shape())?;
        let mut args = Arguments::default();
        let kernel = PagedAttention {
            shape,
            q: args.take(q),
            key_pages: args.take(&self.keys),
            value_pages: args.take(&self.values),
            table: args.take(table),
            held: args.take(held),
            out: args.take(&out),
            documents: documents.map(|starts| args.take(starts)),
        };
        launch(&mut args, Kernel::PagedAttention(kernel))?;
        Ok(out)
    }
}
