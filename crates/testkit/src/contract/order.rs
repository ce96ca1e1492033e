//! Streams and events: work runs in order, an event follows the work before it, a wait holds work back.

use super::{Open, device, numbers, upload};
use tensor::{DType, Device, Event, Stream, StreamKind, ops};

/// Checks the order of work on one stream and between two.
///
/// # Panics
/// When the vendor breaks the contract.
pub fn check(open: Open) {
    let device = device(open);
    let other = device
        .create_stream(StreamKind::Communication, "other")
        .unwrap();
    one_stream(&device);
    two_streams(&device, &other);
    for stream in [device.compute(), other] {
        stream.synchronize().unwrap();
        let event = stream.record().unwrap();
        event.synchronize().unwrap();
        assert!(
            event.is_complete().unwrap(),
            "an event that the host has waited for is complete"
        );
    }
}

fn time_us(event: &Event) -> f64 {
    event.synchronize().unwrap();
    event
        .time_us()
        .unwrap()
        .expect("a complete event has a time")
}

// A GEMM of some size, and the event after it.
fn work(device: &Device) -> Event {
    let [a, b] = [1, 2].map(|seed| upload(device, DType::F32, &[64, 64], &numbers(64 * 64, seed)));
    ops::matmul(&a, &b, ops::Transpose::None).unwrap();
    device.compute().record().unwrap()
}

fn one_stream(device: &Device) {
    let events: Vec<Event> = (0..10).map(|_| work(device)).collect();
    device.compute().synchronize().unwrap();
    assert!(
        events.iter().all(|event| event.is_complete().unwrap()),
        "a stream that is done has passed its events"
    );
    let times: Vec<f64> = events.iter().map(time_us).collect();
    assert!(
        times.windows(2).all(|pair| pair[0] <= pair[1]),
        "events of one stream in order: {times:?}"
    );
    assert!(times[9] > times[0], "work takes time: {times:?}");
}

fn two_streams(device: &Device, other: &Stream) {
    let free = other.record().unwrap();
    let before = work(device);
    let unaware = other.record().unwrap();
    other.wait(&before).unwrap();
    let behind = other.record().unwrap();
    device.compute().wait(&behind).unwrap();
    let last = device.compute().record().unwrap();
    let [free, unaware, before, behind, last] =
        [free, unaware, before, behind, last].map(|event| time_us(&event));
    assert!(
        free <= unaware && unaware <= behind,
        "{free} {unaware} {behind}"
    );
    assert!(
        before <= behind && behind <= last,
        "a wait holds later work back: {before} {behind} {last}"
    );
}
