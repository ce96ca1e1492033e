//! Keys and values in pages. C++: `pages.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{pack, rows},
};
use hal::{
    Result,
    kernel::{LoadPages, StorePages, pages::PAGE_TOKENS},
};

params! {
    struct PagesParams {
        slots: u64,
        keys: u64,
        values: u64,
        key_pages: u64,
        value_pages: u64,
        tokens: u64,
        width: u64,
        num_slots: u64,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[PagesParams::LAYOUT];

pub(super) fn store(args: &StorePages, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let params = PagesParams {
        slots: args.slots.addr,
        keys: args.keys.addr,
        values: args.values.addr,
        key_pages: args.key_pages.addr,
        value_pages: args.value_pages.addr,
        tokens: args.tokens as u64,
        width: args.shape.width() as u64,
        num_slots: (args.shape.pages * PAGE_TOKENS) as u64,
    };
    let suffix = traits.float("store_pages", args.keys.dtype)?;
    let name = Name::of("store_pages_").and(suffix);
    Ok(launch(name, pack(args.keys.dtype), &params))
}

pub(super) fn load(args: &LoadPages, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let params = PagesParams {
        slots: args.slots.addr,
        keys: args.keys.addr,
        values: args.values.addr,
        key_pages: args.key_pages.addr,
        value_pages: args.value_pages.addr,
        tokens: args.tokens as u64,
        width: args.shape.width() as u64,
        num_slots: (args.shape.pages * PAGE_TOKENS) as u64,
    };
    let suffix = traits.float("load_pages", args.keys.dtype)?;
    let name = Name::of("load_pages_").and(suffix);
    Ok(launch(name, pack(args.keys.dtype), &params))
}

fn launch(name: Name, pack: usize, params: &PagesParams) -> Vec<Launch> {
    let [tokens, width] = [params.tokens, params.width].map(|size| size as usize);
    if tokens * width == 0 {
        return Vec::new();
    }
    let (grid, block) = rows(tokens, width, pack);
    vec![Launch::new(name, grid, block, params)]
}
