//! Pages of the host's memory that a device has locked: copies see the bytes of the moment, whichever way they take.

use crate::{CUDA, ROCM, Way};
use hal::HostBlock;
use tensor::{DType, Device, Result, StreamKind, Tensor, ops};

const MIB: usize = 1 << 20;

/// Copies parts of a block of three MiB to the device and back, on one stream and then on another.
fn copy(way: Way, is_locked: bool) -> Result<()> {
    let device = Device::new((way.open)(0)?)?;
    let link = device.create_stream(StreamKind::Host, "link")?;
    let mut block = HostBlock::zeros(3 * MIB).expect("a small block");
    if is_locked {
        block.lock(&**device.hal())?;
    }
    assert_eq!(block.is_locked(), is_locked, "{}", way.vendor);
    // Whole, within, at the end, and too small to be worth a wait.
    for part in [0..3 * MIB, 4..2 * MIB, 3 * MIB - MIB..3 * MIB, 12..64] {
        let numbers = part.clone().step_by(4).map(|at| at as u32);
        for (place, number) in block[part.clone()].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        let x = Tensor::empty(&device, DType::U32, &[part.len() / 4])?;
        x.upload_bytes_on(&link, &block[part.clone()])?;
        // The bytes are the caller's again.
        block[part.clone()].fill(0xff);
        let copied = Tensor::empty(&device, DType::U32, &[part.len() / 4])?;
        ops::copy(&x, &copied)?;
        copied.download_on(&link, &mut block[part.clone()])?;
        let found = block[part.clone()].chunks_exact(4);
        let found = found.map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
        assert!(
            found.eq(part.clone().step_by(4).map(|at| at as u32)),
            "{part:?}"
        );
    }
    Ok(())
}

#[test]
fn locked_and_other_pages_are_copied_alike() {
    for way in [CUDA, ROCM]
        .into_iter()
        .filter(|way| way.is_ready("locked pages"))
    {
        for is_locked in [true, false] {
            copy(way, is_locked).unwrap_or_else(|error| panic!("{}: {error}", way.vendor));
        }
    }
}

#[test]
fn a_host_beside_the_device_has_tensors_in_locked_pages() -> Result<()> {
    for way in [CUDA, ROCM]
        .into_iter()
        .filter(|way| way.is_ready("locked tensors"))
    {
        let device = Device::new((way.open)(0)?)?;
        let host = device.open_host(1)?;
        let elements = MIB / 2;
        let gradients = Tensor::zeros_locked_for(&device, &host, DType::F32, &[elements])?;
        let source = Tensor::full(&device, DType::F32, &[elements], 2.0)?;
        gradients.edit_bytes(|bytes| source.download_on(&device.compute(), bytes))?;
        let sum = ops::add(&gradients, &gradients)?;
        assert!(sum.to_f64()?.iter().all(|&number| number == 4.0));
        let refused = Tensor::zeros_locked_for(&host, &device, DType::F32, &[4]).unwrap_err();
        assert!(
            refused
                .to_string()
                .ends_with("needs a device that is the host"),
            "{refused}"
        );
    }
    Ok(())
}
