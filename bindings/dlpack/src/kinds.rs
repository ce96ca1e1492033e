//! Types and devices in both vocabularies.

use crate::abi::{DLDataType, DLDevice};
use hal::{DType, DeviceId, Error, Result};

// `DLDataTypeCode`.
const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;

// `DLDeviceType`, by the name of the vendor.
const DEVICES: [(&str, i32); 3] = [("cpu", 1), ("cuda", 2), ("rocm", 10)];

/// DLPack's name of a type.
pub(crate) fn of_dtype(dtype: DType) -> DLDataType {
    let code = match dtype {
        DType::F64 | DType::F32 | DType::F16 => FLOAT,
        DType::Bf16 => BFLOAT,
        DType::I32 => INT,
        _ => UINT,
    };
    let bits = (8 * dtype.bytes()) as u8;
    DLDataType {
        code,
        bits,
        lanes: 1,
    }
}

/// Our name of a type.
///
/// # Errors
/// [`Error::Invalid`] for one that no device here has.
pub(crate) fn dtype(found: DLDataType) -> Result<DType> {
    let known = DType::ALL
        .into_iter()
        .find(|&dtype| of_dtype(dtype) == found);
    known.ok_or_else(|| {
        let DLDataType { code, bits, lanes } = found;
        let found = format!("a type of code {code}, {bits} bits and {lanes} lanes");
        Error::invalid("DLPack", found, "f64, f32, bf16, f16, i32, u32 or u8")
    })
}

/// DLPack's name of a device.
///
/// # Errors
/// [`Error::Invalid`] for a vendor that DLPack has no number for.
pub(crate) fn of_device(id: DeviceId) -> Result<DLDevice> {
    let known = DEVICES
        .into_iter()
        .find(|(name, _)| *name == id.vendor.name());
    let Some((name, device_type)) = known else {
        let found = format!("a tensor on {id}");
        return Err(Error::invalid(
            "DLPack",
            found,
            "a device of the CPU, CUDA or ROCm",
        ));
    };
    // The host is one device, of which every rank has an object of its own.
    let device_id = if name == "cpu" { 0 } else { id.ordinal as i32 };
    Ok(DLDevice {
        device_type,
        device_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_back() {
        let all = DType::ALL.map(of_dtype);
        for (index, one) in all.iter().enumerate() {
            assert_eq!(dtype(*one).unwrap(), DType::ALL[index]);
            assert!(!all[..index].contains(one), "{one:?} has one name");
        }
        let vector = DLDataType {
            lanes: 4,
            ..of_dtype(DType::F32)
        };
        assert_eq!(
            dtype(vector).unwrap_err().to_string(),
            "DLPack: a type of code 2, 32 bits and 4 lanes, needs f64, f32, bf16, f16, i32, u32 or u8"
        );
    }
}
