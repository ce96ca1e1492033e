//! Element types in files: their names in JSON and safetensors headers, and their values as numbers.

use hal::DType;
use half::{bf16, f16};

/// The name of an element type in safetensors headers.
pub(crate) fn header_name(dtype: DType) -> String {
    dtype.name().to_uppercase()
}

/// The element type with this name in a safetensors header, if we support it.
pub(crate) fn from_header(dtype: safetensors::Dtype) -> Option<DType> {
    DType::from_name(&format!("{dtype:?}").to_lowercase())
}

/// Little-endian floats of the type as numbers; `None` for integers.
///
/// # Panics
/// If the bytes are not a whole number of elements.
pub(crate) fn numbers(dtype: DType, bytes: &[u8]) -> Option<Vec<f64>> {
    match dtype {
        DType::F64 => Some(each(bytes, f64::from_le_bytes)),
        DType::F32 => Some(each(bytes, |bytes| f32::from_le_bytes(bytes).into())),
        DType::Bf16 => Some(each(bytes, |bytes| bf16::from_le_bytes(bytes).into())),
        DType::F16 => Some(each(bytes, |bytes| f16::from_le_bytes(bytes).into())),
        DType::I32 | DType::U32 | DType::U8 => None,
    }
}

/// Numbers as little-endian floats of the type, each rounded once.
///
/// # Panics
/// For a type of integers.
pub(crate) fn bytes(dtype: DType, numbers: &[f64]) -> Vec<u8> {
    let numbers = numbers.iter();
    match dtype {
        DType::F64 => numbers.flat_map(|number| number.to_le_bytes()).collect(),
        DType::F32 => numbers
            .flat_map(|number| (*number as f32).to_le_bytes())
            .collect(),
        DType::Bf16 => numbers
            .flat_map(|number| bf16::from_f64(*number).to_le_bytes())
            .collect(),
        DType::F16 => numbers
            .flat_map(|number| f16::from_f64(*number).to_le_bytes())
            .collect(),
        DType::I32 | DType::U32 | DType::U8 => panic!("bytes: a bug: {dtype} is no type of floats"),
    }
}

/// One element as a number; integers are exact.
///
/// # Panics
/// If the bytes are not one element.
pub(crate) fn value(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::F64 => f64::from_le_bytes(one(bytes)),
        DType::F32 => f32::from_le_bytes(one(bytes)).into(),
        DType::Bf16 => bf16::from_le_bytes(one(bytes)).into(),
        DType::F16 => f16::from_le_bytes(one(bytes)).into(),
        DType::I32 => i32::from_le_bytes(one(bytes)).into(),
        DType::U32 => u32::from_le_bytes(one(bytes)).into(),
        DType::U8 => u8::from_le_bytes(one(bytes)).into(),
    }
}

/// One element as the shortest decimal that leads back to it; NaN with its bits, because there are many.
///
/// # Panics
/// If the bytes are not one element.
pub(crate) fn text(dtype: DType, bytes: &[u8]) -> String {
    let value = value(dtype, bytes);
    match dtype {
        _ if value.is_nan() => format!("NaN 0x{}", bits(bytes)),
        DType::F64 => format!("{value:?}"),
        // Exact, because f32 holds every number of the narrower types.
        DType::F32 | DType::Bf16 | DType::F16 => format!("{:?}", value as f32),
        DType::I32 | DType::U32 | DType::U8 => format!("{value}"),
    }
}

/// The bits of a little-endian element in hexadecimal, the highest first.
pub(crate) fn bits(bytes: &[u8]) -> String {
    let digits = bytes.iter().rev().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

fn one<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap_or_else(|_| {
        let found = bytes.len();
        panic!("an element: a bug: found {found} bytes, needs {N}")
    })
}

fn each<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    let (elements, rest) = bytes.as_chunks::<N>();
    assert!(
        rest.is_empty(),
        "numbers: a bug: {} bytes are no elements of {N} bytes",
        bytes.len()
    );
    elements.iter().map(|element| number(*element)).collect()
}

/// Element types by name, for serde's `with`.
pub(crate) mod by_name {
    use hal::DType;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(dtype.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
        let name = String::deserialize(deserializer)?;
        DType::from_name(&name)
            .ok_or_else(|| D::Error::custom(format!("found element type {name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_header_name_that_leads_back() {
        for dtype in DType::ALL {
            let quoted = format!("\"{}\"", header_name(dtype));
            assert_eq!(
                from_header(serde_json::from_str(&quoted).unwrap()),
                Some(dtype)
            );
        }
        assert_eq!(from_header(safetensors::Dtype::F8_E4M3), None);
    }

    #[test]
    fn numbers_come_from_every_float_type() {
        assert_eq!(numbers(DType::F64, &0.1_f64.to_le_bytes()), Some(vec![0.1]));
        assert_eq!(
            numbers(
                DType::F32,
                &[1.5_f32.to_le_bytes(), (-2_f32).to_le_bytes()].concat()
            )
            .unwrap(),
            [1.5, -2.0]
        );
        assert_eq!(numbers(DType::Bf16, &[0x80, 0x3f]), Some(vec![1.0]));
        assert_eq!(numbers(DType::F16, &[0x00, 0xc0]), Some(vec![-2.0]));
        assert_eq!(numbers(DType::U32, &[0; 4]), None);
        for dtype in [DType::F64, DType::F32, DType::Bf16, DType::F16] {
            let exact = [1.5, -0.0, 0.0078125];
            assert_eq!(numbers(dtype, &bytes(dtype, &exact)).unwrap(), exact);
        }
    }

    #[test]
    fn elements_are_shown_so_that_two_with_other_bits_differ() {
        let cases: [(DType, &[u8], &str, f64); 8] = [
            (DType::F64, &0.1_f64.to_le_bytes(), "0.1", 0.1),
            (
                DType::F32,
                &0.1_f32.to_le_bytes(),
                "0.1",
                0.100_000_001_490_116_12,
            ),
            (DType::F32, &(-0_f32).to_le_bytes(), "-0.0", 0.0),
            (DType::F32, &0_f32.to_le_bytes(), "0.0", 0.0),
            (DType::Bf16, &[0x80, 0x3f], "1.0", 1.0),
            (DType::F16, &[0x00, 0xc0], "-2.0", -2.0),
            (DType::I32, &(-7_i32).to_le_bytes(), "-7", -7.0),
            (
                DType::U32,
                &u32::MAX.to_le_bytes(),
                "4294967295",
                4_294_967_295.0,
            ),
        ];
        for (dtype, bytes, needed, number) in cases {
            assert_eq!(text(dtype, bytes), needed);
            assert_eq!(value(dtype, bytes), number);
        }
        assert_eq!(text(DType::F16, &[0x01, 0x7e]), "NaN 0x7e01");
    }
}
