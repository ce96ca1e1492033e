//! The pages of a pass's rows, as kernels read them.

use super::{NewTokens, pool::Window, sequence::Table};
use std::cell::OnceCell;
use tensor::{Device, Result, Tensor};

/// The pages that the layers of one window have for the rows of a pass.
#[derive(Debug)]
pub(crate) struct PageTables {
    /// A number for each new token: where its keys and values are kept.
    pub(crate) slots: Tensor,
    /// Rows x the most pages of a row.
    pub(crate) pages: Tensor,
    /// Rows x 2: keys, those of the new tokens included, and the place of the first.
    pub(crate) held: Tensor,
    /// The most pages of a row.
    pub(crate) num_pages: usize,
    rows: Vec<RowTable>,
}

/// Those of one row.
#[derive(Debug)]
pub(crate) struct RowTable {
    table: Table,
    /// The place of the first key held.
    pub(crate) first: usize,
    /// How many are held, those of the new tokens included.
    pub(crate) keys: usize,
    slots: OnceCell<Tensor>,
}

impl PageTables {
    /// Pages of these rows, with room for their new tokens.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](tensor::Error::OutOfMemory).
    pub(super) fn new(device: &Device, window: Window, rows: &[NewTokens]) -> Result<PageTables> {
        let of_row = |row: &NewTokens| {
            let table = row.cache.with_room(window, row.ids.len());
            let first = table.first;
            RowTable {
                table,
                first,
                keys: row.cache.len() + row.ids.len() - first,
                slots: OnceCell::new(),
            }
        };
        let own: Vec<RowTable> = rows.iter().map(of_row).collect();
        let num_pages = own.iter().map(|row| row.table.pages.len()).max();
        let num_pages = num_pages.unwrap_or(0);
        let mut numbers: Vec<u32> = Vec::new();
        for (row, new) in own.iter().zip(rows) {
            let end = row.first + row.keys;
            numbers.extend(row.table.slots(end - new.ids.len()..end));
        }
        let slots = numbers.len();
        for row in &own {
            let rest = std::iter::repeat_n(0, num_pages - row.table.pages.len());
            numbers.extend(row.table.pages.iter().copied().chain(rest));
        }
        // Places of tokens are below 2^32, as slots are.
        numbers.extend(
            own.iter()
                .flat_map(|row| [row.keys as u32, row.first as u32]),
        );
        let all = Tensor::from_slice(device, &[numbers.len()], &numbers)?;
        let pages = own.len() * num_pages;
        Ok(PageTables {
            slots: all.rows(0, slots)?,
            pages: all.rows(slots, pages)?,
            held: all.rows(slots + pages, 2 * own.len())?,
            num_pages,
            rows: own,
        })
    }

    /// Each row's.
    pub(crate) fn rows(&self) -> &[RowTable] {
        &self.rows
    }
}

impl RowTable {
    /// Where the keys and values of all its tokens lie.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](tensor::Error::OutOfMemory).
    pub(crate) fn slots(&self, device: &Device) -> Result<Tensor> {
        if let Some(slots) = self.slots.get() {
            return Ok(slots.clone());
        }
        let all: Vec<u32> = self
            .table
            .slots(self.first..self.first + self.keys)
            .collect();
        let slots = Tensor::from_slice(device, &[all.len()], &all)?;
        Ok(self.slots.get_or_init(|| slots).clone())
    }
}
