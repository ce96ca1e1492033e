//! Keys and values in pages. C++: `pages.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{pack, rows},
};
use hal::{
    RawSlice, Result,
    kernel::{LoadPages, PageShape, StorePages, pages::PAGE_TOKENS},
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
    let pages = [args.key_pages, args.value_pages];
    let rows = [args.slots, args.keys, args.values];
    launch("store_pages", args.shape, (rows, pages), traits)
}

pub(super) fn load(args: &LoadPages, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let pages = [args.key_pages, args.value_pages];
    let rows = [args.slots, args.keys, args.values];
    launch("load_pages", args.shape, (rows, pages), traits)
}

/// Both ways: `rows` are the tokens' slots, keys and values.
fn launch(
    name: &str,
    shape: PageShape,
    ([slots, keys, values], [key_pages, value_pages]): ([RawSlice; 3], [RawSlice; 2]),
    traits: &DeviceTraits,
) -> Result<Vec<Launch>> {
    let name = Name::of(name).and("_").and(traits.float(name, keys.dtype)?);
    let (tokens, width) = (slots.len, shape.width());
    if tokens * width == 0 {
        return Ok(Vec::new());
    }
    let params = PagesParams {
        slots: slots.addr,
        keys: keys.addr,
        values: values.addr,
        key_pages: key_pages.addr,
        value_pages: value_pages.addr,
        tokens: tokens as u64,
        width: width as u64,
        num_slots: (shape.pages * PAGE_TOKENS) as u64,
    };
    let (grid, block) = rows(tokens, width, pack(keys.dtype));
    Ok(vec![Launch::new(name, grid, block, &params)])
}
