//! Where the documents of sequences start. C++: `documents.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::warps,
};
use hal::{Result, kernel::Documents};

params! {
    struct DocumentsParams { ids: u64, out: u64, sequences: u64, sequence: u64, end: u32, places: u32, }
}

pub(super) const LAYOUTS: &[Layout] = &[DocumentsParams::LAYOUT];

pub(super) fn documents(args: &Documents, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    if args.sequences * args.sequence == 0 {
        return Ok(Vec::new());
    }
    let params = DocumentsParams {
        ids: args.ids.addr,
        out: args.out.addr,
        sequences: args.sequences as u64,
        sequence: args.sequence as u64,
        end: args.end,
        places: u32::from(args.places),
    };
    let (grid, block) = warps(args.sequences, traits);
    Ok(vec![Launch::new(
        Name::of("documents"),
        grid,
        block,
        &params,
    )])
}
