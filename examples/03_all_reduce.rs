//! Collectives: every rank is a thread, or a process, and a sum over all of them ends up on each.
//!
//! `cargo run --release --example 03_all_reduce -- 4`
//! `mpirun -n 4 --bind-to none target/release/examples/03_all_reduce`, built with `--features mpi`

use fascicle::launch;
use fascicle::parallel::{Purpose, Subject};
use fascicle::prelude::*;
use fascicle::tensor::ReduceOp;

fn main() -> fascicle::Result<()> {
    let asked = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(2);
    let ranks = launch::num_processes().unwrap_or(asked);
    let grid = Grid::new(
        Degrees {
            data: ranks,
            ..Degrees::default()
        },
        AxisOrder::default(),
    )?;
    let sums = launch(grid, Settings::default(), |context| {
        let rank = context.world().rank() as f32;
        let tensor = Tensor::from_slice(context.device(), &[3], &[rank, 10.0 * rank, 1.0])?;
        if let Some(group) = context.group(Axis::Data, Purpose::Main)? {
            let stream = context.device().compute();
            group.all_reduce(context, Subject::Gradients, &stream, &tensor, ReduceOp::Sum)?;
        }
        tensor.to_vec::<f32>()
    })?;
    let total = (ranks * (ranks - 1) / 2) as f32;
    assert!(
        sums.iter()
            .all(|sum| sum == &[total, 10.0 * total, ranks as f32])
    );
    launch::say(&format!("{ranks} ranks: each holds {:?}", sums[0]));
    Ok(())
}
