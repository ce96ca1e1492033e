//! The join of the attention of two blocks of keys. C++: `attention_join.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{pack, rows},
};
use hal::{Result, kernel::AttentionJoin};

params! {
    struct AttentionJoinParams {
        sequences: u64,
        queries: u64,
        heads: u64,
        head_size: u64,
        out: u64,
        log_sum_exp: u64,
        block: u64,
        block_log_sum_exp: u64,
        joined: u64,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[AttentionJoinParams::LAYOUT];

pub(super) fn join(args: &AttentionJoin, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let name = Name::of("attention_join_").and(traits.float("attention_join", args.block.dtype)?);
    let heads = args.sequences * args.queries * args.heads;
    if heads * args.head_size == 0 {
        return Ok(Vec::new());
    }
    let params = AttentionJoinParams {
        sequences: args.sequences as u64,
        queries: args.queries as u64,
        heads: args.heads as u64,
        head_size: args.head_size as u64,
        out: args.out.addr,
        log_sum_exp: args.log_sum_exp.addr,
        block: args.block.addr,
        block_log_sum_exp: args.block_log_sum_exp.addr,
        joined: args.joined.addr,
    };
    let (grid, block) = rows(heads, args.head_size, pack(args.block.dtype));
    Ok(vec![Launch::new(name, grid, block, &params)])
}
