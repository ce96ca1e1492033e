//! The contract suite: what every vendor must do, checked through the safe shell against plain arithmetic in
//! f64.
//!
//! `contract_tests!(open)` makes the tests of one vendor, where `open` opens the device of a rank by its
//! number. Each subject has a file: `memory`, `order`, `matmuls`, `kernels`, `layers`, `collectives`.
//!
//! A vendor whose buffers hold no values does all the same work; where a test would compare a number, the
//! vendor must refuse to return one.

pub mod collectives;
pub mod kernels;
pub mod layers;
pub mod matmuls;
pub mod memory;
mod norms;
pub mod order;

use std::sync::Arc;
use tensor::{DType, Device, Tensor};

/// Opens the device of the rank with that number.
pub type Open = fn(usize) -> hal::Result<Arc<dyn hal::Device>>;

/// The contract suite for one vendor, as tests of the calling module.
#[macro_export]
macro_rules! contract_tests {
    ($open:expr) => {
        #[test]
        fn memory_is_apart_aligned_and_used_again() {
            $crate::contract::memory::check($open);
        }
        #[test]
        fn streams_and_events_keep_their_order() {
            $crate::contract::order::check($open);
        }
        #[test]
        fn matmuls_of_all_transposes_and_types() {
            $crate::contract::matmuls::check($open);
        }
        #[test]
        fn elementwise_kernels_of_all_types() {
            $crate::contract::kernels::check($open);
        }
        #[test]
        fn norms_attention_loss_and_updates() {
            $crate::contract::layers::check($open);
        }
        #[test]
        fn collectives_between_ranks() {
            for ranks in $crate::contract::collectives::RANKS {
                $crate::contract::collectives::check($open, ranks);
            }
        }
    };
}

/// The float types that the device supports.
pub(crate) fn float_types(device: &Device) -> Vec<DType> {
    DType::ALL
        .into_iter()
        .filter(|dtype| dtype.is_float() && device.supports(*dtype))
        .collect()
}

pub(crate) fn device(open: Open) -> Device {
    Device::new(open(0).expect("the device opens")).expect("the device makes streams")
}

/// Numbers in about -1..1 that every float type represents closely enough.
pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let key = hal::random::Key { seed, sequence: 7 };
    (0..count)
        .map(|index| f64::from((key.uniform(index as u64) * 64.0).floor()) / 32.0 - 1.0)
        .collect()
}

pub(crate) fn upload(device: &Device, dtype: DType, shape: &[usize], numbers: &[f64]) -> Tensor {
    Tensor::from_f64(device, dtype, shape, numbers).expect("an upload")
}

/// Relative rounding error of a type, with room for a few operations.
pub(crate) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F16 => 4e-3,
        DType::Bf16 => 3e-2,
        _ => 2e-5,
    }
}

/// The values of a tensor, if its device holds any; a device without values must say so.
pub(crate) fn read(tensor: &Tensor) -> Option<Vec<f64>> {
    let numbers = tensor.to_f64();
    match tensor.device().capabilities().holds_values {
        true => Some(numbers.expect("a download")),
        false => {
            assert!(
                matches!(numbers, Err(hal::Error::NoValues { .. })),
                "{numbers:?} without values"
            );
            None
        }
    }
}

/// Compares values exactly, if the device holds any.
pub(crate) fn equal(what: &str, found: &Tensor, expected: &[f64]) {
    assert_eq!(found.num_elements(), expected.len(), "{what}: length");
    if let Some(numbers) = read(found) {
        assert_eq!(numbers, expected, "{what}");
    }
}

pub(crate) fn compare(what: &str, found: &Tensor, expected: &[f64], scale: f64) {
    assert_eq!(found.num_elements(), expected.len(), "{what}: length");
    let Some(numbers) = read(found) else { return };
    let allowed = tolerance(found.dtype()) * scale;
    for (index, (a, b)) in numbers.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= allowed,
            "{what} in {}: element {index} is {a}, not {b}",
            found.dtype()
        );
    }
}
