//! The allocator's report of memory by kind, and its error when memory runs out.

use fascicle_tensor::{DType, Device, MemoryKind, Result, Tensor};

const KIB: usize = 1 << 10;

fn device(memory_bytes: Option<usize>) -> Result<Device> {
    Device::new(cpu::open(cpu::Options {
        memory_bytes,
        ..cpu::Options::default()
    })?)
}

/// A tensor of `bytes` bytes, which is also the size of its block.
fn tensor(device: &Device, bytes: usize) -> Result<Tensor> {
    Tensor::zeros(device, DType::F32, &[bytes / 4])
}

fn in_use(device: &Device, kind: MemoryKind) -> usize {
    device.memory_use().of(kind).in_use
}

#[test]
fn memory_counts_as_the_innermost_kind_until_it_is_freed() -> Result<()> {
    let device = device(None)?;
    let (weights, buffer) = device.allocating(MemoryKind::Weights, || {
        let buffer = device.allocating(MemoryKind::Buffers, || tensor(&device, 16 * KIB))?;
        Ok::<_, hal::Error>((tensor(&device, 64 * KIB)?, buffer))
    })?;
    let activation = tensor(&device, 32 * KIB)?;
    assert_eq!(in_use(&device, MemoryKind::Weights), 64 * KIB);
    assert_eq!(in_use(&device, MemoryKind::Buffers), 16 * KIB);
    assert_eq!(in_use(&device, MemoryKind::Activations), 32 * KIB);
    // A view keeps the block. Freeing the view in another scope subtracts the block from its original kind.
    let view = weights.rows(0, 4)?;
    drop(weights);
    assert_eq!(in_use(&device, MemoryKind::Weights), 64 * KIB);
    device.allocating(MemoryKind::Gradients, || drop((view, buffer)));
    drop(activation);
    for kind in MemoryKind::ALL {
        assert_eq!(in_use(&device, kind), 0, "{}", kind.name());
    }
    assert_eq!(
        (device.memory_use().in_use, device.memory_use().peak),
        (0, 112 * KIB)
    );
    Ok(())
}

#[test]
fn a_cached_block_takes_the_kind_of_its_next_use() -> Result<()> {
    let device = device(None)?;
    drop(tensor(&device, 64 * KIB)?);
    let weights = device.allocating(MemoryKind::Weights, || tensor(&device, 64 * KIB))?;
    let usage = device.memory_use();
    assert_eq!((usage.cached, usage.peak), (0, 64 * KIB));
    assert_eq!(usage.of(MemoryKind::Weights).in_use, 64 * KIB);
    // The activation reached the peak first; a reset measures again.
    assert_eq!(usage.of(MemoryKind::Activations).at_peak, 64 * KIB);
    device.reset_peak_memory();
    assert_eq!(device.memory_use().at_peak(), [64 * KIB, 0, 0, 0, 0, 0]);
    drop(weights);
    Ok(())
}

#[test]
fn out_of_memory_tells_asked_free_cached_and_the_kinds() -> Result<()> {
    let device = device(Some(1 << 20))?;
    let weights = device.allocating(MemoryKind::Weights, || tensor(&device, 512 * KIB))?;
    let activation = tensor(&device, 256 * KIB)?;
    let text = tensor(&device, 512 * KIB).unwrap_err().to_string();
    assert_eq!(
        text,
        "allocate(524288 bytes, 512.0 KiB) on cpu:0: out of memory, 256.0 KiB (262144 bytes) free, 768.0 KiB in use, 0 B cached; \
         in use: weights 512.0 KiB, activations 256.0 KiB; largest tensors: 512.0 KiB, 256.0 KiB"
    );
    drop((weights, activation));
    Ok(())
}

#[test]
fn reserved_blocks_serve_the_same_work_without_an_allocation() -> Result<()> {
    let work = |device: &Device| -> Result<()> {
        let weights = tensor(device, 64 * KIB)?;
        for bytes in [16, 24, 16] {
            let first = tensor(device, bytes * KIB)?;
            drop((first, tensor(device, 16 * KIB)?));
        }
        drop(weights);
        Ok(())
    };
    // With a limit far below the machine's memory, what is free depends on this device alone.
    let (seen, reserved) = (device(None)?, device(Some(1 << 20))?);
    work(&seen)?;
    let sizes = seen.block_sizes();
    assert_eq!(
        sizes
            .iter()
            .map(|(bytes, count)| bytes * count)
            .sum::<usize>(),
        seen.memory_use().cached
    );
    // One that is there already counts.
    let own = tensor(&reserved, 64 * KIB)?;
    reserved.reserve_blocks(&sizes)?;
    assert_eq!(reserved.block_sizes(), sizes);
    drop(own);
    let free = reserved.hal().memory()?.free;
    work(&reserved)?;
    assert_eq!(reserved.block_sizes(), sizes);
    assert_eq!(reserved.hal().memory()?.free, free);
    // A device without the room keeps what it has.
    let small = device(Some(100 * KIB))?;
    small.reserve_blocks(&sizes)?;
    assert!(small.memory_use().cached <= 100 * KIB);
    drop(tensor(&small, 96 * KIB)?);
    Ok(())
}
