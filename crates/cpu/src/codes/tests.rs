use super::*;

// A row with all codes of a byte, in blocks of different scales.
const BYTES: usize = 256;

fn part(format: Quantised) -> QuantisedPart {
    QuantisedPart {
        format,
        rows: 1,
        columns: BYTES * 8 / format.bits(),
        first_column: 0,
    }
}

fn stored(part: &QuantisedPart) -> Vec<u128> {
    let mut bytes: Vec<u8> = Vec::with_capacity(part.bytes());
    for scale in 0..part.num_scales() {
        bytes.extend((0.5 + scale as f32).to_ne_bytes());
    }
    bytes.resize(part.first_code(), 0);
    bytes.extend(0..=u8::MAX);
    let mut aligned = vec![0u128; bytes.len().div_ceil(16)];
    bytemuck::cast_slice_mut(&mut aligned)[..bytes.len()].copy_from_slice(&bytes);
    aligned
}

/// What stored weights stand for, one after another.
pub(crate) fn numbers(part: &QuantisedPart, stored: &[u8]) -> Vec<f32> {
    let (shares, codes) = (part.format.shares(), &stored[part.first_code()..]);
    let number = |element: usize| {
        let code = match part.format {
            Quantised::Int8 => codes[element],
            Quantised::Nf4 => codes[element / 2] >> (element % 2 * 4) & 15,
        };
        let at = part.scale_of(element) * 4;
        let scale = f32::from_ne_bytes(stored[at..at + 4].try_into().unwrap());
        shares[usize::from(code)] * scale
    };
    (0..part.rows * part.columns).map(number).collect()
}

fn codes(part: QuantisedPart, stored: &mut [u128]) -> Codes {
    let raw = RawSlice {
        addr: stored.as_mut_ptr() as u64,
        len: part.bytes(),
        dtype: DType::U8,
    };
    // SAFETY: the vector lives in the caller, and holds the part's bytes.
    unsafe { Codes::new(raw, part) }
}

// Numbers of lanes for which this processor has instructions, and those that need none.
fn lanes() -> Vec<usize> {
    #[allow(unused_mut, reason = "other processors have no more")]
    let mut lanes = vec![1, 4];
    #[cfg(target_arch = "x86_64")]
    {
        lanes.extend(is_x86_feature_detected!("avx2").then_some(8));
        lanes.extend(is_x86_feature_detected!("avx512f").then_some(16));
    }
    lanes
}

fn vectors_are<F: decoder::Format>(codes: Codes, expected: &[f32]) {
    for first in [0, 16, 80] {
        let rows = codes.rows::<F>(0).unwrap().from(0, first);
        for lanes in lanes() {
            for column in (0..expected.len() - first).step_by(lanes) {
                let mut found = [0.0; 16];
                // SAFETY: the row has these columns, the array has room, and the processor has the instructions.
                unsafe { rows.write(rows.row(0), column, lanes, found.as_mut_ptr()) };
                assert_eq!(
                    found[..lanes],
                    expected[first + column..][..lanes],
                    "{lanes}"
                );
            }
        }
    }
}

#[test]
fn every_code_stands_for_its_share_of_the_scale() {
    for format in Quantised::ALL {
        let part = part(format);
        let mut stored = stored(&part);
        let expected = numbers(&part, bytemuck::cast_slice(&stored));
        let codes = codes(part, &mut stored);
        match format {
            Quantised::Int8 => vectors_are::<Int8>(codes, &expected),
            Quantised::Nf4 => vectors_are::<Nf4>(codes, &expected),
        }
        for columns in [0..part.columns, 3..70, 64..65] {
            let mut found = vec![0.0f32; columns.len()];
            // SAFETY: the vector outlives the value.
            let out = unsafe { Shared::of(&mut found) };
            codes.write(0, columns.clone(), out, 0);
            assert!(found == expected[columns]);
        }
    }
}

#[test]
fn rows_without_whole_vectors_have_no_decoder() {
    for (format, columns, first_column, column, found) in [
        (Quantised::Int8, 7, 0, 0, true),
        (Quantised::Int8, 70, 8, 0, false),
        (Quantised::Int8, 70, 8, 8, true),
        (Quantised::Nf4, 7, 0, 0, false),
        (Quantised::Nf4, 70, 16, 32, true),
    ] {
        let part = QuantisedPart {
            format,
            rows: 2,
            columns,
            first_column,
        };
        let mut stored = vec![0u128; part.bytes() / 16];
        let codes = codes(part, &mut stored);
        let has = [
            codes.rows::<Int8>(column).is_some(),
            codes.rows::<Nf4>(column).is_some(),
        ];
        let expected = Quantised::ALL.map(|one| found && one == format);
        assert_eq!(has, expected, "{part:?}");
    }
}
