//! What the gradients of a burn model cost to reduce, beside one bare all-reduce of as many bytes, in turn.
//!
//! `cargo run --release --example overhead -- [RANKS] [TURNS]`, or with `--features mpi` under `mpirun`.

#[path = "../../../crates/collective/examples/overhead/turns.rs"]
mod turns;
#[path = "../../shared/vectors.rs"]
mod vectors;

use burn::{
    module::{Module, Param, ParamId},
    optim::GradientsParams,
    tensor::{Device, Tensor, TensorData},
};
use fascicle_burn::{
    AxisGroup, Error, GradientsReducer, ReducerOptions, Result, library,
    library::{job, parallel::Context, tensor::ReduceOp},
};

#[derive(Module, Debug)]
struct Parameters {
    parameters: Vec<Param<Tensor<1>>>,
}

fn measure(context: &Context, turns: usize) -> Result<()> {
    let group = AxisGroup::named(context, "data")?;
    let device = Device::flex();
    let tensor = |length: usize| {
        let data = TensorData::new(vec![0f32; length], [length]);
        Tensor::<1>::from_data(data, &device)
    };
    for bytes in turns::SIZES {
        let lengths = turns::lengths(bytes);
        let parameter = |&length| Param::initialized(ParamId::new(), tensor(length));
        let model = Parameters {
            parameters: lengths.iter().map(parameter).collect(),
        };
        let options = ReducerOptions {
            average: false,
            ..ReducerOptions::default()
        };
        let mut reducer = GradientsReducer::new(&group, options)?;
        let mut gradients = GradientsParams::new();
        for (parameter, &length) in model.parameters.iter().zip(&lengths) {
            gradients.register(parameter.id, tensor(length));
        }
        let mut bare = vec![0f32; bytes / 4];
        let mut plain = vectors::reducer(&group, &lengths)?;
        let through = || {
            let own = std::mem::replace(&mut gradients, GradientsParams::new());
            gradients = reducer.reduce(&model, own)?;
            Ok(())
        };
        let ways: Vec<turns::Way<'_, Error>> = vec![
            (
                "all_reduce",
                Box::new(|| Ok(group.all_reduce(&mut bare, ReduceOp::Sum)?)),
            ),
            ("GradientReducer", Box::new(|| Ok(plain()?))),
            ("burn", Box::new(through)),
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
