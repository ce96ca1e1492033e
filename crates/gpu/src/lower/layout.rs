//! Dimensions permuted or repeated, and rows selected by a mask. C++: `layout.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{pack, rows},
};
use hal::{
    Result,
    kernel::{CopyStrided, SelectRows},
};

params! {
    struct CopyStridedParams {
        src: u64,
        dst: u64,
        rows: u64,
        second: u64,
        third: u64,
        columns: u64,
        stride_0: u64,
        stride_1: u64,
        stride_2: u64,
        stride_3: u64,
    }
    struct SelectRowsParams { mask: u64, a: u64, b: u64, out: u64, rows: u64, columns: u64, }
}

pub(super) const LAYOUTS: &[Layout] = &[CopyStridedParams::LAYOUT, SelectRowsParams::LAYOUT];

pub(super) fn copy_strided(args: &CopyStrided, _traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let [_, second, third, columns] = args.sizes;
    let num_rows: usize = args.sizes[..3].iter().product();
    if num_rows * columns == 0 {
        return Ok(Vec::new());
    }
    let [stride_0, stride_1, stride_2, stride_3] = args.strides.map(|stride| stride as u64);
    let params = CopyStridedParams {
        src: args.src.addr,
        dst: args.dst.addr,
        rows: num_rows as u64,
        second: second as u64,
        third: third as u64,
        columns: columns as u64,
        stride_0,
        stride_1,
        stride_2,
        stride_3,
    };
    let (grid, block) = rows(num_rows, columns, 1);
    let name = Name::of("copy_strided_").and(args.src.dtype.bytes());
    Ok(vec![Launch::new(name, grid, block, &params)])
}

pub(super) fn select_rows(args: &SelectRows, _traits: &DeviceTraits) -> Result<Vec<Launch>> {
    if args.rows * args.columns == 0 {
        return Ok(Vec::new());
    }
    let dtype = args.out.dtype;
    let params = SelectRowsParams {
        mask: args.mask.addr,
        a: args.a.map_or(0, |a| a.addr),
        b: args.b.map_or(0, |b| b.addr),
        out: args.out.addr,
        rows: args.rows as u64,
        columns: args.columns as u64,
    };
    let (grid, block) = rows(args.rows, args.columns, pack(dtype));
    let name = Name::of("select_rows_").and(dtype.bytes());
    Ok(vec![Launch::new(name, grid, block, &params)])
}
