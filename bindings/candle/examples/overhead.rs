//! What the gradients of a `GradStore` cost to reduce, beside one bare all-reduce of as many bytes, in turn.
//!
//! `cargo run --release --example overhead -- [RANKS] [TURNS]`, or with `--features mpi` under `mpirun`.

#[path = "../../../crates/collective/examples/overhead/turns.rs"]
mod turns;
#[path = "../../shared/vectors.rs"]
mod vectors;

use candle_core::{DType, Device, Tensor, Var};
use fascicle_candle::{
    AxisGroup, Error, GradStoreReducer, NamedVars, ReducerOptions, Result, library,
    library::{job, parallel::Context, tensor::ReduceOp},
};

fn measure(context: &Context, turns: usize) -> Result<()> {
    let group = AxisGroup::named(context, "data")?;
    for bytes in turns::SIZES {
        let lengths = turns::lengths(bytes);
        let var = |&length: &usize| Var::zeros(length, DType::F32, &Device::Cpu);
        let vars = lengths
            .iter()
            .map(var)
            .collect::<candle_core::Result<Vec<Var>>>()?;
        let vars = NamedVars::new((0..).map(|index| format!("p{index}")).zip(vars))?;
        let options = ReducerOptions {
            average: false,
            ..ReducerOptions::default()
        };
        let mut reducer = GradStoreReducer::new(&group, vars.clone(), options)?;
        // A store has no public constructor.
        let mut gradients = Tensor::zeros(1, DType::F32, &Device::Cpu)?.backward()?;
        for (_, var) in vars.iter() {
            gradients.insert(var, Tensor::zeros(var.shape(), DType::F32, &Device::Cpu)?);
        }
        let mut bare = vec![0f32; bytes / 4];
        let mut plain = vectors::reducer(&group, &lengths)?;
        let ways: Vec<turns::Way<'_, Error>> = vec![
            (
                "all_reduce",
                Box::new(|| Ok(group.all_reduce(&mut bare, ReduceOp::Sum)?)),
            ),
            ("GradientReducer", Box::new(|| Ok(plain()?))),
            ("candle", Box::new(|| reducer.reduce(&mut gradients))),
        ];
        turns::compare(group.rank(), bytes, turns, || Ok(group.barrier()?), ways)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let (ranks, turns) = turns::arguments();
    let job = job()
        .grid(&format!("data={ranks}"))
        .expect("a number of ranks");
    job.run(move |context| measure(context, turns)).map(drop)
}
