//! Fill, cast, scaled sum, the four operations, activation functions. C++: `elementwise.h`, `activation.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{flat, pack},
};
use hal::{
    DType, Result,
    kernel::{
        Axpby, Binary, BinaryOp, Cast, Fill, Swiglu, SwigluBackward, Unary, UnaryBackward, UnaryOp,
    },
};
use half::{bf16, f16};

params! {
    struct FillParams { out: u64, len: u64, bits: u64, }
    struct CastParams { x: u64, out: u64, len: u64, }
    struct AxpbyParams { x: u64, y: u64, len: u64, alpha: f64, beta: f64, }
    struct BinaryParams { a: u64, b: u64, out: u64, len: u64, period: u64, op: u32, unused: u32, }
    struct UnaryParams { x: u64, out: u64, len: u64, op: u32, unused: u32, }
    struct UnaryBackwardParams { x: u64, d_out: u64, d_x: u64, len: u64, op: u32, unused: u32, }
    struct SwigluParams { gate: u64, up: u64, out: u64, len: u64, }
    struct SwigluBackwardParams { gate: u64, up: u64, d_out: u64, d_gate: u64, d_up: u64, len: u64, }
}

pub(super) const LAYOUTS: &[Layout] = &[
    FillParams::LAYOUT,
    CastParams::LAYOUT,
    AxpbyParams::LAYOUT,
    BinaryParams::LAYOUT,
    UnaryParams::LAYOUT,
    UnaryBackwardParams::LAYOUT,
    SwigluParams::LAYOUT,
    SwigluBackwardParams::LAYOUT,
];

/// Packs of a thread of the functions that read several before they use one, as `loops.h` has it.
const FLAT_PACKS: usize = 2;

/// One launch over `len` elements, `pack` of them for a thread; no launch without elements.
fn over(name: Name, len: usize, pack: usize, arguments: &impl bytemuck::NoUninit) -> Vec<Launch> {
    let (grid, block) = flat(len, pack);
    if len == 0 {
        Vec::new()
    } else {
        vec![Launch::new(name, grid, block, arguments)]
    }
}

/// The bits of `value` as an element of `dtype`, in the lowest bytes.
fn bits(dtype: DType, value: f64) -> u64 {
    match dtype {
        DType::F64 => value.to_bits(),
        DType::F32 => (value as f32).to_bits().into(),
        DType::Bf16 => bf16::from_f64(value).to_bits().into(),
        DType::F16 => f16::from_f64(value).to_bits().into(),
        DType::I32 => u64::from(value as i32 as u32),
        DType::U32 => u64::from(value as u32),
        DType::U8 => u64::from(value as u8),
    }
}

pub(super) fn fill(args: &Fill, _traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let (dtype, len) = (args.out.dtype, args.out.len);
    let params = FillParams {
        out: args.out.addr,
        len: len as u64,
        bits: bits(dtype, args.value),
    };
    Ok(over(
        Name::of("fill_").and(dtype.bytes()),
        len,
        pack(dtype),
        &params,
    ))
}

/// Two types as a function's name spells them, and the longer of their packs.
fn pair(operation: &str, from: DType, to: DType, traits: &DeviceTraits) -> Result<(Name, usize)> {
    let name = Name::of(operation)
        .and("_")
        .and(traits.float(operation, from)?)
        .and("_")
        .and(traits.float(operation, to)?);
    Ok((name, pack(from).max(pack(to))))
}

pub(super) fn cast(args: &Cast, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let (name, _) = pair("cast", args.x.dtype, args.out.dtype, traits)?;
    let pack = pack(args.x.dtype).min(pack(args.out.dtype));
    let params = CastParams {
        x: args.x.addr,
        out: args.out.addr,
        len: args.out.len as u64,
    };
    Ok(over(name, args.out.len, pack, &params))
}

pub(super) fn axpby(args: &Axpby, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let (name, pack) = pair("axpby", args.x.dtype, args.y.dtype, traits)?;
    let (alpha, beta) = (args.alpha, args.beta);
    let params = AxpbyParams {
        x: args.x.addr,
        y: args.y.addr,
        len: args.y.len as u64,
        alpha,
        beta,
    };
    Ok(over(name, args.y.len, pack, &params))
}

pub(super) fn binary(args: &Binary, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let op = match args.op {
        BinaryOp::Add => 0,
        BinaryOp::Sub => 1,
        BinaryOp::Mul => 2,
        BinaryOp::Div => 3,
    };
    let (dtype, len) = (args.out.dtype, args.out.len);
    let [a, b, out] = [args.a, args.b, args.out].map(|slice| slice.addr);
    let params = BinaryParams {
        a,
        b,
        out,
        len: len as u64,
        period: args.b.len as u64,
        op,
        unused: 0,
    };
    Ok(over(
        Name::of("binary_").and(traits.float("binary", dtype)?),
        len,
        pack(dtype),
        &params,
    ))
}

fn code(op: UnaryOp) -> u32 {
    match op {
        UnaryOp::Gelu => 0,
        UnaryOp::Silu => 1,
        UnaryOp::Relu => 2,
        UnaryOp::Tanh => 3,
        UnaryOp::Sigmoid => 4,
        UnaryOp::Exp => 5,
        UnaryOp::Log => 6,
        UnaryOp::Sqrt => 7,
        UnaryOp::GeluErf => 8,
    }
}

pub(super) fn unary(args: &Unary, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let (dtype, len) = (args.out.dtype, args.out.len);
    let (x, out) = (args.x.addr, args.out.addr);
    let params = UnaryParams {
        x,
        out,
        len: len as u64,
        op: code(args.op),
        unused: 0,
    };
    Ok(over(
        Name::of("unary_").and(traits.float("unary", dtype)?),
        len,
        FLAT_PACKS * pack(dtype),
        &params,
    ))
}

pub(super) fn unary_backward(args: &UnaryBackward, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let (dtype, len) = (args.d_x.dtype, args.d_x.len);
    let [x, d_out, d_x] = [args.x, args.d_out, args.d_x].map(|slice| slice.addr);
    let params = UnaryBackwardParams {
        x,
        d_out,
        d_x,
        len: len as u64,
        op: code(args.op),
        unused: 0,
    };
    Ok(over(
        Name::of("unary_backward_").and(traits.float("unary_backward", dtype)?),
        len,
        FLAT_PACKS * pack(dtype),
        &params,
    ))
}

pub(super) fn swiglu(args: &Swiglu, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let (dtype, len) = (args.out.dtype, args.out.len);
    let [gate, up, out] = [args.gate, args.up, args.out].map(|slice| slice.addr);
    let params = SwigluParams {
        gate,
        up,
        out,
        len: len as u64,
    };
    Ok(over(
        Name::of("swiglu_").and(traits.float("swiglu", dtype)?),
        len,
        pack(dtype),
        &params,
    ))
}

pub(super) fn swiglu_backward(args: &SwigluBackward, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let (dtype, len) = (args.d_out.dtype, args.d_out.len);
    let [gate, up, d_out] = [args.gate, args.up, args.d_out].map(|slice| slice.addr);
    let (d_gate, d_up) = (args.d_gate.addr, args.d_up.addr);
    let params = SwigluBackwardParams {
        gate,
        up,
        d_out,
        d_gate,
        d_up,
        len: len as u64,
    };
    Ok(over(
        Name::of("swiglu_backward_").and(traits.float("swiglu_backward", dtype)?),
        len,
        pack(dtype),
        &params,
    ))
}
