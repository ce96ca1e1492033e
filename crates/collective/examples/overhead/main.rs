//! What a gradient reduction costs beside one bare all-reduce of as many bytes: medians of rounds in turn, on the CPU.
//!
//! `cargo run --release -p fascicle-collective --example overhead -- [RANKS] [ROUNDS]`

mod turns;

use fascicle_collective::{AxisGroup, GradientReducer, ParameterShards, ReduceOp, ReducerOptions};
use job::Job;
use parallel::Context;
use std::rc::Rc;
use tensor::Result;

fn measure(context: &Context, rounds: usize) -> Result<Vec<(usize, [f64; 4])>> {
    let group = AxisGroup::named(context, "data")?;
    let mut all = Vec::new();
    for total in turns::TOTALS {
        let lengths = turns::lengths(total);
        let names: Vec<String> = (0..lengths.len())
            .map(|index| format!("p{index}"))
            .collect();
        let parameters = names
            .iter()
            .map(String::as_str)
            .zip(lengths.iter().copied());
        let shards = Rc::new(ParameterShards::new(&group, parameters)?);
        let reducer = |average, shards| {
            let options = ReducerOptions {
                average,
                shards,
                ..ReducerOptions::default()
            };
            GradientReducer::new(&group, options)
        };
        let mut bare = vec![1e-3f32; total];
        let mut reducers = [
            reducer(false, None)?,
            reducer(true, None)?,
            reducer(false, Some(shards))?,
        ];
        let mut times: [Vec<f64>; 4] = Default::default();
        for _ in 0..rounds {
            let barrier = || group.barrier();
            times[0].push(turns::timed(barrier, || {
                group.all_reduce(&mut bare, ReduceOp::Sum)
            })?);
            for (reducer, times) in reducers.iter_mut().zip(&mut times[1..]) {
                let gradients: Vec<Vec<f32>> =
                    lengths.iter().map(|&length| vec![1e-3; length]).collect();
                times.push(turns::timed(barrier, || {
                    for (name, gradient) in names.iter().zip(gradients) {
                        reducer.push(name, gradient)?;
                    }
                    let reduced = reducer.finish()?;
                    for gradient in &reduced {
                        gradient.tensor().synchronize()?;
                    }
                    Ok(reduced)
                })?);
            }
        }
        all.push((4 * total, turns::medians(times)));
    }
    Ok(all)
}

fn main() -> Result<()> {
    let (ranks, rounds) = turns::arguments();
    let job = Job::new([cpu::driver()]).grid(&format!("data={ranks}"));
    let job = job.expect("a number of ranks");
    let lines = job.run(move |context| measure(context, rounds))?;
    let columns = ["all_reduce", "sums", "averages", "owners"];
    turns::print((ranks, rounds), columns, &lines[0]);
    Ok(())
}
