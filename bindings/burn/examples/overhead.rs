//! What the gradients of a burn model cost to reduce, beside one bare all-reduce of as many bytes: medians of rounds in turn.
//!
//! `cargo run --release --example overhead -- [RANKS] [ROUNDS]`

#[path = "../../../crates/collective/examples/overhead/turns.rs"]
mod turns;

use burn::{
    module::{Module, Param, ParamId},
    optim::GradientsParams,
    tensor::{Device, Tensor, TensorData},
};
use fascicle_burn::{
    AxisGroup, GradientsReducer, ReducerOptions, Result,
    library::{job, parallel::Context, tensor::ReduceOp},
};

#[derive(Module, Debug)]
struct Parameters {
    parameters: Vec<Param<Tensor<1>>>,
}

fn measure(context: &Context, rounds: usize) -> Result<Vec<(usize, [f64; 2])>> {
    let group = AxisGroup::named(context, "data")?;
    let device = Device::flex();
    let tensor = |length: usize| {
        let data = TensorData::new(vec![1e-3f32; length], [length]);
        Tensor::<1>::from_data(data, &device)
    };
    let mut all = Vec::new();
    for total in turns::TOTALS {
        let lengths = turns::lengths(total);
        let parameter = |&length| Param::initialized(ParamId::new(), tensor(length));
        let model = Parameters {
            parameters: lengths.iter().map(parameter).collect(),
        };
        let options = ReducerOptions {
            average: false,
            ..ReducerOptions::default()
        };
        let mut reducer = GradientsReducer::new(&group, options)?;
        let mut bare = vec![1e-3f32; total];
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..rounds {
            let barrier = || Ok(group.barrier()?);
            times[0].push(turns::timed(barrier, || {
                Ok(group.all_reduce(&mut bare, ReduceOp::Sum)?)
            })?);
            let mut gradients = GradientsParams::new();
            for (parameter, &length) in model.parameters.iter().zip(&lengths) {
                gradients.register(parameter.id, tensor(length));
            }
            times[1].push(turns::timed(barrier, || reducer.reduce(&model, gradients))?);
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
        ["all_reduce", "GradientsReducer"],
        &lines[0],
    );
    Ok(())
}
