//! Custom kernels on the CPU and on a simulated device.

use fascicle_tensor::{
    DType, Device, Error, Result, Tensor,
    ops::{CustomKernel, custom},
    trace,
};
use std::sync::Arc;

fn device() -> Device {
    Device::new(cpu::open(cpu::Options::default()).unwrap()).unwrap()
}

/// `y = factor * x + y`; also writes the number of elements to `count`.
fn scaled_sum() -> Arc<CustomKernel> {
    Arc::new(CustomKernel::new("scaled_sum").on_host(|args| {
        let (x, y, count) = (
            args.read::<f32>(0)?,
            args.write::<f32>(1)?,
            args.write::<u32>(2)?,
        );
        let factor = args.f64(0)? as f32;
        for (x, y) in x.iter().zip(y) {
            *y += factor * x;
        }
        count.fill(args.elements() as u32);
        Ok(())
    }))
}

#[test]
fn a_kernel_reads_and_writes_its_operands_in_place() -> Result<()> {
    let device = device();
    let kernel = scaled_sum();
    let whole = Tensor::full(&device, DType::F32, &[4, 2], 1.0)?;
    let count = Tensor::zeros(&device, DType::U32, &[1])?;
    let (x, y) = (whole.rows(0, 2)?, whole.rows(2, 2)?);
    trace::start(&device);
    for _ in 0..2 {
        custom(&kernel)
            .read(&x)
            .update(&y)
            .write(&count)
            .number(0.5)
            .launch()?;
    }
    let spans = trace::finish(&device)?;
    assert_eq!(
        whole.to_vec::<f32>()?,
        [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    );
    assert_eq!(count.to_vec::<u32>()?, [4]);
    assert_eq!((spans[0].name, spans[0].bytes), ("scaled_sum", 20));
    custom(&kernel)
        .read(&x)
        .update(&y)
        .write(&count)
        .number(0.0)
        .elements(9)
        .launch()?;
    assert_eq!(count.to_vec::<u32>()?, [9]);
    Ok(())
}

#[test]
fn operands_are_apart_and_of_one_device() {
    let (one, other) = (device(), device());
    let zeros = |device: &Device, dtype| Tensor::zeros(device, dtype, &[4]).unwrap();
    let (x, y) = (zeros(&one, DType::F32), zeros(&one, DType::F32));
    let (count, elsewhere) = (zeros(&one, DType::U32), zeros(&other, DType::F32));
    let kernel = scaled_sum();
    let run = |x: &Tensor, y: &Tensor| {
        custom(&kernel)
            .read(x)
            .update(y)
            .write(&count)
            .number(1.0)
            .launch()
    };
    for refused in [run(&x, &x), run(&x, &elsewhere), run(&elsewhere, &y)] {
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    let halves = y.rows(1, 2).unwrap();
    assert!(run(&y.rows(0, 2).unwrap(), &halves).is_err());
    assert_eq!(run(&x, &y), Ok(()));
}

#[test]
fn an_operand_is_what_the_launch_says() {
    let device = device();
    let x = Tensor::zeros(&device, DType::F32, &[4]).unwrap();
    let y = Tensor::zeros(&device, DType::F32, &[4]).unwrap();
    let refused =
        |text: &str, function: fn(&mut hal::kernel::CustomArguments<'_>) -> Result<()>| {
            let kernel = Arc::new(CustomKernel::new("wrong").on_host(function));
            let error = custom(&kernel).read(&x).write(&y).number(1u64).launch();
            assert_eq!(error.unwrap_err().to_string(), text);
        };
    refused(
        "wrong: operand 0 to write, needs one that is written, taken once",
        |args| args.write::<f32>(0).map(drop),
    );
    refused(
        "wrong: operand 1 to read, needs one that is only read",
        |args| args.read::<f32>(1).map(drop),
    );
    refused(
        "wrong: operand 1 to write, needs one that is written, taken once",
        |args| {
            let first = args.write::<f32>(1)?;
            args.write::<f32>(1)
                .map(|second| second.swap_with_slice(first))
        },
    );
    refused("wrong: operand 0 as f64, needs f32", |args| {
        args.read::<f64>(0).map(drop)
    });
    refused("wrong: operand 7, needs one of 2", |args| {
        args.read::<f32>(7).map(drop)
    });
    refused("wrong: number 0, U64(1), needs a double", |args| {
        args.f64(0).map(drop)
    });
    // A refused launch does not end the stream.
    assert_eq!(y.to_vec::<f32>(), Ok(vec![0.0; 4]));
}

#[test]
fn a_device_without_the_code_says_so() {
    let y = Tensor::zeros(&device(), DType::F32, &[4]).unwrap();
    let kernel = Arc::new(CustomKernel::new("for others"));
    let error = custom(&kernel).write(&y).launch().unwrap_err();
    assert_eq!(error.to_string(), "for others: cpu:0 has no code for it");
}
