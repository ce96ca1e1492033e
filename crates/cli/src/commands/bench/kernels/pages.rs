//! Kept keys and values: a step of generation of as many texts as a batch has sequences, each with a full context.

use super::{
    Sizes,
    case::{Case, Maker, Operands},
};
use tensor::{
    DType, Tensor,
    ops::pages::{PAGE_TOKENS, PageShape, PagedShape, Pages},
};

/// A step of a layer: new keys and values are kept, and queries attend to all of them.
pub(super) fn cases(sizes: Sizes, dtype: DType) -> Vec<Case> {
    vec![store(sizes, dtype), attention(sizes, dtype)]
}

fn texts(sizes: Sizes) -> usize {
    sizes.tokens / sizes.context
}

fn pages_of_text(sizes: Sizes) -> usize {
    sizes.context.div_ceil(PAGE_TOKENS)
}

fn page_shape(sizes: Sizes) -> PageShape {
    PageShape {
        pages: texts(sizes) * pages_of_text(sizes),
        kv_heads: sizes.heads,
        head_size: sizes.hidden / sizes.heads,
    }
}

fn pages(maker: &Maker<'_>, sizes: Sizes) -> train::Result<Pages> {
    Ok(Pages::new(maker.device, maker.dtype, page_shape(sizes))?)
}

fn numbers(maker: &Maker<'_>, numbers: Vec<u32>) -> train::Result<Tensor> {
    Ok(Tensor::from_slice(
        maker.device,
        &[numbers.len()],
        &numbers,
    )?)
}

// The newest token of each text goes to the last slot of its context.
fn store(sizes: Sizes, dtype: DType) -> Case {
    let row = sizes.hidden * dtype.bytes();
    Case::with_pages(
        "store_pages",
        "layout",
        move |maker| {
            let last = |text: usize| {
                (text * pages_of_text(sizes) * PAGE_TOKENS + sizes.context - 1) as u32
            };
            let new = || maker.random(&[texts(sizes), sizes.hidden]);
            let slots = numbers(maker, (0..texts(sizes)).map(last).collect())?;
            Ok(Operands {
                pages: Some(pages(maker, sizes)?),
                table_bytes: 2 * row * texts(sizes),
                ..Operands::read([slots, new()?, new()?])
            })
        },
        |pages, operands| {
            let [slots, keys, values] = &operands.read[..] else {
                unreachable!("three operands are read");
            };
            pages.store(slots, keys, values)?;
            Ok(Vec::new())
        },
    )
}

// Each text's pages lie in their order.
fn attention(sizes: Sizes, dtype: DType) -> Case {
    let shape = PagedShape {
        sequences: texts(sizes),
        queries: 1,
        table_pages: pages_of_text(sizes),
        heads: sizes.heads,
        pages: page_shape(sizes),
        window: None,
        scale: 1.0 / (page_shape(sizes).head_size as f64).sqrt(),
        score_cap: None,
    };
    let row = sizes.hidden * dtype.bytes();
    Case::with_pages(
        "paged_attention",
        "layout",
        move |maker| {
            let all = 0..shape.pages.pages as u32;
            let held = [sizes.context as u32, 0].repeat(texts(sizes));
            Ok(Operands {
                pages: Some(pages(maker, sizes)?),
                table_bytes: 2 * row * sizes.context * texts(sizes),
                ..Operands::read([
                    maker.random(&[texts(sizes), sizes.hidden])?,
                    numbers(maker, all.collect())?,
                    numbers(maker, held)?,
                ])
            })
        },
        move |pages, operands| {
            let [q, table, held] = &operands.read[..] else {
                unreachable!("three operands are read");
            };
            Ok(vec![pages.attention(shape, q, (table, held), None)?])
        },
    )
}
