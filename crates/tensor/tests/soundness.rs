//! What safe code must not reach: memory of others, objects of another device, the end of the stack.

use bootstrap::{World, local};
use fascicle_tensor::{
    Communicator, DType, Device, Error, ReduceOp, Result, StreamKind, Tensor, UnevenShards, Var,
    ops,
    ops::{
        Region, Transpose,
        attention::{AttentionDropout, AttentionShape, Saved},
        norm::{NormKind, NormShape},
    },
};
use hal::{Counts, random::Key};
use std::time::Duration;

const HALF: usize = 1 << 32;

fn device() -> Device {
    Device::new(cpu::open(cpu::Options::default()).unwrap()).unwrap()
}

fn refusal<T>(result: Result<T>) -> String {
    match result {
        Err(error @ Error::Invalid { .. }) => error.to_string(),
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("accepted"),
    }
}

/// The group of this rank alone.
fn alone(device: &Device) -> Communicator {
    let join = hal::Join {
        id: device.hal().create_group().unwrap(),
        label: "one".into(),
        rank: 0,
        members: vec![0],
        timeout: Duration::from_secs(5),
        abort: Default::default(),
    };
    Communicator::join(device, join, None).unwrap()
}

#[test]
fn a_shape_is_counted_without_wrapping() {
    let device = device();
    let empty = Tensor::zeros(&device, DType::F32, &[0]).unwrap();
    let two = Tensor::zeros(&device, DType::F32, &[2]).unwrap();
    for shape in [vec![HALF, HALF, 0], vec![0, HALF, HALF], vec![HALF, HALF]] {
        refusal(empty.reshape(&shape));
        refusal(Tensor::empty(&device, DType::U32, &shape));
    }
    let error = refusal(two.reshape(&[(1 << 63) + 1, 2]));
    assert_eq!(
        error,
        "reshape: shape [9223372036854775809, 2] of f32, needs fewer than 2^63 bytes, an empty dim counted as 1"
    );
    assert_eq!(
        empty.reshape(&[5, 0]).unwrap().rows(2, 3).unwrap().shape(),
        [3, 0]
    );
}

#[test]
fn a_tensor_without_dims_has_no_rows() {
    let scalar = Tensor::zeros(&device(), DType::F32, &[]).unwrap();
    let error = refusal(scalar.rows(0, 0));
    assert_eq!(error, "rows: Tensor(f32 [] on cpu:0), needs a first dim");
}

#[test]
fn sizes_that_wrap_are_refused() {
    let device = device();
    let zeros = |shape: &[usize]| Tensor::zeros(&device, DType::F32, shape).unwrap();
    let (none, one) = (zeros(&[0]), zeros(&[1]));
    let (tall, wide) = (
        none.reshape(&[HALF, 0]).unwrap(),
        none.reshape(&[0, HALF]).unwrap(),
    );
    refusal(ops::matmul_into(
        &tall,
        &wide,
        Transpose::None,
        &none,
        1.0,
        0.0,
    ));
    let norm = NormShape {
        kind: NormKind::Layer,
        rows: HALF,
        columns: HALF,
        global_columns: HALF,
        epsilon: 0.0,
    };
    refusal(ops::norm::moments(norm, &none));
    refusal(ops::norm::combine(norm, &none, &[1; 2]));
    refusal(ops::norm::combine(norm, &none, &[HALF, HALF, 0]));
    refusal(ops::norm::combine(norm, &none, &[HALF]));
    // The number of elements is 0, and that of moments wraps to 0.
    let tallest = NormShape {
        rows: 1 << 63,
        columns: 0,
        ..norm
    };
    refusal(ops::norm::normalize(tallest, &none, &none, &none, None));
    refusal(ops::norm::normalize_backward(
        tallest, &none, &none, &none, &none, &none,
    ));
    // Rows that are not full.
    let cut = NormShape {
        rows: 1,
        columns: 1,
        global_columns: 2,
        ..norm
    };
    let moments = zeros(&[1, 2]);
    refusal(ops::norm::forward(cut, &one, &one, None));
    let gradients = ops::norm::Gradients {
        d_x: &zeros(&[1]),
        d_gain: &zeros(&[1]),
        d_bias: None,
        addend: Some(&one),
    };
    refusal(ops::norm::backward(
        cut, &one, &moments, &one, &one, gradients, 0.0,
    ));
    let region = Region {
        rows: 1,
        columns: 1,
        first_row: usize::MAX,
        first_column: 0,
        global_columns: 1,
    };
    let key = Key::new(1, "test", 0);
    refusal(ops::dropout(&one, 0.5, key, region));
    let targets = Tensor::zeros(&device, DType::U32, &[1]).unwrap();
    refusal(ops::loss::combine(&none, &targets, &[HALF; 2], 1, 1.0));
    refusal(ops::loss::combine(&none, &targets, &[1], 0, 1.0));
    let statistics = Tensor::zeros(&device, DType::F32, &[3]).unwrap();
    refusal(ops::loss::combine(&statistics, &targets, &[1], 2, 1.0));
}

#[test]
fn heads_that_wrap_are_refused() {
    let device = device();
    let none = Tensor::zeros(&device, DType::F32, &[0]).unwrap();
    let saved = Saved {
        q: none.clone(),
        k: none.clone(),
        v: none.clone(),
        out: none.clone(),
        log_sum_exp: none.clone(),
        documents: None,
    };
    let empty = AttentionShape::causal(HALF, 0, [1, 1, 1]);
    let wrapping = |queries: usize, keys: usize| AttentionShape {
        queries,
        keys,
        ..empty
    };
    for shape in [wrapping(HALF, HALF), wrapping(HALF, 1), wrapping(0, HALF)] {
        refusal(ops::attention(shape, &none, &none, &none, None));
        refusal(ops::attention_backward(shape, &saved, &none));
    }
    let no_key = AttentionShape {
        sequences: 0,
        ..wrapping(1, 0)
    };
    let error = refusal(ops::attention(no_key, &none, &none, &none, None));
    assert_eq!(
        error,
        "attention: 1 queries per sequence, and no key, needs at least one key"
    );
    let one = Tensor::zeros(&device, DType::F32, &[1, 2]).unwrap();
    refusal(ops::rope(&one, 1, usize::MAX, 2, 1e4, false));
    ops::rope(&one, 1, usize::MAX - 1, 2, 1e4, false).unwrap();
}

#[test]
fn dropped_weights_lie_within_their_sequence() {
    let device = device();
    let rows = |rows: usize| Tensor::zeros(&device, DType::F32, &[rows, 1]).unwrap();
    let (q, k) = (rows(2), rows(3));
    let attend = |first_query: usize, first_key: usize, sequence: usize| {
        let dropout = AttentionDropout {
            probability: 0.5,
            key: Key::new(1, "test", 0),
            first_sequence: 0,
            first_head: 0,
            global_heads: 1,
            sequence,
        };
        let shape = AttentionShape {
            queries: 2,
            keys: 3,
            first_query,
            first_key,
            dropout: Some(dropout),
            ..AttentionShape::causal(1, 0, [1, 1, 1])
        };
        ops::attention(shape, &q, &k, &k, None)
    };
    attend(1, 5, 8).unwrap();
    attend(7, 0, 9).unwrap();
    for (first_query, first_key, sequence) in [
        (0, 5, 7),
        (2, 5, 8),
        (usize::MAX, 0, 9),
        (0, usize::MAX, 9),
        (usize::MAX, usize::MAX, 9),
        (0, 0, HALF),
    ] {
        refusal(attend(first_query, first_key, sequence));
    }
}

#[test]
fn documents_are_one_place_for_each_query() {
    let device = device();
    let x = Tensor::zeros(&device, DType::F32, &[6, 1]).unwrap();
    let shape = AttentionShape::causal(2, 3, [1, 1, 1]);
    let attend = |starts: &Tensor| ops::attention(shape, &x, &x, &x, Some(starts));
    attend(&Tensor::zeros(&device, DType::U32, &[2, 3]).unwrap()).unwrap();
    for (dtype, count) in [(DType::U32, 5), (DType::U32, 7), (DType::I32, 6)] {
        let error = refusal(attend(&Tensor::zeros(&device, dtype, &[count]).unwrap()));
        assert!(error.contains("needs 6 elements of u32"), "{error}");
    }
}

#[test]
fn objects_of_one_device_are_used_together() {
    let (one, other) = (device(), device());
    let event = one.compute().record().unwrap();
    let error = refusal(other.compute().wait(&event));
    assert_eq!(
        error,
        "wait: an event of cpu:0, opened another time, needs one of cpu:0"
    );
    let here = Tensor::zeros(&one, DType::F32, &[4]).unwrap();
    let there = Tensor::zeros(&other, DType::F32, &[4]).unwrap();
    refusal(ops::copy(&here, &there));
    refusal(ops::add(&here, &there));
    let group = alone(&one);
    refusal(group.barrier(&other.compute()));
    refusal(group.all_reduce(&other.compute(), &here, ReduceOp::Sum));
    refusal(group.all_reduce(&one.compute(), &there, ReduceOp::Sum));
    refusal(group.all_gather(&one.compute(), &here, &there, &Counts::Even(4)));
    refusal(group.send_recv(&one.compute(), (&here, 0), (&there, 0)));
}

#[test]
fn collectives_of_a_group_keep_apart() {
    let device = device();
    let (group, stream) = (alone(&device), device.compute());
    let memory = Tensor::zeros(&device, DType::F32, &[16]).unwrap();
    let counts = Counts::Even(4);
    let rows = |start| memory.rows(start, 4).unwrap();
    let [a, b, c, shifted] = [rows(0), rows(4), rows(8), rows(6)];
    let part = |send, recv| UnevenShards {
        send,
        recv,
        counts: &counts,
    };
    let (two, clash) = (
        [part(&a, &b), part(&a, &c)],
        [part(&a, &b), part(&c, &shifted)],
    );
    let in_place = [part(&a, &a), part(&b, &b)];
    group.all_gathers(&stream, &two).unwrap();
    group.all_gathers(&stream, &in_place).unwrap();
    group
        .reduce_scatters(&stream, &in_place, ReduceOp::Sum)
        .unwrap();
    refusal(group.all_gathers(&stream, &clash));
    refusal(group.reduce_scatters(&stream, &clash, ReduceOp::Sum));
    refusal(group.all_gathers(&stream, &[part(&a, &b), part(&b, &c)]));
    let huge = Counts::Even(usize::MAX);
    refusal(group.all_gather(&stream, &a, &b, &huge));
}

#[test]
fn a_long_tape_is_dropped_without_recursion() {
    let tensor = Tensor::zeros(&device(), DType::F32, &[1]).unwrap();
    let (mut last, _gradient) = Var::tracked(tensor.clone());
    for _ in 0..1_000_000 {
        last = Var::record_one("step", &[&last], tensor.clone(), false, |d_out| {
            Ok(vec![Some(d_out)])
        });
    }
    drop(last);
}

fn join(world: &World, device: &Device) -> Result<Communicator> {
    let everyone = world.everyone();
    let own = match world.rank() {
        0 => device.hal().create_group()?.0,
        _ => Vec::new(),
    };
    let join = hal::Join {
        id: hal::GroupId(everyone.broadcast(0, &own)?),
        label: "everyone".into(),
        rank: world.rank(),
        members: (0..world.size()).collect(),
        timeout: world.timeout(),
        abort: world.abort().clone(),
    };
    Communicator::join(device, join, None)
}

// The ranks' calls differ, so the stream fails after the use. The end of that use cannot be determined, so the
// memory stays out of circulation.
#[test]
fn memory_behind_a_failed_stream_is_not_used_again() {
    let options = local::Options::new(2).with_timeout(Duration::from_secs(20));
    let run = local::run(options, |world| -> Result<()> {
        let device = Device::new(cpu::open(cpu::Options {
            ordinal: world.rank(),
            ..cpu::Options::default()
        })?)?;
        let group = join(&world, &device)?;
        let stream = device.create_stream(StreamKind::Communication, "beside")?;
        let tensor = Tensor::full(&device, DType::F32, &[1000], 1.0)?;
        let part = tensor.rows(0, 500 + world.rank())?;
        group.all_reduce(&stream, &part, ReduceOp::Sum)?;
        // Twice, because the first refusal must keep the use recorded.
        for _ in 0..2 {
            assert!(matches!(tensor.fill(0.0), Err(Error::Mismatch { .. })));
        }
        drop((part, tensor));
        let withheld = device.memory_use().cached;
        assert!(withheld >= 4000, "{withheld} bytes withheld");
        // Another block, as this one stays where it is.
        let _other = Tensor::zeros(&device, DType::F32, &[1000])?;
        assert_eq!(device.memory_use().cached, withheld);
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{}", failure.report()));
}
