//! What a forward has saved, beyond the device until its backward.

use fascicle_tensor::{
    Beyond, Carried, DType, Device, MemoryKind, Result, SavedSegment, StreamKind, Tensor, Var,
    autograd, ops,
};
use offload::Place;
use std::{cell::RefCell, rc::Rc};

const KIB: usize = 1 << 10;

fn device(memory_bytes: usize) -> Result<Device> {
    Device::new(cpu::open(cpu::Options {
        memory_bytes: Some(memory_bytes),
        ..cpu::Options::default()
    })?)
}

fn room(device: &Device, place: &Place, piece_bytes: usize) -> Result<Rc<Beyond>> {
    let link = |name| device.create_stream(StreamKind::Host, name);
    let links = [link("there")?, link("back")?];
    Beyond::new(
        device,
        ("activations", "a test"),
        (place, piece_bytes),
        links,
    )
}

fn beyond(device: &Device, piece_bytes: usize) -> Result<Rc<Beyond>> {
    room(device, &Place::Host, piece_bytes)
}

fn activations(device: &Device) -> usize {
    device.memory_use().of(MemoryKind::Activations).in_use
}

/// Segments of operations that save what they read: the gradient, and the most memory that backward holds.
fn gradient(num_segments: usize, place: Option<usize>) -> Result<(Vec<f32>, usize)> {
    let device = device(1 << 20)?;
    let numbers: Vec<f32> = (0..1024).map(|n| (n as f32 / 512.0) - 1.0).collect();
    let x = Tensor::from_slice(&device, &[32, 32], &numbers)?;
    let beyond = place.map(|bytes| beyond(&device, bytes)).transpose()?;
    let (first, arrived) = Var::tracked(x);
    let mut segments: Vec<Rc<SavedSegment>> = Vec::new();
    let (mut var, mut carried) = (first, Carried::default());
    for _ in 0..num_segments {
        let forward = |var: &Var| var.mul(var)?.add(var)?.mul(var);
        let Some(beyond) = &beyond else {
            var = forward(&var)?;
            continue;
        };
        let saved = SavedSegment::after(segments.last().cloned(), Some(beyond));
        var = saved.collect(&device, || forward(&var))?;
        carried = saved.close(carried, [var.tensor()]);
        if let Some(last) = segments.last() {
            last.leave()?;
        }
        segments.push(saved);
    }
    device.reset_peak_memory();
    let ones = Tensor::full(&device, DType::F32, &[32, 32], 1.0)?;
    autograd::backward(vec![(var, ones)])?;
    let peak = device.memory_use().of(MemoryKind::Activations).peak;
    let gradient = arrived.take().expect("a gradient arrives");
    Ok((gradient.to_vec()?, peak))
}

#[test]
fn gradients_are_the_same_and_memory_is_that_of_two_segments() -> Result<()> {
    let [(few, least), (many, most)] = [gradient(6, None)?, gradient(12, None)?];
    // Of each segment, the sum and the last product.
    assert_eq!(most - least, 6 * 2 * 4 * KIB);
    // Pieces that end within a tensor, with one, and beyond all.
    for piece_bytes in [1000, 4 * KIB, 1 << 20] {
        let [short, long] = [6, 12].map(|count| gradient(count, Some(piece_bytes)).unwrap());
        assert_eq!([&short.0, &long.0], [&few, &many]);
        assert_eq!(short.1, long.1);
        assert!(short.1 < least, "{} of {least} bytes", short.1);
    }
    Ok(())
}

/// Bytes of activations when each of eight segments begins its backward, the last one first, if one of them leaves.
fn held(leaving: Option<usize>, place: &Place) -> Result<Vec<usize>> {
    let device = device(1 << 20)?;
    let beyond = room(&device, place, 4 * KIB)?;
    let (mut var, _) = Var::tracked(Tensor::full(&device, DType::F32, &[32, 32], 0.5)?);
    let (mut before, mut carried) = (None, Carried::default());
    let held = Rc::new(RefCell::new(Vec::new()));
    for segment in 0..8 {
        let goes = (leaving == Some(segment)).then_some(&beyond);
        let saved = SavedSegment::after(before.take(), goes);
        let forward = || {
            let y = var.mul(&var)?.add(&var)?.mul(&var)?;
            let (seen, at, value) = (held.clone(), device.clone(), y.tensor().clone());
            let probe = Var::record("probe", &[&y], vec![value], true, move |gradients| {
                seen.borrow_mut().push(activations(&at));
                Ok(gradients)
            });
            Ok::<_, hal::Error>(probe.into_iter().next().expect("an output"))
        };
        var = saved.collect(&device, forward)?;
        carried = saved.close(carried, [var.tensor()]);
        saved.leave()?;
        before = Some(saved);
    }
    let ones = Tensor::full(&device, DType::F32, &[32, 32], 1.0)?;
    autograd::backward(vec![(var, ones)])?;
    Ok(held.take())
}

#[test]
fn what_left_returns_once_segments_that_stay_have_made_room() -> Result<()> {
    let stay = held(None, &Place::Host)?;
    let away = |leaving: usize, place: &Place| {
        let held = held(Some(leaving), place)?;
        let differ = stay.iter().zip(held).map(|(all, here)| all - here);
        Ok::<_, hal::Error>(differ.collect::<Vec<_>>())
    };
    let one = away(0, &Place::Host)?[0];
    assert!(one > 0);
    // The last segment frees as much as the one that left needs.
    assert_eq!(away(1, &Place::Host)?[1..], [0; 7]);
    // From a file it comes one segment ahead of its backward, because the device would wait for the disk.
    let files = Place::Files {
        disk: std::sync::Arc::new(offload::FileSystem),
        folder: std::env::temp_dir(),
    };
    assert_eq!(
        away(1, &files)?[..5]
            .iter()
            .filter(|bytes| **bytes > 0)
            .count(),
        5
    );
    assert_eq!(away(1, &files)?[5..], [0; 3]);
    Ok(())
}

/// A tensor that has left the device, and what it left with.
fn away(device: &Device, elements: usize) -> Result<(Tensor, Rc<SavedSegment>)> {
    let saved = SavedSegment::after(None, Some(&beyond(device, 4 * KIB)?));
    let x = saved.collect(device, || {
        Tensor::full(device, DType::F32, &[elements], 0.5)
    })?;
    saved.close(Carried::default(), []);
    saved.leave()?;
    Ok((x, saved))
}

#[test]
fn a_tensor_that_is_used_while_it_is_away_comes_back() -> Result<()> {
    let device = device(1 << 20)?;
    let (x, _) = away(&device, 4096)?;
    assert_eq!(activations(&device), 0);
    let sum = ops::add(&x, &x)?;
    assert_eq!(activations(&device), 32 * KIB);
    assert_eq!(sum.to_vec::<f32>()?, [1.0; 4096]);
    // A view of it, and a write to it.
    let (x, _) = away(&device, 4096)?;
    let row = x.rows(7, 2)?;
    x.fill(3.0)?;
    assert_eq!(row.to_vec::<f32>()?, [3.0; 2]);
    assert!(x.overlaps(&row));
    Ok(())
}

#[test]
fn a_device_without_room_for_what_comes_back_refuses_its_use() -> Result<()> {
    let device = device(32 * KIB)?;
    let (x, _) = away(&device, 4096)?;
    let other = Tensor::zeros(&device, DType::F32, &[7168])?;
    for _ in 0..2 {
        let refused = x.to_vec::<f32>().unwrap_err().to_string();
        assert!(refused.contains("out of memory"), "{refused}");
    }
    assert_eq!(other.to_vec::<f32>()?, [0.0; 7168]);
    Ok(())
}

#[test]
fn weights_and_what_is_carried_on_stay() -> Result<()> {
    let device = device(1 << 20)?;
    let saved = SavedSegment::after(None, Some(&beyond(&device, KIB)?));
    let new = || Tensor::zeros(&device, DType::F32, &[1024]);
    let weights = device.allocating(MemoryKind::Weights, new)?;
    let (kept, wire) = saved.collect(&device, || Ok::<_, hal::Error>((new()?, new()?)))?;
    let carried = saved.close(Carried::of([&weights]), [&wire]);
    saved.leave()?;
    assert_eq!(activations(&device), 4 * KIB);
    assert_eq!(device.memory_use().in_use, 8 * KIB);
    // The next segment uses the wire last.
    let next = SavedSegment::after(Some(saved), Some(&beyond(&device, KIB)?));
    next.close(carried, []);
    next.leave()?;
    assert_eq!(activations(&device), 0);
    assert_eq!(
        [kept, wire].map(|x| x.to_vec::<f32>().unwrap()),
        [[0.0; 1024]; 2]
    );
    Ok(())
}

#[test]
fn what_is_dropped_while_it_is_away_leaves_its_place() -> Result<()> {
    let device = device(1 << 20)?;
    let (x, saved) = away(&device, 1024)?;
    let weak = Rc::downgrade(&saved);
    drop((x, saved));
    assert!(weak.upgrade().is_none());
    assert_eq!(device.memory_use().in_use, 0);
    Ok(())
}
