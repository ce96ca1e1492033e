//! The digest of a checkpoint depends on what it holds and not on how its files hold it.

use super::{
    super::{Digest, Reader, Scalar, ScalarValue, digest},
    Dying, Whole, grid, model, save,
};
use hal::DType;
use sha2::{Digest as _, Sha256};
use std::path::Path;

fn saved(degrees: &str, wholes: &[Whole]) -> (tempfile::TempDir, Reader) {
    let dir = tempfile::tempdir().unwrap();
    save(&Dying::never(), dir.path(), 12, &grid(degrees), wholes).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    (dir, reader)
}

fn root(dir: &Path) -> Digest {
    digest(&Reader::open(dir).unwrap(), &[]).unwrap().digest
}

fn sha(parts: &[&[u8]]) -> [u8; 32] {
    Sha256::digest(parts.concat()).into()
}

/// A tensor of more bytes than a slab, which grids cut in its rows and in its columns.
fn large() -> Whole {
    Whole::new("large", DType::F64, &[1025, 2051], "[x z | y]", 3)
}

#[test]
fn every_grid_gives_the_digest_of_one_rank() {
    let wholes = [model(5), vec![large()]].concat();
    let (_dir, one) = saved("x=1", &wholes);
    let needed = digest(&one, &[]).unwrap();
    for degrees in ["y=3,z=2", "x=3,z=2,data=2"] {
        let (_dir, reader) = saved(degrees, &wholes);
        assert!(reader.manifest.files.len() > 1);
        let found = digest(&reader, &[]).unwrap();
        assert_eq!(
            (found.digest, found.leaves),
            (needed.digest, needed.leaves.clone()),
            "{degrees}"
        );
    }
}

#[test]
fn it_is_the_hash_that_its_documentation_describes() {
    let wholes = model(5);
    let (_dir, reader) = saved("x=2,z=2", &wholes);
    let scale = Scalar {
        name: "loss_scale",
        value: ScalarValue::F64(0.5),
    };
    let report = digest(&reader, &[scale]).unwrap();
    let leaf = |name| wholes.iter().find(|whole| whole.name == name).unwrap();
    let leaves = [
        sha(&[b"[\"step\",\"u64\",[]]\n", &12_u64.to_le_bytes()]),
        sha(&[b"[\"loss_scale\",\"f64\",[]]\n", &0.5_f64.to_le_bytes()]),
        sha(&[b"[\"b\",\"bf16\",[5]]\n", &leaf("b").bytes]),
        sha(&[b"[\"count\",\"u32\",[]]\n", &leaf("count").bytes]),
        sha(&[b"[\"w\",\"f32\",[3,2]]\n", &leaf("w").bytes]),
    ];
    assert_eq!(
        report
            .leaves
            .iter()
            .map(|leaf| leaf.digest.0)
            .collect::<Vec<_>>(),
        leaves
    );
    let root = sha(&[b"fascicle checkpoint digest 1\n", &leaves.concat()]);
    assert_eq!(report.digest, Digest(root));
    let hexadecimal: String = root.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(
        report
            .to_string()
            .starts_with(&format!("{hexadecimal}\n\nSHA-256 "))
    );
    assert_eq!(
        serde_json::to_value(&report).unwrap()["digest"],
        hexadecimal
    );
}

#[test]
fn whatever_it_covers_changes_it() {
    let (_dir, reader) = saved("x=2", &model(5));
    let report = |scalars: &[Scalar]| digest(&reader, scalars).unwrap().digest;
    let scale = |value| {
        [Scalar {
            name: "loss_scale",
            value,
        }]
    };
    let mut found = vec![
        report(&[]),
        report(&scale(ScalarValue::F64(1.0))),
        report(&scale(ScalarValue::F64(2.0))),
        report(&scale(ScalarValue::U64(1.0_f64.to_bits()))),
    ];
    let [w, b, count] = <[Whole; 3]>::try_from(model(5)).unwrap();
    let changed = |change: fn(&mut Whole)| {
        let mut changed = w.clone();
        change(&mut changed);
        vec![changed, b.clone(), count.clone()]
    };
    for wholes in [
        vec![b.clone(), count.clone()],
        changed(|w| w.name = "v".into()),
        changed(|w| w.dtype = DType::U32),
        changed(|w| w.shape = vec![2, 3]),
        changed(|w| w.bytes[23] ^= 0x80),
    ] {
        let (dir, _) = saved("x=2", &wholes);
        found.push(root(dir.path()));
    }
    let later = tempfile::tempdir().unwrap();
    save(&Dying::never(), later.path(), 13, &grid("x=2"), &model(5)).unwrap();
    found.push(root(later.path()));
    let num_distinct = found.iter().collect::<std::collections::HashSet<_>>().len();
    assert_eq!(num_distinct, found.len());
}

#[test]
fn names_cannot_imitate_other_leaves() {
    let named = |name: &str| {
        let (dir, _) = saved("x=1", &[Whole::new(name, DType::F32, &[1], "[-]", 5)]);
        root(dir.path())
    };
    let (_dir, reader) = saved(
        "x=1",
        &[Whole::new(
            "a\",\"f32\",[1]]\nb",
            DType::F32,
            &[1],
            "[-]",
            5,
        )],
    );
    let leaf = &digest(&reader, &[]).unwrap().leaves[1];
    let header = b"[\"a\\\",\\\"f32\\\",[1]]\\nb\",\"f32\",[1]]\n";
    let bytes = reader
        .read(&leaf.name, &[1], &grid::IndexBox::full(&[1]))
        .unwrap();
    assert_eq!(leaf.digest.0, sha(&[header, &bytes]));
    assert_ne!(named("a\nb"), named("a\\nb"));
}
