//! Memory and streams: blocks are disjoint, streams wait for each other's results, freed blocks are reused.

use super::{Open, device, equal, float_types, numbers, upload};
use tensor::{DType, StreamKind, Tensor, ops};

/// Checks memory, copies and the order of streams.
///
/// # Panics
/// When the vendor breaks the contract.
pub fn check(open: Open) {
    let device = device(open);
    for dtype in float_types(&device) {
        let given = numbers(1000, 1);
        let tensor = upload(&device, dtype, &[10, 100], &given);
        equal("there and back", &tensor, &given);
        let copy = Tensor::empty(&device, dtype, &[1000]).unwrap();
        ops::copy(&tensor, &copy).unwrap();
        tensor.fill(3.0).unwrap();
        equal(
            "a copy, which is apart",
            &copy.rows(100, 5).unwrap(),
            &given[100..105],
        );
        equal("a fill", &tensor, &[3.0; 1000]);
    }
    reuse(&device);
    refusals(&device);
    // Too large for any machine: the message holds the numbers, and the device keeps working.
    let message = Tensor::empty(&device, DType::F32, &[1 << 50])
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("out of memory") && message.contains("4503599627370496"),
        "{message}"
    );
    equal(
        "after a refusal",
        &upload(&device, DType::F32, &[1], &[2.0]),
        &[2.0],
    );
}

/// Checks that a device holds its limit to the byte. `open` opens one with a limit of `limit` bytes, a multiple of 4096.
///
/// # Panics
/// When the vendor breaks the contract.
pub fn check_limit(open: Open, limit: usize) {
    let device = device(open);
    assert_eq!(device.hal().memory().unwrap().total, limit);
    let bytes = |count: usize| Tensor::empty(&device, DType::U8, &[count]);
    let half = bytes(limit / 2).unwrap();
    drop(bytes(limit / 2).unwrap());
    assert_eq!(device.memory_use().cached, limit / 2);
    // Of another size, so that it needs what the cache holds.
    let quarter = bytes(limit / 4).unwrap();
    assert_eq!(device.memory_use().cached, 0, "the cache is emptied first");
    let rest = bytes(limit / 4).unwrap();
    assert_eq!(device.memory_use().in_use, limit);
    drop(rest);
    let message = bytes(limit / 4 + 1).unwrap_err().to_string();
    let free = format!("{} ({} bytes)", hal::error::Bytes(limit / 4), limit / 4);
    let needed = format!("out of memory, {free} free");
    assert!(message.contains(&needed), "{message}");
    assert!(message.contains("in use: activations"), "{message}");
    let rest = bytes(limit / 4).unwrap();
    drop((half, quarter, rest));
    drop(bytes(limit).unwrap());
}

fn reuse(device: &tensor::Device) {
    drop(Tensor::zeros(device, DType::F32, &[5000]).unwrap());
    let cached = device.memory_use().cached;
    let again = Tensor::zeros(device, DType::F32, &[5000]).unwrap();
    assert!(
        device.memory_use().cached < cached,
        "a freed block is reused"
    );
    drop(again);
    device
        .create_stream(StreamKind::Communication, "another")
        .unwrap()
        .synchronize()
        .unwrap();
}

fn refusals(device: &tensor::Device) {
    let (a, b) = (
        upload(device, DType::F32, &[4], &[0.0; 4]),
        upload(device, DType::F32, &[5], &[0.0; 5]),
    );
    let message = ops::add(&a, &b).unwrap_err().to_string();
    assert!(
        message.contains("[4]") && message.contains("[5]"),
        "{message}"
    );
    let ids = Tensor::from_slice(device, &[2], &[1u32, 2]).unwrap();
    assert!(ops::add(&ids, &ids).is_err(), "integers are not added");
    assert!(a.rows(3, 2).is_err() && a.reshape(&[5]).is_err() && a.to_vec::<f64>().is_err());
    assert!(
        ops::axpby(1.0, &b.rows(0, 4).unwrap(), 1.0, &b.rows(1, 4).unwrap()).is_err(),
        "a shifted overlap"
    );
}
