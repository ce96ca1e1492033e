//! Data parallelism: four replicas with a quarter of the batch each end with the gradients of the whole batch. Under mpirun
//! there are as many replicas as processes.
//!
//! `cargo run --release --example 07_data_parallel`

use fascicle::launch;
use fascicle::nn::{Batch, MicroBatch, gpt::Wanted};
use fascicle::parallel::pipeline::{self, Plan};
use fascicle::prelude::*;

const BATCH: usize = 24;

fn gradient_norm(replicas: usize) -> Result<f64> {
    let grid = Grid::new(
        Degrees {
            data: replicas,
            ..Degrees::default()
        },
        AxisOrder::default(),
    );
    let norms = launch(
        grid.expect("degrees of at least 1"),
        Settings::default(),
        |context| {
            let config = GptConfig {
                layers: 2,
                hidden: 16,
                heads: 2,
                context: 8,
                vocabulary: 32,
                ..GptConfig::default()
            };
            let options = SetOptions {
                dtype: DType::F64,
                trains: true,
                num_states: 0,
                sharded: false,
            };
            let model = Gpt::build(context, &config, 1, options)?;
            let rows = BATCH / context.degree(Axis::Data);
            let first_sequence = context.index(Axis::Data) * rows;
            let token = |place: usize| (place * place % 31) as u32;
            let ids = |shift: usize| -> Vec<u32> {
                (0..rows * 8)
                    .map(|i| token(first_sequence * 8 + i + shift))
                    .collect()
            };
            let upload = |ids: &[u32]| Tensor::from_slice(context.device(), &[rows, 8], ids);
            let micro = MicroBatch {
                inputs: upload(&ids(0))?,
                targets: upload(&ids(1))?,
                first_sequence,
            };
            let batch = Batch {
                step: 0,
                micro_batches: vec![micro],
                num_tokens: BATCH * 8,
            };

            model.parameters.begin_step()?;
            let plan = Plan::new("1f1b".parse().expect("a schedule's name"), 1, 1)?;
            let one = Tensor::full(context.device(), DType::F64, &[1], 1.0)?;
            pipeline::run(
                context,
                &plan,
                &model.module.step(&batch, Wanted::Training, DType::F64),
                &one,
            )?;
            model.parameters.end_backward()?;
            model
                .parameters
                .gradient_sum_squares()?
                .item()
                .map(f64::sqrt)
        },
    )?;
    assert!(
        norms.iter().all(|norm| *norm == norms[0]),
        "all ranks know the same norm"
    );
    Ok(norms[0])
}

fn main() -> Result<()> {
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
