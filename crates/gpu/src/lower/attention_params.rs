//! What the kernels of attention take. C++: `attention.h`.

use super::{
    dropout::{RandomKey, threshold},
    layouts::{Layout, params},
};
use bytemuck::Zeroable;
use hal::{
    RawSlice,
    kernel::{AttentionBackward, AttentionForward, AttentionShape},
};

params! {
    struct AttentionSizes {
        sequences: u64,
        queries: u64,
        keys: u64,
        first_query: u64,
        window: u64,
        first_key: u64,
        documents: u64,
        heads: u64,
        kv_heads: u64,
        head_size: u64,
        scale: f64,
        score_cap: f64,
        key: RandomKey,
        global_heads: u64,
        global_sequence: u64,
        first_weight: u64,
        kept: f64,
        threshold: u32,
        drops: u32,
        tile_rows: u32,
        tile_others: u32,
    }
    struct AttentionDeltaParams { sizes: AttentionSizes, out: u64, d_out: u64, delta: u64, }
    struct AttentionForwardParams { sizes: AttentionSizes, q: u64, k: u64, v: u64, out: u64, log_sum_exp: u64, }
    struct AttentionBackwardParams {
        sizes: AttentionSizes,
        q: u64,
        k: u64,
        v: u64,
        d_out: u64,
        log_sum_exp: u64,
        delta: u64,
        d_q: u64,
        d_k: u64,
        d_v: u64,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[
    AttentionSizes::LAYOUT,
    AttentionDeltaParams::LAYOUT,
    AttentionForwardParams::LAYOUT,
    AttentionBackwardParams::LAYOUT,
];

impl AttentionSizes {
    pub(super) fn new(
        shape: &AttentionShape,
        documents: Option<RawSlice>,
        [tile_rows, tile_others]: [u32; 2],
    ) -> Self {
        let window = shape.closing_window();
        // From there on every query meets every key, or none, so positions stay as small as the sizes.
        let last_place = shape.keys.saturating_add(window.unwrap_or(0));
        let sizes = AttentionSizes {
            sequences: shape.sequences as u64,
            queries: shape.queries as u64,
            keys: shape.keys as u64,
            first_query: shape.first_query.min(last_place) as u64,
            window: window.unwrap_or(0) as u64,
            first_key: shape.first_key as u64,
            documents: documents.map_or(0, |starts| starts.addr),
            heads: shape.heads as u64,
            kv_heads: shape.kv_heads as u64,
            head_size: shape.head_size as u64,
            scale: shape.scale,
            score_cap: shape.score_cap.unwrap_or(0.0),
            tile_rows,
            tile_others,
            ..Zeroable::zeroed()
        };
        let Some(dropout) = shape.dropout else {
            return sizes;
        };
        AttentionSizes {
            key: dropout.key.into(),
            global_heads: dropout.global_heads as u64,
            global_sequence: dropout.sequence as u64,
            first_weight: shape.first_weight(&dropout),
            kept: 1.0 / (1.0 - dropout.probability),
            threshold: threshold(dropout.probability),
            drops: 1,
            ..sizes
        }
    }
}

impl AttentionForwardParams {
    pub(super) fn new(args: &AttentionForward, tile: [u32; 2]) -> Self {
        AttentionForwardParams {
            sizes: AttentionSizes::new(&args.shape, args.documents, tile),
            q: args.q.addr,
            k: args.k.addr,
            v: args.v.addr,
            out: args.out.addr,
            log_sum_exp: args.log_sum_exp.addr,
        }
    }
}

impl AttentionBackwardParams {
    pub(super) fn new(args: &AttentionBackward, tile: [u32; 2], delta: u64) -> Self {
        AttentionBackwardParams {
            sizes: AttentionSizes::new(&args.shape, args.documents, tile),
            q: args.q.addr,
            k: args.k.addr,
            v: args.v.addr,
            d_out: args.d_out.addr,
            log_sum_exp: args.log_sum_exp.addr,
            delta,
            d_q: args.d_q.addr,
            d_k: args.d_k.addr,
            d_v: args.d_v.addr,
        }
    }
}
