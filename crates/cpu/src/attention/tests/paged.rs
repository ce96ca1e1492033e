//! Attention to pages has the bits of attention to the same keys in a row, and pages hold what was stored.

use super::{elements, forward, raw};
use crate::{attention::paged, element::Element, element::Real, kernels::execute, pool::Pool};
use hal::kernel::{
    AttentionForward, Kernel, LoadPages, PageShape, PagedAttention, PagedShape, StorePages,
    pages::PAGE_TOKENS,
};
use hal::{DType, random::Key};
use half::{bf16, f16};

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
    Case {
        held: &[[17, 0], [130, 64], [16, 0]],
        queries: 16,
        heads: [6, 2, 32],
        window: Some(40),
        documents: true,
        ..PLAIN
    },
    Case {
        held: &[[300, 0], [5, 128]],
        queries: 3,
        heads: [2, 1, 24],
        cap: Some(1.5),
        documents: true,
        ..PLAIN
    },
    Case {
        held: &[[100, 0]],
        heads: [8, 1, 64],
        window: Some(100),
        cap: Some(3.0),
        ..PLAIN
    },
    Case {
        held: &[[70, 0], [71, 0], [72, 0]],
        queries: 5,
        heads: [3, 3, 1],
        window: Some(1),
        ..PLAIN
    },
    Case {
        held: &[[129, 0], [128, 64]],
        queries: 2,
        heads: [2, 2, 128],
        ..PLAIN
    },
];

fn numbers<T: Element>(count: usize, sequence: u64) -> Vec<T> {
    let key = Key { seed: 5, sequence };
    let all: Vec<f64> = (0..count as u64).map(|i| key.normal(i)).collect();
    elements(&all)
}

fn nan<T: Element>(count: usize) -> Vec<T> {
    vec![T::from_acc(T::Acc::of(f64::NAN)); count]
}

// Pages of the sequences in turn from the back of the pool, so that neighbours in a sequence are none in memory.
fn table(case: &Case) -> (Vec<Vec<u32>>, usize) {
    let of_each = case
        .held
        .iter()
        .map(|held| held[0].div_ceil(PAGE_TOKENS as u32));
    let counts: Vec<u32> = of_each.collect();
    let mut next = counts.iter().sum::<u32>() + 2;
    let pages = next as usize;
    let mut tables = vec![Vec::new(); counts.len()];
    for round in 0..counts.iter().copied().max().unwrap_or(0) {
        for (table, count) in tables.iter_mut().zip(&counts) {
            if round < *count {
                next -= 1;
                table.push(next);
            }
        }
    }
    (tables, pages)
}

fn check<T: Element>(case: &Case, dtype: DType, threads: usize) {
    let pool = Pool::new(threads).unwrap();
    let [heads, kv_heads, head_size] = case.heads;
    let (tables, count) = table(case);
    let pages = PageShape {
        pages: count,
        kv_heads,
        head_size,
    };
    let table_pages = tables.iter().map(Vec::len).max().unwrap_or(0);
    let shape = PagedShape {
        sequences: case.held.len(),
        queries: case.queries,
        table_pages,
        heads,
        pages,
        window: case.window,
        scale: 0.3,
        score_cap: case.cap,
    };
    // What is not stored is not a number.
    let (mut key_pages, mut value_pages) = (
        nan::<T>(count * pages.elements()),
        nan::<T>(count * pages.elements()),
    );
    let mut q = numbers::<T>(shape.sequences * case.queries * heads * head_size, 1);
    let mut starts: Vec<u32> = Vec::new();
    let mut expected: Vec<T> = Vec::new();
    for (index, (held, table)) in case.held.iter().zip(&tables).enumerate() {
        let keys = held[0] as usize;
        let of_sequence = shape.of_sequence(keys, held[1] as usize);
        let size = keys * pages.width();
        let (mut k, mut v) = (
            numbers::<T>(size, 10 + index as u64),
            numbers::<T>(size, 20 + index as u64),
        );
        let slot = |token: usize| table[token / PAGE_TOKENS] * 64 + (token % PAGE_TOKENS) as u32;
        let mut slots: Vec<u32> = (0..keys).map(slot).collect();
        let (slots_raw, keys_raw, values_raw) = (
            raw(&mut slots, DType::U32),
            raw(&mut k, dtype),
            raw(&mut v, dtype),
        );
        let store = Kernel::StorePages(StorePages {
            shape: pages,
            tokens: keys,
            slots: slots_raw,
            keys: keys_raw,
            values: values_raw,
            key_pages: raw(&mut key_pages, dtype),
            value_pages: raw(&mut value_pages, dtype),
        });
        // SAFETY: the vectors are live and have these lengths.
        unsafe { execute(&store, &pool) }.unwrap();
        let [mut loaded_keys, mut loaded_values] = [size; 2].map(nan::<T>);
        let load = Kernel::LoadPages(LoadPages {
            shape: pages,
            tokens: keys,
            slots: slots_raw,
            key_pages: raw(&mut key_pages, dtype),
            value_pages: raw(&mut value_pages, dtype),
            keys: raw(&mut loaded_keys, dtype),
            values: raw(&mut loaded_values, dtype),
        });
        // SAFETY: as above.
        unsafe { execute(&load, &pool) }.unwrap();
        assert!(bytemuck::cast_slice::<T, u8>(&k) == bytemuck::cast_slice::<T, u8>(&loaded_keys));
        assert!(bytemuck::cast_slice::<T, u8>(&v) == bytemuck::cast_slice::<T, u8>(&loaded_values));
        let first_place = held[1] + held[0] - case.queries as u32;
        // Documents that start before what is held, inside, and at a query.
        let start = |query: u32| (first_place + query) / 37 * 37;
        let mut own: Vec<u32> = (0..case.queries as u32).map(start).collect();
        starts.extend(&own);
        let rows = case.queries * heads * head_size;
        let mut out = nan::<T>(rows);
        let mut log_sum_exp = vec![T::Acc::ZERO; heads * case.queries];
        let args = AttentionForward {
            shape: of_sequence,
            q: raw(&mut q[index * rows..][..rows], dtype),
            k: keys_raw,
            v: values_raw,
            out: raw(&mut out, dtype),
            log_sum_exp: raw(&mut log_sum_exp, dtype.accumulator()),
            documents: case.documents.then(|| raw(&mut own, DType::U32)),
        };
        // SAFETY: as above.
        unsafe { forward(&args, &pool) }.unwrap();
        expected.extend(out);
    }
    let mut found = nan::<T>(q.len());
    let mut rows: Vec<u32> = Vec::new();
    for table in &tables {
        // What lies behind a sequence's pages is not read.
        rows.extend(
            table
                .iter()
                .copied()
                .chain(std::iter::repeat(u32::MAX))
                .take(table_pages),
        );
    }
    let mut held: Vec<u32> = case.held.concat();
    let args = PagedAttention {
        shape,
        q: raw(&mut q, dtype),
        key_pages: raw(&mut key_pages, dtype),
        value_pages: raw(&mut value_pages, dtype),
        table: raw(&mut rows, DType::U32),
        held: raw(&mut held, DType::U32),
        out: raw(&mut found, dtype),
        documents: case.documents.then(|| raw(&mut starts, DType::U32)),
    };
    // SAFETY: as above.
    unsafe { paged(&args, &pool) }.unwrap();
    let [bits, expected] = [&found, &expected].map(|all| bytemuck::cast_slice::<T, u8>(all));
    assert!(bits == expected, "{shape:?} of {dtype}");
    assert!(
        !super::wide(&found).iter().any(|x| x.is_nan()),
        "{shape:?} of {dtype}"
    );
}

#[test]
fn attention_to_pages_has_the_bits_of_attention_to_rows() {
    for case in &CASES {
        for threads in [1, 3] {
            check::<f64>(case, DType::F64, threads);
            check::<f32>(case, DType::F32, threads);
            check::<bf16>(case, DType::Bf16, threads);
            check::<f16>(case, DType::F16, threads);
        }
    }
}

#[test]
fn slots_and_pages_that_do_not_exist_touch_no_memory() {
    let pool = Pool::new(1).unwrap();
    let pages = PageShape {
        pages: 1,
        kv_heads: 1,
        head_size: 2,
    };
    let mut slots = [64, u32::MAX, 3];
    let (mut keys, mut values) = ([1_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [7_f32; 6]);
    let [mut key_pages, mut value_pages] = [[9_f32; 128]; 2];
    let store = Kernel::StorePages(StorePages {
        shape: pages,
        tokens: 3,
        slots: raw(&mut slots, DType::U32),
        keys: raw(&mut keys, DType::F32),
        values: raw(&mut values, DType::F32),
        key_pages: raw(&mut key_pages, DType::F32),
        value_pages: raw(&mut value_pages, DType::F32),
    });
    // SAFETY: the arrays are live and have these lengths.
    unsafe { execute(&store, &pool) }.unwrap();
    let changed =
        |all: &[f32]| -> Vec<usize> { (0..all.len()).filter(|at| all[*at] != 9.0).collect() };
    assert_eq!(changed(&key_pages), [3, 64 + 3]);
    assert_eq!(changed(&value_pages), [6, 7]);
    let [mut loaded_keys, mut loaded_values] = [[9_f32; 6]; 2];
    let load = Kernel::LoadPages(LoadPages {
        shape: pages,
        tokens: 3,
        slots: raw(&mut slots, DType::U32),
        key_pages: raw(&mut key_pages, DType::F32),
        value_pages: raw(&mut value_pages, DType::F32),
        keys: raw(&mut loaded_keys, DType::F32),
        values: raw(&mut loaded_values, DType::F32),
    });
    // SAFETY: as above.
    unsafe { execute(&load, &pool) }.unwrap();
    assert_eq!(loaded_keys, [0.0, 0.0, 0.0, 0.0, 5.0, 6.0]);
    assert_eq!(loaded_values, [0.0, 0.0, 0.0, 0.0, 7.0, 7.0]);
    // A sequence of more keys than the table's page has, of none, and pages that do not exist.
    let (mut table, mut held) = ([7, 0, u32::MAX], [[500, 0], [0, 0], [5, u32::MAX]].concat());
    let (mut q, mut out) = ([1_f32; 6], [9_f32; 6]);
    let args = PagedAttention {
        shape: PagedShape {
            sequences: 3,
            queries: 1,
            table_pages: 1,
            heads: 1,
            pages,
            window: None,
            scale: 1.0,
            score_cap: None,
        },
        q: raw(&mut q, DType::F32),
        key_pages: raw(&mut key_pages, DType::F32),
        value_pages: raw(&mut value_pages, DType::F32),
        table: raw(&mut table, DType::U32),
        held: raw(&mut held, DType::U32),
        out: raw(&mut out, DType::F32),
        documents: None,
    };
    // SAFETY: as above.
    unsafe { paged(&args, &pool) }.unwrap();
    assert_eq!(out[2..4], [0.0, 0.0]);
    assert!(out.iter().all(|x| x.is_finite()), "{out:?}");
}
