//! A sum that a norm reads next is made by the norm's kernel; other work finds it made.

use fascicle_tensor::{
    DType, Device, Result, StreamKind, Tensor,
    ops::{
        self, BinaryOp, UnaryOp,
        norm::{self, NormKind},
    },
    trace,
};

const ROWS: usize = 6;
const COLUMNS: usize = 40;

fn device(memory_bytes: Option<usize>) -> Result<Device> {
    Device::new(cpu::open(cpu::Options {
        memory_bytes,
        ..cpu::Options::default()
    })?)
}

/// Numbers between -1 and 1 that differ from seed to seed.
fn tensor(device: &Device, dtype: DType, seed: usize) -> Result<Tensor> {
    let value = |i: usize| ((i * 37 + seed * 101) % 257) as f64 / 128.0 - 1.0;
    let values: Vec<f64> = (0..ROWS * COLUMNS).map(value).collect();
    let wide = Tensor::from_slice(device, &[ROWS, COLUMNS], &values)?;
    ops::cast(&wide, dtype)
}

fn pair(device: &Device, dtype: DType) -> Result<[Tensor; 2]> {
    Ok([tensor(device, dtype, 1)?, tensor(device, dtype, 2)?])
}

/// A sum and its norm, with `between` after the sum is asked for; the norm takes the memory of an addend.
fn normed(
    kind: NormKind,
    [a, b]: [Tensor; 2],
    between: impl FnOnce() -> Result<()>,
) -> Result<[Tensor; 2]> {
    let gain = Tensor::full(a.device(), a.dtype(), &[COLUMNS], 0.75)?;
    let bias = Tensor::full(a.device(), a.dtype(), &[COLUMNS], 0.25)?;
    let bias = (kind == NormKind::Layer).then_some(&bias);
    let x = ops::add(&a, &b)?;
    drop((a, b));
    between()?;
    let shape = norm::shape(kind, &x, COLUMNS, 1e-5);
    let (out, _) = norm::forward(shape, &x, &gain, bias)?;
    Ok([x, out])
}

fn names(device: &Device, work: impl FnOnce() -> Result<()>) -> Result<Vec<&'static str>> {
    trace::start(device);
    work()?;
    let spans = trace::finish(device)?;
    Ok(spans.iter().map(|span| span.name).collect())
}

fn values(x: &Tensor) -> Result<Vec<f64>> {
    ops::cast(x, DType::F64)?.to_vec()
}

#[test]
fn one_kernel_makes_a_sum_and_its_norm_with_the_bits_of_two() -> Result<()> {
    let device = device(None)?;
    for (dtype, kind) in [
        (DType::F64, NormKind::Layer),
        (DType::F32, NormKind::Rms),
        (DType::Bf16, NormKind::Layer),
        (DType::F16, NormKind::RmsOffset),
    ] {
        let mut found = None;
        let kernels = names(&device, || {
            found = Some(normed(kind, pair(&device, dtype)?, || Ok(()))?);
            Ok(())
        })?;
        assert_eq!(kernels.last(), Some(&"norm_forward"));
        assert!(!kernels.contains(&"binary"), "{kernels:?}");

        // Once the host has waited for the sum, it is there.
        let apart = normed(kind, pair(&device, dtype)?, || {
            device.compute().synchronize()
        })?;
        for (found, expected) in found.iter().flatten().zip(&apart) {
            assert_eq!(values(found)?, values(expected)?, "{dtype}");
        }
    }
    Ok(())
}

#[test]
fn other_work_comes_after_the_sum() -> Result<()> {
    let device = device(None)?;
    let [a, b] = pair(&device, DType::F64)?;
    let expected: Vec<f64> = values(&a)?
        .iter()
        .zip(values(&b)?)
        .map(|(a, b)| a + b)
        .collect();
    // The host reads it; so does a kernel, and a stream of its own.
    assert_eq!(ops::add(&a, &b)?.to_vec::<f64>()?, expected);
    let sum = ops::add(&a, &b)?;
    let positive: Vec<f64> = expected.iter().map(|x| x.max(0.0)).collect();
    assert_eq!(ops::unary(UnaryOp::Relu, &sum)?.to_vec::<f64>()?, positive);
    let (beside, sum) = (
        device.create_stream(StreamKind::Communication, "beside")?,
        ops::add(&a, &b)?,
    );
    let copy = Tensor::zeros(&device, DType::F64, &[ROWS, COLUMNS])?;
    let sum_again = ops::add(&a, &b)?;
    ops::axpby_on(&beside, 1.0, &sum_again, 0.0, &copy)?;
    assert_eq!(copy.to_vec::<f64>()?, expected);
    // An addend changes; memory of addends goes to others; a second sum follows.
    let next = ops::add(&sum, &sum_again)?;
    let last = ops::add(&a, &b)?;
    a.fill(7.0)?;
    drop((a, b));
    let other = Tensor::full(&device, DType::F64, &[ROWS, COLUMNS], 9.0)?;
    assert_eq!(last.to_vec::<f64>()?, expected);
    let doubled: Vec<f64> = expected.iter().map(|x| 2.0 * x).collect();
    assert_eq!(next.to_vec::<f64>()?, doubled);
    drop(other);
    // An event that is recorded behind it.
    let sum = ops::add(&next, &next)?;
    device.compute().record()?.synchronize()?;
    drop(next);
    assert_eq!(sum.to_vec::<f64>()?[0], 4.0 * expected[0]);
    Ok(())
}

#[test]
fn a_norm_of_something_else_leaves_the_sum_alone() -> Result<()> {
    let device = device(None)?;
    let [a, b] = pair(&device, DType::F32)?;
    let gain = Tensor::full(&device, DType::F32, &[COLUMNS], 1.0)?;
    let norm = |x: &Tensor| {
        let shape = norm::shape(NormKind::Rms, x, COLUMNS, 1e-5);
        norm::forward(shape, x, &gain, None).map(drop)
    };
    let of_addend = names(&device, || {
        let _sum = ops::add(&a, &b)?;
        norm(&a)
    })?;
    let of_part = names(&device, || norm(&ops::add(&a, &b)?.rows(1, 2)?))?;
    let of_difference = names(&device, || norm(&ops::binary(BinaryOp::Sub, &a, &b)?))?;
    for found in [of_addend, of_part, of_difference] {
        assert_eq!(found, ["binary", "norm_forward"]);
    }
    Ok(())
}

#[test]
fn a_sum_is_made_before_the_memory_of_its_addends_is_freed() -> Result<()> {
    let bytes = ROWS * COLUMNS * 8;
    let device = device(Some(16 * bytes))?;
    let [a, b] = pair(&device, DType::F64)?;
    let first = values(&a)?[0] + values(&b)?[0];
    let sum = ops::add(&a, &b)?;
    drop((a, b));
    // More than is free while the cache holds the addends.
    let large = Tensor::zeros(&device, DType::U8, &[14 * bytes])?;
    assert_eq!(device.memory_use().cached, 0);
    assert_eq!(sum.to_vec::<f64>()?[0], first);
    drop(large);
    Ok(())
}
