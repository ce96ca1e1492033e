//! Keys and values in pages, and attention to them.

use crate::{
    machine::compare,
    memory::{FLOATS, Memory, random},
};
use hal::{
    DType, Kernel,
    kernel::{LoadPages, PageShape, PagedAttention, PagedShape, StorePages, pages::PAGE_TOKENS},
};

// Pages, heads and their size.
const SHAPES: [[usize; 3]; 4] = [[3, 2, 16], [1, 1, 3], [4, 3, 20], [2, 1, 64]];

fn page_shape([pages, kv_heads, head_size]: [usize; 3]) -> PageShape {
    PageShape {
        pages,
        kv_heads,
        head_size,
    }
}

#[test]
fn tokens_go_to_their_slots_and_back() {
    for sizes in SHAPES {
        let shape = page_shape(sizes);
        let slots = shape.pages * PAGE_TOKENS;
        // Neighbours, all in disorder, one, and one that does not exist.
        let chosen: [Vec<f64>; 4] = [
            (30..60).map(f64::from).collect(),
            (0..slots).map(|i| (i * 37 % slots) as f64).collect(),
            vec![(slots - 1) as f64],
            vec![5.0, slots as f64, f64::from(u32::MAX), 9.0],
        ];
        for (index, slots) in chosen.iter().enumerate() {
            let tokens = slots.len();
            for (at, (dtype, _)) in FLOATS.into_iter().enumerate() {
                let of =
                    |count: usize, seed| Memory::new(dtype, &random(count, seed), (index + at) % 2);
                let elements = shape.pages * shape.elements();
                let memories = [
                    Memory::new(DType::U32, slots, 0),
                    of(tokens * shape.width(), 1),
                    of(tokens * shape.width(), 2),
                    of(elements, 3),
                    of(elements, 4),
                ];
                compare(&memories, 0.0, |m| {
                    Kernel::StorePages(StorePages {
                        shape,
                        tokens,
                        slots: m[0],
                        keys: m[1],
                        values: m[2],
                        key_pages: m[3],
                        value_pages: m[4],
                    })
                });
                compare(&memories, 0.0, |m| {
                    Kernel::LoadPages(LoadPages {
                        shape,
                        tokens,
                        slots: m[0],
                        keys: m[1],
                        values: m[2],
                        key_pages: m[3],
                        value_pages: m[4],
                    })
                });
            }
        }
    }
}

struct Case {
    // Keys that each sequence holds, and the place of its first.
    held: &'static [[u32; 2]],
    queries: usize,
    heads: [usize; 3],
    window: Option<usize>,
    cap: Option<f64>,
    documents: bool,
}

// Each of the newest tokens alone, on all keys.
const PLAIN: Case = Case {
    held: &[],
    queries: 1,
    heads: [1, 1, 1],
    window: None,
    cap: None,
    documents: false,
};

const CASES: [Case; 6] = [
    Case {
        held: &[[1, 0], [64, 0], [65, 0], [200, 0]],
        heads: [4, 4, 16],
        ..PLAIN
    },
    // Parts of eight pages, of which some have no key.
    Case {
        held: &[[1100, 0], [513, 0], [3, 64]],
        heads: [2, 1, 8],
        ..PLAIN
    },
    Case {
        held: &[[17, 0], [130, 64], [16, 0]],
        queries: 16,
        heads: [6, 2, 32],
        window: Some(40),
        documents: true,
        ..PLAIN
    },
    Case {
        held: &[[600, 0], [5, 128]],
        queries: 3,
        heads: [2, 1, 24],
        window: Some(50),
        cap: Some(1.5),
        documents: true,
    },
    Case {
        held: &[[70, 0], [71, 0]],
        queries: 5,
        heads: [3, 3, 1],
        window: Some(1),
        ..PLAIN
    },
    Case {
        held: &[[129, 0]],
        queries: 2,
        heads: [4, 1, 160],
        cap: Some(3.0),
        ..PLAIN
    },
];

#[test]
fn attention_to_pages_is_that_of_the_reference() {
    for case in &CASES {
        let [heads, kv_heads, head_size] = case.heads;
        let counts: Vec<usize> = case
            .held
            .iter()
            .map(|held| (held[0] as usize).div_ceil(PAGE_TOKENS))
            .collect();
        let (table_pages, pages) = (
            counts.iter().copied().max().unwrap_or(0),
            counts.iter().sum::<usize>() + 1,
        );
        let shape = PagedShape {
            sequences: case.held.len(),
            queries: case.queries,
            table_pages,
            heads,
            pages: page_shape([pages, kv_heads, head_size]),
            window: case.window,
            scale: 0.4,
            score_cap: case.cap,
        };
        let mut table = Vec::new();
        let mut next = pages;
        for count in &counts {
            // What lies behind a sequence's pages is not read.
            table.extend((0..*count).map(|page| (next - 1 - page) as f64));
            table.extend(std::iter::repeat_n(
                f64::from(u32::MAX),
                table_pages - count,
            ));
            next -= count;
        }
        // Neither is what lies behind its last key: the values there are no numbers.
        let unread = |values: &mut [f64], of_keys: bool| {
            for (row, held) in case.held.iter().enumerate() {
                let keys = held[0] as usize;
                let page = table[row * table_pages + (keys - 1) / PAGE_TOKENS] as usize;
                for token in (keys - 1) % PAGE_TOKENS + 1..PAGE_TOKENS {
                    for column in 0..shape.pages.width() {
                        let at = match of_keys {
                            true => (page * shape.pages.width() + column) * PAGE_TOKENS + token,
                            false => (page * PAGE_TOKENS + token) * shape.pages.width() + column,
                        };
                        values[at] = f64::INFINITY;
                    }
                }
            }
        };
        let elements = pages * shape.pages.elements();
        let (mut keys, mut values) = (random(elements, 2), random(elements, 3));
        unread(&mut keys, true);
        unread(&mut values, false);
        let first_places = case
            .held
            .iter()
            .map(|held| held[1] + held[0] - case.queries as u32);
        let starts: Vec<f64> = first_places
            .flat_map(|first| (0..case.queries as u32).map(move |query| (first + query) / 37 * 37))
            .map(f64::from)
            .collect();
        let held: Vec<f64> = case.held.concat().into_iter().map(f64::from).collect();
        for (at, (dtype, spacing)) in FLOATS.into_iter().enumerate() {
            let rows = shape.sequences * case.queries * heads * head_size;
            let memories = [
                Memory::new(dtype, &random(rows, 1), at % 2),
                Memory::new(dtype, &keys, 0),
                Memory::new(dtype, &values, at % 3),
                Memory::new(DType::U32, &table, 0),
                Memory::new(DType::U32, &held, 0),
                Memory::new(dtype, &vec![9.0; rows], 0),
                Memory::new(DType::U32, &starts, 0),
            ];
            compare(&memories, 16.0 * spacing, |m| {
                Kernel::PagedAttention(PagedAttention {
                    shape,
                    q: m[0],
                    key_pages: m[1],
                    value_pages: m[2],
                    table: m[3],
                    held: m[4],
                    out: m[5],
                    documents: case.documents.then_some(m[6]),
                })
            });
        }
    }
}
