//! Collectives along an axis that a model's author calls: their results, and the bytes counted for them.

mod common;

use common::on;
use fascicle_parallel::{Operation, Purpose, counters::Subject};
use grid::Axis;
use tensor::{ReduceOp, Tensor};

#[test]
fn broadcast_and_all_to_all_move_what_they_say() {
    let seen = on("x=3", |context| {
        let group = context.group(Axis::X, Purpose::Main)?.expect("3 ranks");
        let (device, rank) = (context.device(), group.rank() as f64);
        let (stream, other) = (device.compute(), Subject::Other);
        let own = Tensor::from_slice(device, &[3], &[rank, rank + 10.0, rank + 20.0])?;
        let turned = Tensor::from_slice(device, &[3], &[-1.0; 3])?;
        group.all_to_all(context, other, &stream, &own, &turned)?;
        group.broadcast(context, other, &stream, &own, 1)?;
        let count = |operation| context.counters().get(Axis::X, operation, other).bytes;
        let bytes = [Operation::AllToAll, Operation::Broadcast].map(count);
        Ok((own.to_f64()?, turned.to_f64()?, bytes))
    });
    for (rank, found) in seen.into_iter().enumerate() {
        let (own, turned, bytes) = found.unwrap();
        assert_eq!(own, [1.0, 11.0, 21.0]);
        let part = rank as f64 * 10.0;
        assert_eq!(turned, [part, part + 1.0, part + 2.0]);
        assert_eq!(bytes, [24, 24]);
    }
}

#[test]
fn numbers_of_the_host_are_reduced_in_place() {
    let seen = on("data=2,x=2", |context| {
        let group = context.group(Axis::Data, Purpose::Main)?.expect("2 ranks");
        let (mut sum, mut largest) = ([1.0f32 + group.rank() as f32], [group.rank() as f64, 0.5]);
        group.all_reduce_numbers(context, Subject::Other, &mut sum, ReduceOp::Sum)?;
        group.all_reduce_numbers(context, Subject::Other, &mut largest, ReduceOp::Max)?;
        Ok((sum, largest))
    });
    for found in seen {
        assert_eq!(found.unwrap(), ([3.0], [1.0, 0.5]));
    }
}

#[test]
fn parts_that_do_not_divide_are_refused() {
    let seen = on("y=2", |context| {
        let group = context.group(Axis::Y, Purpose::Main)?.expect("2 ranks");
        let device = context.device();
        let [send, recv] = [0.0, 1.0].map(|x| Tensor::from_slice(device, &[3], &[x; 3]));
        group.all_to_all(context, Subject::Other, &device.compute(), &send?, &recv?)
    });
    for found in seen {
        let text = found.unwrap_err();
        assert!(text.contains("divisible by 2 ranks"), "{text}");
    }
}
