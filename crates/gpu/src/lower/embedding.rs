//! Look-up in a sharded table, and its gradient. C++: `embedding.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{pack, rows, warps},
};
use hal::{
    Error, Result,
    kernel::{EmbeddingBackward, EmbeddingForward},
};

params! {
    struct EmbeddingForwardParams {
        table: u64,
        ids: u64,
        out: u64,
        rows: u64,
        columns: u64,
        table_rows: u64,
        first_row: u64,
    }
    struct EmbeddingLinksParams { ids: u64, links: u64, rows: u64, }
    struct EmbeddingBackwardParams {
        d_out: u64,
        ids: u64,
        links: u64,
        d_table: u64,
        rows: u64,
        columns: u64,
        table_rows: u64,
        first_row: u64,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[
    EmbeddingForwardParams::LAYOUT,
    EmbeddingLinksParams::LAYOUT,
    EmbeddingBackwardParams::LAYOUT,
];

/// The index of an id shares its word with one bit, and the largest index means "none".
const MAX_IDS: usize = 0x7fff_ffff;

pub(super) fn embedding_forward(
    args: &EmbeddingForward,
    traits: &DeviceTraits,
) -> Result<Vec<Launch>> {
    let name =
        Name::of("embedding_forward_").and(traits.float("embedding_forward", args.table.dtype)?);
    if args.rows * args.columns == 0 {
        return Ok(Vec::new());
    }
    let params = EmbeddingForwardParams {
        table: args.table.addr,
        ids: args.ids.addr,
        out: args.out.addr,
        rows: args.rows as u64,
        columns: args.columns as u64,
        table_rows: args.table_rows as u64,
        first_row: args.first_row as u64,
    };
    let (grid, block) = rows(args.rows, args.columns, pack(args.table.dtype));
    Ok(vec![Launch::new(name, grid, block, &params)])
}

pub(super) fn embedding_backward_workspace(args: &EmbeddingBackward) -> usize {
    args.rows * size_of::<u32>()
}

/// The first launch links each id to the next equal one. In the second, the first of equal ids adds the gradients of
/// all.
pub(super) fn embedding_backward(
    args: &EmbeddingBackward,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<Vec<Launch>> {
    let name =
        Name::of("embedding_backward_").and(traits.float("embedding_backward", args.d_out.dtype)?);
    if args.rows > MAX_IDS {
        let (found, needed) = (format!("{} ids", args.rows), format!("at most {MAX_IDS}"));
        return Err(Error::invalid("embedding_backward", found, needed));
    }
    if args.rows * args.columns == 0 {
        return Ok(Vec::new());
    }
    let links = EmbeddingLinksParams {
        ids: args.ids.addr,
        links: workspace,
        rows: args.rows as u64,
    };
    let params = EmbeddingBackwardParams {
        d_out: args.d_out.addr,
        ids: args.ids.addr,
        links: workspace,
        d_table: args.d_table.addr,
        rows: args.rows as u64,
        columns: args.columns as u64,
        table_rows: args.table_rows as u64,
        first_row: args.first_row as u64,
    };
    let (links_grid, links_block) = warps(args.rows, traits);
    let (grid, block) = rows(args.rows, args.columns, pack(args.d_out.dtype));
    Ok(vec![
        Launch::new(Name::of("embedding_links"), links_grid, links_block, &links),
        Launch::new(name, grid, block, &params),
    ])
}
