//! Codes that become numbers of f32 where they are used, a vector at a time.

use super::{CACHE_LINE, Codes};
use crate::matmul::kernel::fetch;
use hal::quantised::{self, NORMAL, Quantised, share_of_integer};
use std::marker::PhantomData;

// Lanes of the widest vector: all its codes have one scale if blocks begin at a multiple of them.
const MOST_LANES: usize = 16;

/// Rows of codes.
pub(crate) trait Decoder: Copy {
    /// A row.
    type Row: Copy;

    /// A row, counted from the decoder's first.
    fn row(self, row: usize) -> Self::Row;

    /// Asks for the codes of the row that many rows behind this one, which need not exist.
    fn fetch(self, row: Self::Row, rows: usize, column: usize);

    /// Writes what the codes of `lanes` columns from one on stand for.
    ///
    /// # Safety
    /// The row has these columns, of which the first is a multiple of `lanes`, and `out` has room for them. 16 and 8 lanes need the
    /// instructions of AVX-512 and AVX2, where there are any of x86-64.
    unsafe fn write(self, row: Self::Row, column: usize, lanes: usize, out: *mut f32);
}

/// A format of codes, as a type.
pub(crate) trait Format: Copy {
    const FORMAT: Quantised;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Int8;

impl Format for Int8 {
    const FORMAT: Quantised = Quantised::Int8;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Nf4;

impl Format for Nf4 {
    const FORMAT: Quantised = Quantised::Nf4;
}

/// The rows of a part from a row and a column on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<F> {
    codes: *const u8,
    scales: *const f32,
    // Elements of a row, and its blocks.
    columns: usize,
    blocks: usize,
    // The first column's place within its block.
    place: usize,
    format: PhantomData<F>,
}

/// The first code of a row, and the scale of its block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    codes: *const u8,
    scales: *const f32,
}

impl Codes {
    /// All rows, from a column on; `None` for another format, and if vectors would have several scales or parts of bytes.
    pub(crate) fn rows<F: Format>(self, column: usize) -> Option<Rows<F>> {
        let (part, bits) = (self.part, F::FORMAT.bits());
        let place = part.first_column + column;
        let has_bytes = bits == 8 || (part.columns.is_multiple_of(2) && column.is_multiple_of(2));
        if part.format != F::FORMAT || !place.is_multiple_of(MOST_LANES) || !has_bytes {
            return None;
        }
        Some(Rows {
            codes: self.codes.address(column * bits / 8),
            scales: self.scales.address(self.scale_of(0, column)),
            columns: part.columns,
            blocks: part.blocks_of_row().len(),
            place: place % quantised::BLOCK,
            format: PhantomData,
        })
    }
}

impl<F: Format> Rows<F> {
    /// The part from a row and a column on, a multiple of the lanes of a vector.
    pub(crate) fn from(self, row: usize, column: usize) -> Rows<F> {
        let Row { codes, scales } = self.row(row);
        let place = self.place + column;
        Rows {
            codes: codes.wrapping_add(column * F::FORMAT.bits() / 8),
            scales: scales.wrapping_add(place / quantised::BLOCK),
            place: place % quantised::BLOCK,
            ..self
        }
    }
}

impl<F: Format> Decoder for Rows<F> {
    type Row = Row;

    #[inline(always)]
    fn row(self, row: usize) -> Row {
        Row {
            codes: self
                .codes
                .wrapping_add(row * self.columns * F::FORMAT.bits() / 8),
            scales: self.scales.wrapping_add(row * self.blocks),
        }
    }

    #[inline(always)]
    fn fetch(self, row: Row, rows: usize, column: usize) {
        let bytes = |elements: usize| elements * F::FORMAT.bits() / 8;
        if bytes(column).is_multiple_of(CACHE_LINE) {
            fetch(row.codes.wrapping_add(bytes(rows * self.columns + column)));
            let block = (self.place + column) / quantised::BLOCK;
            fetch(row.scales.wrapping_add(rows * self.blocks + block));
        }
    }

    #[inline(always)]
    unsafe fn write(self, row: Row, column: usize, lanes: usize, out: *mut f32) {
        let codes = row.codes.wrapping_add(column * F::FORMAT.bits() / 8);
        // SAFETY: the caller guarantees the column, whose block has a scale.
        let scale = unsafe { *row.scales.add((self.place + column) / quantised::BLOCK) };
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller guarantees codes, room and instructions.
        unsafe {
            use super::x86;
            match (lanes, F::FORMAT) {
                (16, Quantised::Int8) => return x86::sixteen_integers(codes, scale, out),
                (16, Quantised::Nf4) => return x86::sixteen_normals(codes, scale, out),
                (8, Quantised::Int8) => return x86::eight_integers(codes, scale, out),
                (8, Quantised::Nf4) => return x86::eight_normals(codes, scale, out),
                _ => {}
            }
        }
        for lane in 0..lanes {
            // SAFETY: the caller guarantees codes and room.
            unsafe {
                let share = match F::FORMAT {
                    Quantised::Int8 => share_of_integer(*codes.add(lane)),
                    Quantised::Nf4 => {
                        let place = column % 2 + lane;
                        NORMAL[usize::from(*codes.add(place / 2) >> (place % 2 * 4) & 15)]
                    }
                };
                *out.add(lane) = share * scale;
            }
        }
    }
}
