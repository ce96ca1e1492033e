//! Collectives on a program's own slices, on every axis and over several.

use fascicle_collective::{AxisGroup, ReduceOp, Result};
use hal::Error;
use job::Job;
use parallel::{Context, counters::Operation};
use serde::{Serialize, de::DeserializeOwned};

fn on<T: Serialize + DeserializeOwned + Send + 'static>(
    grid: &str,
    body: impl Fn(&Context) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let job = Job::new([cpu::driver()]).grid(grid).expect("a grid");
    job.run(body)
}

#[test]
fn every_collective_on_slices() -> Result<()> {
    for ranks in [1, 2, 3, 4] {
        let all = on(&format!("data={ranks}"), move |context| {
            let group = AxisGroup::named(context, "data")?;
            let (rank, size) = (group.rank(), group.size());
            assert_eq!(size, ranks);
            let mut sum = [rank as f64, 1.0];
            group.all_reduce(&mut sum, ReduceOp::Sum)?;
            assert_eq!(sum, [(ranks * (ranks - 1) / 2) as f64, ranks as f64]);
            let mut largest = [rank as i32, -(rank as i32)];
            group.all_reduce(&mut largest, ReduceOp::Max)?;
            assert_eq!(largest, [ranks as i32 - 1, 0]);
            let (mut a, mut b) = (vec![1f32; 3], vec![2f32; 5]);
            group.all_reduces(&mut [&mut a, &mut b], ReduceOp::Sum)?;
            assert_eq!((a, b), (vec![ranks as f32; 3], vec![2.0 * ranks as f32; 5]));
            let mut gathered = vec![0u32; ranks];
            group.all_gather(&[rank as u32], &mut gathered, None)?;
            assert_eq!(gathered, (0..ranks as u32).collect::<Vec<_>>());
            // Parts of 0, 1, 2, ... elements.
            let counts: Vec<usize> = (0..ranks).collect();
            let total: usize = counts.iter().sum();
            let (send, mut recv) = (vec![1.0f32; total], vec![0.0f32; rank]);
            group.reduce_scatter(&send, &mut recv, Some(&counts))?;
            assert_eq!(recv, vec![ranks as f32; rank]);
            let mut whole = vec![0.0f32; total];
            group.all_gather(&vec![rank as f32; rank], &mut whole, Some(&counts))?;
            let wanted = (0..ranks).flat_map(|rank| vec![rank as f32; rank]);
            assert_eq!(whole, wanted.collect::<Vec<f32>>());
            let mut from_last = [rank as u32];
            group.broadcast(&mut from_last, ranks - 1)?;
            assert_eq!(from_last, [ranks as u32 - 1]);
            let send: Vec<u32> = (0..ranks).map(|to| (10 * rank + to) as u32).collect();
            let mut recv = vec![0; ranks];
            group.all_to_all(&send, &mut recv)?;
            let wanted = (0..ranks).map(|from| (10 * from + rank) as u32);
            assert_eq!(recv, wanted.collect::<Vec<u32>>());
            if rank == 0 && ranks > 1 {
                group.send(&[half::bf16::from_f32(1.5); 2], 1)?;
            }
            if rank == 1 {
                let mut message = [half::bf16::ZERO; 2];
                group.recv(&mut message, 0)?;
                assert_eq!(message.map(f32::from), [1.5; 2]);
            }
            group.barrier()?;
            Ok(group.moved_bytes(Operation::Broadcast))
        })?;
        let expected = if ranks == 1 { 0 } else { 4 };
        assert_eq!(all, vec![expected; ranks]);
    }
    Ok(())
}

#[test]
fn groups_lie_along_the_axes_that_are_named() -> Result<()> {
    let sums = on("x=2,z=2,data=2", |context| {
        let sum = |axes: &str| {
            let mut sum = [1u32 << context.world().rank()];
            AxisGroup::named(context, axes)?.all_reduce(&mut sum, ReduceOp::Sum)?;
            Ok::<u32, Error>(sum[0])
        };
        Ok((
            sum("x")?,
            sum("data")?,
            sum("data, x")?,
            sum("x,data,pipeline")?,
            sum("all")?,
        ))
    })?;
    for (x, data, both, again, all) in &sums {
        assert_eq!((x.count_ones(), data.count_ones()), (2, 2));
        assert_eq!((both.count_ones(), both & x, both & data), (4, *x, *data));
        assert_eq!((again, *all), (both, 255));
    }
    Ok(())
}

#[test]
fn mistakes_are_named() -> Result<()> {
    let all = on("data=2", |context| {
        let group = AxisGroup::named(context, "data")?;
        let text = |result: Result<()>| result.unwrap_err().to_string();
        Ok([
            text(AxisGroup::named(context, "rows").map(drop)),
            text(AxisGroup::new(context, &[]).map(drop)),
            text(group.broadcast(&mut [0u32], 2)),
            text(group.send(&[0u32], context.world().rank())),
            text(group.all_gather(&[0u32], &mut [0; 3], None)),
        ])
    })?;
    assert!(all[0][0].starts_with("axes: "), "{}", all[0][0]);
    assert_eq!(all[0][1], "axes: none, needs at least one axis");
    assert_eq!(
        all[0][2],
        "broadcast on axis data (rank 0): rank 2, needs a rank below 2"
    );
    assert_eq!(
        all[1][3],
        "send on axis data (rank 1): rank 1, needs another rank than this one"
    );
    assert!(
        all[0][4].contains("needs 2 and 1 elements of one type"),
        "{}",
        all[0][4]
    );
    Ok(())
}
