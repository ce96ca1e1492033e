//! Kernels that a program brings itself: their code is loaded, and receives addresses, lengths and numbers in this
//! order.

use crate::{CUDA, ROCM, Way, on_devices};
use hal::VendorId;
use std::sync::Arc;
use tensor::{
    DType, Device, Error, Result, Tensor,
    ops::{CustomKernel, DeviceCode, custom},
};

/// Code whose function is one of the emulator's library of kernels; the image itself is not read there.
fn code(vendor: VendorId, entry: &'static str) -> DeviceCode {
    DeviceCode {
        vendor,
        image: b"any image".as_slice().into(),
        entry,
        grid: |elements| [elements.div_ceil(128) as u32, 1, 1],
        block: |_| [128, 1, 1],
    }
}

fn kernel(entry: &'static str) -> Arc<CustomKernel> {
    let kernel = CustomKernel::new("mine");
    // SAFETY: the functions take an address for each operand and then a length; `fascicle_fill_4` also takes the bits
    // of an element. They write their last operand and nothing beyond the length, which all operands share.
    let kernel = unsafe { kernel.on_device(code(VendorId::CUDA, entry)) };
    // SAFETY: as above.
    Arc::new(unsafe { kernel.on_device(code(VendorId::ROCM, entry)) })
}

fn device(way: Way) -> Device {
    (way.open)(0)
        .and_then(Device::new)
        .expect("an emulated device")
}

fn runs(device: &Device) -> Result<()> {
    let like = |value| Tensor::full(device, DType::F32, &[1000], value);
    let (gate, up, out) = (like(0.0)?, like(3.0)?, like(7.0)?);
    let swiglu = kernel("fascicle_swiglu_f32");
    for _ in 0..2 {
        custom(&swiglu).read(&gate).read(&up).write(&out).launch()?;
        assert_eq!(out.to_vec::<f32>()?, [0.0; 1000]);
        let bits = u64::from(2.5f32.to_bits());
        custom(&kernel("fascicle_fill_4"))
            .write(&out)
            .number(bits)
            .launch()?;
        assert_eq!(out.to_vec::<f32>()?, [2.5; 1000]);
    }
    Ok(())
}

#[test]
fn a_programs_own_kernel_runs_on_both_vendors() {
    // The entries are the emulator's.
    if on_devices() {
        return;
    }
    for way in [CUDA, ROCM] {
        if way.is_ready("custom kernels") {
            let device = device(way);
            runs(&device).unwrap_or_else(|error| panic!("{}: {error}", way.vendor));
            let out = Tensor::zeros(&device, DType::F32, &[1]).unwrap();
            let none = Arc::new(CustomKernel::new("host only").on_host(|_| Ok(())));
            let error = custom(&none).write(&out).launch().unwrap_err();
            assert!(matches!(error, Error::Unsupported { dtype: None, .. }));
            let text = format!("host only: {}:0 has no code for it", way.vendor);
            assert_eq!(error.to_string(), text);
            let error = custom(&kernel("absent")).write(&out).launch().unwrap_err();
            assert!(error.to_string().contains("(absent)"), "{error}");
            // The device goes on.
            assert_eq!(out.item(), Ok(0.0));
        }
    }
}
