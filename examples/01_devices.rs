//! Devices and tensors: open a device, put numbers on it, compute, read them back.
//!
//! `cargo run --release --example 01_devices`

use fascicle::prelude::*;
use fascicle::tensor::ops;

fn main() -> Result<()> {
    for driver in fascicle::registry::drivers() {
        println!(
            "{}: {}",
            driver.vendor.name(),
            (driver.probe)().findings.join("; ")
        );
    }
    let device = Device::new(cpu::open(cpu::Options::default())?)?;
    println!(
        "opened {}: {}",
        device.id(),
        device.capabilities().description
    );

    let a = Tensor::from_slice(&device, &[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    let b = Tensor::full(&device, DType::F32, &[2, 3], 0.5)?;
    let sum = ops::add(&a, &b)?;
    assert_eq!(sum.to_vec::<f32>()?, [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]);
    println!("{a:?} + {b:?} = {:?}", sum.to_vec::<f32>()?);

    // Mistakes are found before anything runs, and the error has the numbers that explain them.
    let short = Tensor::zeros(&device, DType::F32, &[5])?;
    println!(
        "and a mistake: {}",
        ops::add(&a, &short).expect_err("5 elements do not fit 6")
    );
    Ok(())
}
