//! Steps that push other gradients than the one before: on all ranks, and on some.

use fascicle_collective::{AxisGroup, GradientReducer, ParameterShards, ReducerOptions, Result};
use job::Job;
use std::rc::Rc;

const RANKS: usize = 3;
/// Elements of the gradients, of which the larger ones are not packed.
const LENGTHS: [usize; 6] = [10, 5000, 3, 9000, 0, 77];

/// Pushes these gradients and returns all that this rank receives.
fn step(
    reducer: &mut GradientReducer,
    gradients: &[usize],
    rank: usize,
) -> Result<Vec<(String, Vec<f32>)>> {
    for &gradient in gradients {
        let value = |index: usize| (index % 7 + gradient + 10 * rank) as f32;
        let elements = (0..LENGTHS[gradient]).map(value).collect::<Vec<f32>>();
        reducer.push(&gradient.to_string(), elements)?;
    }
    let reduced = reducer.finish()?.into_iter();
    reduced
        .map(|it| Ok((it.name().to_owned(), it.into_vec()?)))
        .collect()
}

fn sums(gradients: &[usize]) -> Vec<(String, Vec<f32>)> {
    let of = |&gradient: &usize| {
        let value = |index: usize| (RANKS * (index % 7 + gradient) + 30) as f32;
        (
            gradient.to_string(),
            (0..LENGTHS[gradient]).map(value).collect(),
        )
    };
    gradients.iter().map(of).collect()
}

/// Runs steps on three ranks, without and with shards.
fn steps(
    body: impl Fn(&mut GradientReducer, usize, bool) -> Result<()> + Copy + Send + Sync + 'static,
) {
    for (sharded, bucket_bytes) in [
        (false, usize::MAX),
        (false, 1),
        (false, 21_000),
        (true, 21_000),
    ] {
        let job = Job::new([cpu::driver()]).grid("data=3").expect("a grid");
        let ran = job.run(move |context| {
            let group = AxisGroup::named(context, "data")?;
            let names: Vec<String> = (0..LENGTHS.len()).map(|index| index.to_string()).collect();
            let parameters = names.iter().map(String::as_str).zip(LENGTHS);
            let shards = Rc::new(ParameterShards::new(&group, parameters)?);
            let options = ReducerOptions {
                bucket_bytes,
                average: false,
                shards: sharded.then_some(shards),
            };
            body(
                &mut GradientReducer::new(&group, options)?,
                group.rank(),
                sharded,
            )
        });
        ran.unwrap_or_else(|error| panic!("{sharded}, {bucket_bytes} bytes: {error}"));
    }
}

fn check(
    reducer: &mut GradientReducer,
    gradients: &[usize],
    rank: usize,
    sharded: bool,
) -> Result<()> {
    let found = step(reducer, gradients, rank)?;
    let mut wanted = sums(gradients);
    if sharded {
        wanted.retain(|(name, _)| found.iter().any(|(own, _)| own == name));
        assert!(found.len() < gradients.len() || gradients.len() < 2);
    }
    assert_eq!(found, wanted, "{gradients:?}");
    Ok(())
}

#[test]
fn ranks_that_change_alike_continue() {
    let all: [&[usize]; 9] = [
        &[0, 1, 2, 3, 4, 5],
        &[0, 1, 2, 3, 4, 5],
        &[0, 1, 2, 5],
        &[0, 1, 2, 3, 4, 5],
        &[0, 1, 2, 3],
        &[3, 2],
        &[],
        &[5],
        &[5, 1],
    ];
    steps(move |reducer, rank, sharded| {
        for gradients in all {
            check(reducer, gradients, rank, sharded)?;
            check(reducer, gradients, rank, sharded)?;
        }
        Ok(())
    });
}

#[test]
fn a_rank_that_changes_alone_ends_the_step_on_all_and_the_next_one_works() {
    let others: [(&[usize], &str); 5] = [
        (&[0, 1, 2, 3, 4], "5 (77 of f32)"),
        (&[0, 1, 2, 3, 4, 5, 0], "the end of the step"),
        (&[0, 1, 3, 2, 4, 5], "2 (3 of f32)"),
        (&[], "0 (10 of f32)"),
        (&[5, 1, 2, 3, 4, 0], "0 (10 of f32)"),
    ];
    steps(move |reducer, rank, sharded| {
        let agreed = [0, 1, 2, 3, 4, 5];
        check(reducer, &agreed, rank, sharded)?;
        for (other, found) in others {
            let own = if rank == 1 { other } else { &agreed };
            let sentence = step(reducer, own, rank).unwrap_err().to_string();
            assert!(
                sentence.contains(" of a step: ") && sentence.contains("rank 1"),
                "{sentence}"
            );
            assert!(sentence.contains(found), "{sentence}");
            check(reducer, &agreed, rank, sharded)?;
        }
        Ok(())
    });
}

#[test]
fn types_that_differ_travel_together() -> Result<()> {
    let job = Job::new([cpu::driver()]).grid("data=2").expect("a grid");
    let ran = job.run(|context| {
        let group = AxisGroup::named(context, "data")?;
        let mut reducer = GradientReducer::new(&group, ReducerOptions::default())?;
        let own = group.rank() as f32;
        for _step in 0..3 {
            reducer.push("halves", vec![half::bf16::from_f32(own); 3])?;
            reducer.push("floats", vec![own; 2])?;
            reducer.push("doubles", vec![f64::from(own); 9000])?;
            reducer.push("last", vec![half::bf16::from_f32(own + 1.0); 2])?;
            let mut reduced = reducer.finish()?.into_iter();
            let mut next = || reduced.next().expect("four");
            assert_eq!(
                next().into_vec::<half::bf16>()?,
                [half::bf16::from_f32(0.5); 3]
            );
            assert_eq!(next().into_vec::<f32>()?, [0.5; 2]);
            assert_eq!(next().into_vec::<f64>()?, [0.5; 9000]);
            assert_eq!(
                next().into_vec::<half::bf16>()?,
                [half::bf16::from_f32(1.5); 2]
            );
        }
        Ok(())
    });
    ran.map(drop)
}
