//! What a gradient reduction costs beside one bare all-reduce of as many bytes, in turn, on the CPU: sums, averages, and sums that
//! owners alone receive (ZeRO-1).
//!
//! `cargo run --release -p fascicle-collective --example overhead -- [RANKS] [TURNS]`

mod turns;

use fascicle_collective::{AxisGroup, GradientReducer, ParameterShards, ReduceOp, ReducerOptions};
use job::Job;
use parallel::Context;
use std::rc::Rc;
use tensor::Result;

fn measure(context: &Context, turns: usize) -> Result<()> {
    let group = AxisGroup::named(context, "data")?;
    for bytes in turns::SIZES {
        let lengths = turns::lengths(bytes);
        let names: Vec<String> = (0..lengths.len()).map(|it| format!("p{it}")).collect();
        let parameters = names
            .iter()
            .map(String::as_str)
            .zip(lengths.iter().copied());
        let shards = Rc::new(ParameterShards::new(&group, parameters)?);
        let mut bare = vec![0f32; bytes / 4];
        let all_reduce = || group.all_reduce(&mut bare, ReduceOp::Sum);
        let reducer = |average, shards: Option<Rc<ParameterShards>>| {
            let options = ReducerOptions {
                average,
                shards: shards.clone(),
                ..ReducerOptions::default()
            };
            let mut reducer = GradientReducer::new(&group, options)?;
            let mut gradients: Vec<Vec<f32>> = lengths.iter().map(|&it| vec![0.0; it]).collect();
            let (names, lengths) = (&names, &lengths);
            Ok::<_, tensor::Error>(Box::new(move || {
                for (name, gradient) in names.iter().zip(&mut gradients) {
                    reducer.push(name, std::mem::take(gradient))?;
                }
                let mut reduced = reducer.finish()?.into_iter().peekable();
                for ((name, gradient), &length) in names.iter().zip(&mut gradients).zip(lengths) {
                    *gradient = match reduced.next_if(|it| it.name() == name) {
                        Some(reduced) => reduced.into_vec()?,
                        None => vec![0.0; length],
                    };
                }
                Ok(())
            }))
        };
        let ways: Vec<turns::Way<'_, tensor::Error>> = vec![
            ("all_reduce", Box::new(all_reduce)),
            ("sums", reducer(false, None)?),
            ("averages", reducer(true, None)?),
            ("owners", reducer(false, Some(shards))?),
        ];
        turns::compare(group.rank(), bytes, turns, || group.barrier(), ways)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let (ranks, turns) = turns::arguments();
    let job = Job::new([cpu::driver()]).grid(&format!("data={ranks}"));
    println!(
        "{ranks} ranks, medians of {turns} turns, quotients by one all_reduce (with quartiles)"
    );
    let job = job.expect("a number of ranks");
    job.run(move |context| measure(context, turns)).map(drop)
}
