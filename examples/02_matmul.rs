//! Matmuls and gradients: a linear function, its loss, and the gradient of its weight from the tape.
//!
//! `cargo run --release --example 02_matmul`

use fascicle::prelude::*;
use fascicle::tensor::{
    autograd,
    ops::{self, Transpose},
};

fn main() -> Result<()> {
    let device = Device::new(cpu::open(cpu::Options::default())?)?;
    let x = Tensor::from_slice(&device, &[2, 3], &[1.0f64, 0.0, 2.0, 0.0, 1.0, 1.0])?;
    let w = Tensor::from_slice(&device, &[3, 2], &[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0])?;

    // A custom operation: its value, and how the gradient of the value becomes that of its input.
    let (weight, gradient) = Var::tracked(w.clone());
    let y = ops::matmul(&x, &w, Transpose::None)?;
    assert_eq!(y.to_vec::<f64>()?, [11.0, 14.0, 8.0, 10.0]);
    let saved = x.clone();
    let y = Var::record_one("my_matmul", &[&weight], y, false, move |d_y| {
        Ok(vec![Some(ops::matmul(&saved, &d_y, Transpose::First)?)])
    });

    let ones = Tensor::full(&device, DType::F64, &[2, 2], 1.0)?;
    autograd::backward(vec![(y.mul(&y)?.scale(0.5)?, ones)])?;
    let d_w = gradient.take().expect("the tape reaches the weight");
    // dW = X^T Y for the loss 1/2 sum y^2.
    assert_eq!(d_w.to_vec::<f64>()?, [11.0, 14.0, 8.0, 10.0, 30.0, 38.0]);
    println!("dW = {:?}", d_w.to_vec::<f64>()?);
    Ok(())
}
