//! What the gradients of a `GradStore` cost to reduce, beside one bare all-reduce of as many bytes: medians of rounds in turn.
//!
//! `cargo run --release --example overhead -- [RANKS] [ROUNDS]`

#[path = "../../../crates/collective/examples/overhead/turns.rs"]
mod turns;

use candle_core::{DType, Device, Tensor, Var};
use fascicle_candle::{
    AxisGroup, GradStoreReducer, NamedVars, ReducerOptions, Result,
    library::{job, parallel::Context, tensor::ReduceOp},
};

fn measure(context: &Context, rounds: usize) -> Result<Vec<(usize, [f64; 2])>> {
    let group = AxisGroup::named(context, "data")?;
    let mut all = Vec::new();
    for total in turns::TOTALS {
        let var = |length| Var::zeros(length, DType::F32, &Device::Cpu);
        let vars = turns::lengths(total).into_iter().map(var);
        let vars = vars.collect::<candle_core::Result<Vec<Var>>>()?;
        let names = (0..vars.len()).map(|index| format!("p{index}"));
        let vars = NamedVars::new(names.zip(vars))?;
        let options = ReducerOptions {
            average: false,
            ..ReducerOptions::default()
        };
        let mut reducer = GradStoreReducer::new(&group, vars.clone(), options)?;
        let mut bare = vec![1e-3f32; total];
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..rounds {
            let barrier = || Ok(group.barrier()?);
            times[0].push(turns::timed(barrier, || {
                Ok(group.all_reduce(&mut bare, ReduceOp::Sum)?)
            })?);
            let mut gradients = Tensor::zeros(1, DType::F32, &Device::Cpu)?.backward()?;
            for (_, var) in vars.iter() {
                gradients.insert(
                    var,
                    Tensor::full(1e-3f32, var.shape(), &Device::Cpu)?.copy()?,
                );
            }
            times[1].push(turns::timed(barrier, || reducer.reduce(&mut gradients))?);
        }
        all.push((4 * total, turns::medians(times)));
    }
    Ok(all)
}

fn main() -> Result<()> {
    let (ranks, rounds) = turns::arguments();
    let job = job()
        .grid(&format!("data={ranks}"))
        .expect("a number of ranks");
    let lines = job.run(move |context| measure(context, rounds))?;
    turns::print(
        (ranks, rounds),
        ["all_reduce", "GradStoreReducer"],
        &lines[0],
    );
    Ok(())
}
