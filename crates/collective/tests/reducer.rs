//! Gradients reduced in buckets: their sums, their owners, and ranks that differ.

use fascicle_collective::{AxisGroup, GradientReducer, ParameterShards, ReducerOptions, Result};
use job::Job;
use parallel::Context;
use serde::{Serialize, de::DeserializeOwned};
use std::rc::Rc;

fn on<T: Serialize + DeserializeOwned + Send + 'static>(
    ranks: usize,
    body: impl Fn(&Context, AxisGroup) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let grid = format!("data={ranks}");
    let job = Job::new([cpu::driver()]).grid(&grid).expect("a grid");
    job.run(move |context| body(context, AxisGroup::named(context, "data")?))
}

const LENGTHS: [usize; 5] = [1000, 3, 0, 70_000, 17];

/// A gradient of a parameter on a rank.
fn gradient(parameter: usize, rank: usize) -> Vec<f32> {
    let value = |index: usize| ((index * (rank + 3) + parameter) % 31) as f32 - 15.0;
    (0..LENGTHS[parameter]).map(value).collect()
}

fn sum(parameter: usize, ranks: usize) -> Vec<f32> {
    let mut sum = vec![0.0; LENGTHS[parameter]];
    for rank in 0..ranks {
        let addend = gradient(parameter, rank);
        sum.iter_mut()
            .zip(addend)
            .for_each(|(sum, addend)| *sum += addend);
    }
    sum
}

fn options(bucket_bytes: usize, average: bool) -> ReducerOptions {
    ReducerOptions {
        bucket_bytes,
        average,
        shards: None,
    }
}

#[test]
fn sums_and_averages_are_those_of_all_ranks_whatever_the_buckets() -> Result<()> {
    for ranks in [1, 2, 3, 4] {
        for (bucket_bytes, average) in [(1, false), (5000, true), (usize::MAX, false)] {
            on(ranks, move |context, group| {
                let rank = context.world().rank();
                let mut reducer = GradientReducer::new(&group, options(bucket_bytes, average))?;
                for _step in 0..3 {
                    let mut addresses = Vec::new();
                    for parameter in 0..LENGTHS.len() {
                        let gradient = gradient(parameter, rank);
                        addresses.push(gradient.as_ptr().addr());
                        reducer.push(&format!("parameter {parameter}"), gradient)?;
                    }
                    let reduced = reducer.finish()?;
                    assert_eq!(reduced.len(), LENGTHS.len());
                    for (parameter, reduced) in reduced.into_iter().enumerate() {
                        assert_eq!(reduced.name(), format!("parameter {parameter}"));
                        let found = reduced.into_vec::<f32>()?;
                        assert_eq!(found.as_ptr().addr(), addresses[parameter], "no copy");
                        let scale = if average { ranks as f32 } else { 1.0 };
                        let wanted = sum(parameter, ranks).into_iter().map(|sum| sum / scale);
                        assert_eq!(found, wanted.collect::<Vec<f32>>(), "{ranks} ranks");
                    }
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

#[test]
fn a_step_of_one_bucket_comes_after_one_of_several() -> Result<()> {
    on(4, |context, group| {
        let rank = context.world().rank();
        let names: Vec<String> = (0..LENGTHS.len()).map(|index| index.to_string()).collect();
        let parameters = names.iter().map(String::as_str).zip(LENGTHS);
        let shards = Some(Rc::new(ParameterShards::new(&group, parameters)?));
        let shared = ReducerOptions {
            shards,
            ..options(5000, false)
        };
        let mut reducer = GradientReducer::new(&group, shared)?;
        for step in 0..100 {
            // The last bucket of several may still be on its way when the next step begins: a rank waits for its own alone.
            let parameters = match step % 2 {
                0 => vec![3, 0, 3, 1],
                _ => vec![4],
            };
            for &parameter in &parameters {
                reducer.push(&names[parameter], gradient(parameter, rank))?;
            }
            for reduced in reducer.finish()? {
                let parameter: usize = reduced.name().parse().expect("a number");
                assert_eq!(reduced.into_vec::<f32>()?, sum(parameter, 4), "step {step}");
            }
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn with_shards_owners_alone_receive_gradients_and_all_receive_parameters() -> Result<()> {
    let names = ["a", "b", "c", "d", "e"];
    let owned = on(3, move |context, group| {
        let rank = context.world().rank();
        let parameters = names.into_iter().zip(LENGTHS);
        let shards = Rc::new(ParameterShards::new(&group, parameters)?);
        let shared = ReducerOptions {
            shards: Some(shards.clone()),
            ..options(5000, false)
        };
        let mut reducer = GradientReducer::new(&group, shared)?;
        for (parameter, name) in names.into_iter().enumerate() {
            reducer.push(name, gradient(parameter, rank))?;
        }
        let mut values: Vec<Vec<f32>> = LENGTHS.iter().map(|&length| vec![0.0; length]).collect();
        let mut owned = Vec::new();
        for reduced in reducer.finish()? {
            let parameter = names
                .iter()
                .position(|name| *name == reduced.name())
                .expect("known");
            assert!(shards.is_mine(reduced.name()));
            owned.push(parameter);
            // The owner's update: the gradient itself.
            values[parameter] = reduced.into_vec()?;
        }
        let mut slices: Vec<(&str, &mut [f32])> = names
            .into_iter()
            .zip(values.iter_mut().map(Vec::as_mut_slice))
            .collect();
        shards.gather(&mut slices)?;
        for (parameter, values) in values.iter().enumerate() {
            assert_eq!(
                *values,
                sum(parameter, 3),
                "parameter {parameter} on rank {rank}"
            );
        }
        Ok(owned)
    })?;
    let mut all = owned.concat();
    all.sort();
    assert_eq!(all, [0, 1, 2, 3, 4], "each has one owner");
    // The largest is alone on its rank; the others lie with the ranks that have less.
    assert_eq!((&owned[0][..], owned[1][0]), (&[3][..], 0));
    Ok(())
}

// Rank 1 does something else than rank 0.
fn difference(wrong: fn(&mut GradientReducer) -> Result<()>) -> Vec<String> {
    let all = on(2, move |context, group| {
        let mut reducer = GradientReducer::new(&group, options(usize::MAX, true))?;
        reducer.push("first", vec![1.0f32; 4])?;
        match context.world().rank() {
            0 => reducer.push("second", vec![1.0f32; 2])?,
            _ => wrong(&mut reducer)?,
        }
        Ok(reducer.finish().map(|_| ()).unwrap_err().to_string())
    });
    all.expect("each rank has its report")
}

#[test]
fn ranks_that_push_other_gradients_are_told_so() {
    let found = difference(|reducer| reducer.push("third", vec![1.0f32; 2]));
    assert_eq!(
        found[0],
        "gradient 2 of a step: second (2 of f32) on rank 0 and third (2 of f32) on rank 1 of the group, needs the same on \
         every rank: all push the same gradients in the same order"
    );
    assert!(
        found[1].contains("third (2 of f32) on rank 1 and second (2 of f32) on rank 0"),
        "{}",
        found[1]
    );
}

#[test]
fn integers_and_strangers_are_refused() -> Result<()> {
    on(1, |_, group| {
        let mut reducer = GradientReducer::new(&group, options(1, true))?;
        let refused = reducer.push("ids", vec![1u32]).unwrap_err().to_string();
        assert_eq!(
            refused,
            "GradientReducer: gradient ids of u32, needs a float type"
        );
        let shards = ParameterShards::new(&group, [("a", 2)])?;
        let mut values = [0.0f32; 3];
        let refused = shards
            .gather(&mut [("a", &mut values)])
            .unwrap_err()
            .to_string();
        assert_eq!(refused, "parameter a: 3 elements, needs 2, as were divided");
        let refused = shards
            .gather(&mut [("b", &mut values)])
            .unwrap_err()
            .to_string();
        assert_eq!(
            refused,
            "ParameterShards: parameter b, needs one of those that were divided"
        );
        let twice = ParameterShards::new(&group, [("a", 2), ("a", 2)]).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "parameters: two named a, needs a name for each"
        );
        Ok(())
    })
    .map(drop)
}
