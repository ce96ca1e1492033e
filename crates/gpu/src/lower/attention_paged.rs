//! Attention of few queries to pages. C++: `attention_paged.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{blocks_y, rows},
};
use hal::{
    DType, Error, Result,
    kernel::{PagedAttention, PagedShape, pages::PAGE_TOKENS},
};

params! {
    struct PagedAttentionParams {
        q: u64,
        key_pages: u64,
        value_pages: u64,
        table: u64,
        held: u64,
        documents: u64,
        out: u64,
        parts: u64,
        queries: u64,
        table_pages: u64,
        heads: u64,
        kv_heads: u64,
        head_size: u64,
        pages: u64,
        window: u64,
        scale: f64,
        score_cap: f64,
        sequences: u64,
        splits: u32,
        split_pages: u32,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[PagedAttentionParams::LAYOUT];

/// Keys of a step of a block, and its threads, as in `attention_paged.h`.
const KEYS: u32 = 2 * PAGE_TOKENS as u32;
/// Pages of a block: few, so that one long sequence occupies many multiprocessors. It does not depend on what else runs, so that a
/// request's sums do not either.
const SPLIT_PAGES: usize = 8;
/// The rows that a block may have: with more, their sums would exceed a thread's registers.
const ROWS: [usize; 2] = [1, 4];
/// Shared memory of a block: every device offers this much.
const MOST_SHARED: u32 = 48 << 10;

fn splits(shape: &PagedShape) -> usize {
    shape.table_pages.div_ceil(SPLIT_PAGES)
}

/// What parts of sequences find, where they have several.
pub(super) fn workspace(args: &PagedAttention) -> usize {
    let (shape, splits) = (&args.shape, splits(&args.shape));
    if splits == 1 {
        return 0;
    }
    let rows = shape.sequences * splits * shape.heads * shape.queries;
    rows * (shape.pages.head_size + 2) * args.q.dtype.accumulator().bytes()
}

pub(super) fn attention(
    args: &PagedAttention,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<Vec<Launch>> {
    const NAME: &str = "paged_attention";
    let (shape, suffix) = (&args.shape, traits.float(NAME, args.q.dtype)?);
    if args.out.len == 0 {
        return Ok(Vec::new());
    }
    let (heads, size) = (shape.pages.kv_heads, shape.pages.head_size);
    let own_rows = shape.heads / heads * shape.queries;
    let (of_block, shared) = rows_of_block(shape, own_rows, args.q.dtype, traits)?;
    let params = PagedAttentionParams {
        q: args.q.addr,
        key_pages: args.key_pages.addr,
        value_pages: args.value_pages.addr,
        table: args.table.addr,
        held: args.held.addr,
        documents: args.documents.map_or(0, |starts| starts.addr),
        out: args.out.addr,
        parts: workspace,
        queries: shape.queries as u64,
        table_pages: shape.table_pages as u64,
        heads: shape.heads as u64,
        kv_heads: heads as u64,
        head_size: size as u64,
        pages: shape.pages.pages as u64,
        window: shape.window.unwrap_or(0) as u64,
        scale: shape.scale,
        score_cap: shape.score_cap.unwrap_or(0.0),
        sequences: shape.sequences as u64,
        splits: splits(shape) as u32,
        split_pages: SPLIT_PAGES as u32,
    };
    let grid = [
        params.splits,
        blocks_y(NAME, "groups of heads", heads * own_rows.div_ceil(of_block))?,
        blocks_y(NAME, "sequences", shape.sequences)?,
    ];
    let name = Name::of("paged_attention_")
        .and(of_block)
        .and("_")
        .and(suffix);
    let mut launches = vec![Launch::new(name, grid, [KEYS, 1, 1], &params).with_shared(shared)];
    if params.splits > 1 {
        let (grid, block) = rows(shape.sequences * shape.heads * shape.queries, size, 1);
        let name = Name::of("paged_attention_join_").and(suffix);
        launches.push(Launch::new(name, grid, block, &params));
    }
    Ok(launches)
}

/// The rows of a block of queries, and its shared memory.
fn rows_of_block(
    shape: &PagedShape,
    rows: usize,
    dtype: DType,
    traits: &DeviceTraits,
) -> Result<(usize, u32)> {
    let size = shape.pages.head_size;
    let groups = KEYS as usize / size.next_power_of_two().min(KEYS as usize);
    let bytes = |rows: usize| {
        let numbers = rows * (size + KEYS as usize + groups * size + 3);
        numbers.saturating_mul(dtype.accumulator().bytes())
    };
    let limit = traits.shared_bytes_per_block.min(MOST_SHARED) as usize;
    let fits = |of_block: &usize| bytes(*of_block) <= limit;
    let enough = ROWS.into_iter().find(|of_block| rows <= *of_block);
    let found = enough.into_iter().chain(ROWS.into_iter().rev()).find(fits);
    let of_block = found.ok_or_else(|| {
        let found = format!(
            "heads of {size} elements of {dtype}, {} bytes of shared memory",
            bytes(1)
        );
        Error::invalid("paged_attention", found, format!("at most {limit} bytes"))
    })?;
    Ok((of_block, bytes(of_block) as u32))
}
