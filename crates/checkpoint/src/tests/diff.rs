//! A comparison of two checkpoints names what differs and where it is stored.

use super::{
    super::{DiffReport, Error, Reader, Scalar, ScalarValue, diff, digest},
    Dying, Whole, grid, model, save,
};
use hal::DType;
use proptest::prelude::*;
use std::{fs, path::Path};

fn saved(degrees: &str, wholes: &[Whole]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    save(&Dying::never(), dir.path(), 12, &grid(degrees), wholes).unwrap();
    dir
}

fn compared(a: &Path, b: &Path) -> DiffReport {
    let [a, b] = [a, b].map(|dir| Reader::open(dir).unwrap());
    let report = diff([&a, &b], [&[], &[]]).unwrap();
    let same_digest = digest(&a, &[]).unwrap().digest == digest(&b, &[]).unwrap().digest;
    assert_eq!(report.equal, same_digest);
    report
}

/// The lines of the report from its first table on.
fn tables(report: &DiffReport) -> Vec<String> {
    report
        .to_string()
        .lines()
        .skip(3)
        .map(str::to_owned)
        .collect()
}

#[test]
fn grids_do_not_differ() {
    let wholes = model(5);
    let (one, other) = (saved("x=2,z=2", &wholes), saved("z=3", &wholes));
    let report = compared(one.path(), other.path());
    assert!(report.equal && report.num_compared == 3);
    let text = report.to_string();
    assert!(
        text.ends_with("step-00000012 are equal bit for bit (3 tensors)\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn a_flipped_bit_is_found_with_its_index_and_file() {
    let mut wholes = model(5);
    wholes[0].bytes = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 0.25]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    let (one, other) = (saved("x=1", &wholes), saved("x=2,z=3", &wholes));
    // The box of the last element of `w`, [2, 1], is alone in its file: x=1, z=2.
    let holder = Reader::open(other.path())
        .unwrap()
        .file_of("w", &[2, 1])
        .unwrap()
        .to_owned();
    let shard = other.path().join("step-00000012").join(&holder);
    let mut bytes = fs::read(&shard).unwrap();
    let at = bytes
        .windows(4)
        .rposition(|bytes| bytes == 0.25_f32.to_le_bytes())
        .unwrap();
    bytes[at + 3] ^= 0x80;
    fs::write(&shard, bytes).unwrap();

    let report = compared(one.path(), other.path());
    let [tensor] = &report.tensors[..] else {
        panic!("{report}");
    };
    let (a, b) = (&tensor.first.elements.a, &tensor.first.elements.b);
    assert_eq!(
        (tensor.name.as_str(), &tensor.first.index[..]),
        ("w", &[2, 1][..])
    );
    assert_eq!((tensor.num_differing, tensor.num_elements), (1, 6));
    assert_eq!(
        (a.value, b.value, tensor.largest_difference),
        (0.25, -0.25, 0.5)
    );
    assert_eq!((a.bits.as_str(), b.bits.as_str()), ("3e800000", "be800000"));
    assert_eq!(
        (a.file.as_str(), &b.file),
        ("shard-00000.safetensors", &holder)
    );
    assert_ne!(holder, "shard-00000.safetensors");
    assert_eq!(
        tables(&report),
        [
            "tensor  differing  first at  A     B      largest difference  file of A                file of B".to_owned(),
            format!("w       1 of 6     [2, 1]    0.25  -0.25  5.000e-1            shard-00000.safetensors  {holder}"),
        ]
    );
    assert!(
        report
            .sentence()
            .ends_with(" differ: 1 of 3 tensors in their elements")
    );
}

#[test]
fn tensors_without_a_counterpart_are_listed() {
    let one = model(5);
    let mut other = model(5);
    other[0] = Whole::new("w", DType::F32, &[2, 3], "[z | x]", 5);
    other[1] = Whole::new("b", DType::F16, &[5], "[x]", 5);
    other[2].name = "counter".into();
    let (one, other) = (saved("x=2", &one), saved("x=1", &other));
    let report = compared(one.path(), other.path());
    assert_eq!(
        tables(&report),
        [
            "tensor   A           B",
            "b        bf16 [5]    f16 [5]",
            "count    u32 []      missing",
            "counter  missing     u32 []",
            "w        f32 [3, 2]  f32 [2, 3]",
        ]
    );
    assert_eq!(report.num_compared, 0);
    assert!(
        report
            .sentence()
            .ends_with(" differ: 4 tensors without a counterpart of the same type and shape")
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["unmatched"][1]["a"]["dtype"], "u32");
    assert!(json["unmatched"][1]["b"].is_null());
}

#[test]
fn numbers_of_the_trainer_are_compared() {
    let (one, other) = (tempfile::tempdir().unwrap(), saved("x=1", &model(5)));
    save(&Dying::never(), one.path(), 11, &grid("x=1"), &model(5)).unwrap();
    let [a, b] = [&one, &other].map(|dir| Reader::open(dir.path()).unwrap());
    let scalar = |name, value| Scalar { name, value };
    let scale = |value| scalar("loss_scale", ScalarValue::F64(value));
    let updates = scalar("num_updates", ScalarValue::U64(9));
    let report = diff([&a, &b], [&[updates, scale(0.0)], &[scale(-0.0)]]).unwrap();
    assert_eq!(
        tables(&report),
        [
            "number       A    B",
            "step         11   12",
            "num_updates  9    missing",
            "loss_scale   0.0  -0.0"
        ]
    );
    let same = diff([&a, &a], [&[scale(f64::NAN)], &[scale(f64::NAN)]]).unwrap();
    assert!(same.equal);
}

#[test]
fn a_file_that_shrinks_meanwhile_is_an_error() {
    let (one, other) = (saved("x=1", &model(5)), saved("x=1", &model(5)));
    let [a, b] = [&one, &other].map(|dir| Reader::open(dir.path()).unwrap());
    let shard = other.path().join("step-00000012/shard-00000.safetensors");
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, &bytes[..bytes.len() - 3]).unwrap();
    assert!(matches!(
        diff([&a, &b], [&[], &[]]),
        Err(Error::Damaged { .. })
    ));
    assert!(matches!(digest(&b, &[]), Err(Error::Damaged { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_first_and_the_number_of_changed_elements_are_found(
        changed in prop::collection::btree_set(0_usize..60, 1..6),
        degrees in prop::sample::select(vec!["x=1", "x=3", "y=2,z=2", "x=2,y=2,z=3"]),
    ) {
        let whole = Whole::new("w", DType::U32, &[3, 4, 5], "[z | x | y]", 7);
        let mut other = whole.clone();
        changed.iter().for_each(|at| other.bytes[4 * at] ^= 1);
        let (one, other) = (saved("x=2,z=2", &[whole]), saved(degrees, &[other]));
        let report = compared(one.path(), other.path());
        let first = *changed.first().unwrap();
        let tensor = &report.tensors[0];
        prop_assert_eq!(tensor.num_differing, changed.len() as u64);
        prop_assert_eq!(&tensor.first.index, &[first / 20, first / 5 % 4, first % 5]);
        prop_assert_eq!(tensor.largest_difference, 1.0);
    }
}
