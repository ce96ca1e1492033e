//! Errors name files that were truncated, altered or removed, and offer an earlier checkpoint.

use super::{
    super::{Error, Reader, reshard},
    Dying, grid, model, save,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A folder with steps 40, 80 and 120.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for step in [40, 80, 120] {
        save(
            &Dying::never(),
            dir.path(),
            step,
            &grid("x=2"),
            &model(step),
        )
        .unwrap();
    }
    dir
}

fn file(dir: &Path, step: u64, name: &str) -> PathBuf {
    dir.join(format!("step-{step:08}/{name}"))
}

fn truncate(path: &Path) -> (usize, usize) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() - 3]).unwrap();
    (bytes.len() - 3, bytes.len())
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
}

/// The error message from opening the folder, after the checkpoint's path.
fn said(dir: &Path, error: &Error) -> String {
    error.to_string().replace(
        &format!("checkpoint {}: ", dir.join("step-00000120").display()),
        "",
    )
}

const SHARD: &str = "shard-00001.safetensors";

#[test]
fn a_truncated_file() {
    let dir = folder();
    let (found, needed) = truncate(&file(dir.path(), 120, SHARD));
    let error = Reader::open(dir.path()).unwrap_err();
    let sentence = format!(
        "{SHARD} is truncated: found {found} bytes, needs {needed}; step-00000080 beside it is intact"
    );
    assert_eq!(said(dir.path(), &error), sentence);
}

#[test]
fn a_flipped_bit() {
    let dir = folder();
    flip(&file(dir.path(), 120, SHARD));
    let reader = Reader::open(dir.path()).unwrap();
    let sentence = said(dir.path(), &reader.verify().unwrap_err());
    assert!(
        sentence.starts_with("shard-00001.safetensors is damaged: its "),
        "{sentence}"
    );
    assert!(
        sentence.ends_with("; step-00000080 beside it is intact"),
        "{sentence}"
    );
    // The altered file holds pieces of `w` and `b`, not of `count`.
    assert!(reader.verify_files_for(["count"]).is_ok());
    assert!(matches!(
        reader.verify_files_for(["count", "b"]),
        Err(Error::Damaged { .. })
    ));
    assert!(matches!(
        reader.verify_files_for(["gone"]),
        Err(Error::UnknownTensor { .. })
    ));
    // Otherwise its damage would receive a new, valid checksum.
    assert!(matches!(
        reshard(&reader, dir.path(), &grid("z=2"), &|_| 0),
        Err(Error::Damaged { .. })
    ));
}

#[test]
fn only_whole_checkpoints_are_offered() {
    let dir = folder();
    truncate(&file(dir.path(), 120, SHARD));
    flip(&file(dir.path(), 80, SHARD));
    let error = Reader::open(dir.path()).unwrap_err();
    assert!(
        matches!(&error, Error::Damaged { offer: Some(name), .. } if name == "step-00000040"),
        "{error}"
    );
    flip(&file(dir.path(), 40, "manifest.json"));
    let error = Reader::open(dir.path()).unwrap_err();
    assert!(
        matches!(&error, Error::Damaged { offer: None, .. }),
        "{error}"
    );
    assert!(
        error.to_string().chars().last().unwrap().is_ascii_digit(),
        "{error}"
    );
}

#[test]
fn missing_files() {
    let dir = folder();
    let needed = fs::metadata(file(dir.path(), 120, SHARD)).unwrap().len();
    fs::remove_file(file(dir.path(), 120, SHARD)).unwrap();
    let error = Reader::open(dir.path()).unwrap_err();
    let offer = "; step-00000080 beside it is intact";
    assert_eq!(
        said(dir.path(), &error),
        format!("{SHARD} is missing, needs {needed} bytes{offer}")
    );
    fs::remove_file(file(dir.path(), 120, "manifest.json")).unwrap();
    let error = Reader::open(dir.path().join("step-00000120")).unwrap_err();
    assert_eq!(
        said(dir.path(), &error),
        format!("manifest.json is missing{offer}")
    );
    // Without a manifest it is not a complete checkpoint, so the folder resolves to the newest complete one.
    assert_eq!(Reader::open(dir.path()).unwrap().step(), 80);
}

#[test]
fn a_damaged_or_foreign_manifest() {
    let dir = folder();
    let manifest = file(dir.path(), 120, "manifest.json");
    let whole = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, whole.replace("\"step\":120", "\"step\":121")).unwrap();
    let sentence = said(dir.path(), &Reader::open(dir.path()).unwrap_err());
    let needed = "manifest.json is damaged: its CRC-32 does not match its text; step-00000080 beside it is intact";
    assert_eq!(sentence, needed);
    fs::write(&manifest, r#"{"format": 2, "anything": []}"#).unwrap();
    let sentence = said(dir.path(), &Reader::open(dir.path()).unwrap_err());
    let needed =
        "manifest.json has format 2, this program reads 1; step-00000080 beside it is intact";
    assert_eq!(sentence, needed);
}

#[test]
fn a_file_that_shrinks_after_opening() {
    let dir = folder();
    let reader = Reader::open(dir.path()).unwrap();
    truncate(&file(dir.path(), 120, SHARD));
    let whole = grid::IndexBox::full(&[5]);
    assert!(matches!(
        reader.read("b", &[5], &whole),
        Err(Error::Damaged { .. })
    ));
    fs::remove_file(file(dir.path(), 120, SHARD)).unwrap();
    assert!(matches!(
        reader.read("b", &[5], &whole),
        Err(Error::Io { .. })
    ));
    assert!(matches!(reader.verify(), Err(Error::Damaged { .. })));
}
