//! Data parallelism: four replicas, each with a quarter of the batch, end with the gradients of the full batch.
//! Under mpirun there are as many replicas as processes.
//!
//! `cargo run --release --example 07_data_parallel`

use fascicle::launch;
use fascicle::prelude::*;
use fascicle::tensor::autograd;

const BATCH: usize = 24;

fn gradient_norm(replicas: usize) -> fascicle::Result<f64> {
    let degrees = Degrees {
        data: replicas,
        ..Degrees::default()
    };
    let grid = Grid::new(degrees, AxisOrder::default())?;
    let norms = launch(grid, Settings::default(), |context| {
        let options = SetOptions {
            trains: true,
            ..SetOptions::inference(DType::F64)
        };
        let model = auto_parallelize(context, options, |builder| {
            Ok((
                builder.linear("up", 4, 16)?,
                builder.linear_transposed("down", 16, 8)?,
            ))
        })?;
        // A replica holds its own rows of the batch; the step knows the total number.
        let rows = BATCH / context.degree(Axis::Data);
        let first = context.index(Axis::Data) * rows;
        let numbers: Vec<f64> = (first * 4..(first + rows) * 4)
            .map(|i| (i as f64 * 0.7).sin())
            .collect();
        let labels: Vec<u32> = (first..first + rows)
            .map(|row| (row * row % 8) as u32)
            .collect();
        let labels = Tensor::from_slice(context.device(), &[rows, 1], &labels)?;

        let step = model.parameters.begin_step(0, BATCH)?;
        let pass = step.pass(first..first + rows)?;
        let x = DTensor::input(
            &pass,
            Tensor::from_slice(context.device(), &[rows, 4], &numbers)?,
        )?;
        let (up, down) = &model.module;
        let loss = down
            .forward(&up.forward_gelu(&x)?)?
            .cross_entropy(&labels, 8)?;
        let one = Tensor::full(context.device(), DType::F64, &[1], 1.0)?;
        autograd::backward(vec![(loss.into_var(), one)])?;
        // The end of the step sums the replicas' gradients.
        step.finish()?.sum_squares()?.item().map(f64::sqrt)
    })?;
    assert!(
        norms.iter().all(|norm| *norm == norms[0]),
        "all ranks know the same norm"
    );
    Ok(norms[0])
}

fn main() -> fascicle::Result<()> {
    let replicas = launch::num_processes().unwrap_or(4);
    let (alone, together) = (gradient_norm(1)?, gradient_norm(replicas)?);
    assert!(
        (alone - together).abs() < 1e-12 * alone,
        "{alone} and {together}"
    );
    launch::say(&format!(
        "norm of the gradients: {alone:.15} on one rank, {together:.15} on {replicas} replicas"
    ));
    Ok(())
}
