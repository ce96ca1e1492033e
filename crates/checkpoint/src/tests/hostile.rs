//! Checkpoints that no writer of ours wrote: files of other kinds in place of a checkpoint's, and exports onto them.

use super::{
    super::{Error, Reader, export_safetensors, reshard},
    Dying, grid, model, save,
};
use grid::IndexBox;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The error of opening a checkpoint in whose folder `change` has put something in place of a file.
fn said(file: &str, change: impl FnOnce(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = save(&Dying::never(), dir.path(), 12, &grid("x=2"), &model(5)).unwrap();
    let file = path.join(file);
    fs::rename(&file, dir.path().join("elsewhere")).unwrap();
    change(&file);
    Reader::open(path).unwrap_err().to_string()
}

#[test]
fn a_file_of_a_checkpoint_is_a_regular_one_in_its_folder() {
    for file in ["manifest.json", "shard-00000.safetensors"] {
        let out = said(file, |path| symlink("../elsewhere", path).unwrap());
        assert!(
            out.ends_with(&format!("{file}: found a link, needs a regular file")),
            "{out}"
        );
        let endless = said(file, |path| symlink("/dev/zero", path).unwrap());
        assert!(endless.contains("found a link"), "{endless}");
        let waiting = said(file, pipe);
        assert!(waiting.contains("found a pipe"), "{waiting}");
    }
}

#[test]
fn a_long_manifest_is_not_read() {
    let long = said("manifest.json", |path| {
        let file = fs::File::create(path).unwrap();
        file.set_len(1 << 40).unwrap();
    });
    assert!(
        long.ends_with("found 1099511627776 bytes, needs at most 268435456"),
        "{long}"
    );
}

#[test]
fn an_export_replaces_nothing_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let path = save(&Dying::never(), dir.path(), 12, &grid("x=2"), &model(5)).unwrap();
    let reader = Reader::open(path).unwrap();
    let place = |name: &str| dir.path().join(name);
    let export = |path: PathBuf, overwrite| {
        export_safetensors(&reader, &path, overwrite, &|name| Some(name.to_owned()))
    };
    fs::write(place("mine"), "mine").unwrap();
    assert!(matches!(
        export(place("mine"), false),
        Err(Error::Exists { .. })
    ));
    assert_eq!(fs::read(place("mine")).unwrap(), b"mine");
    symlink("mine", place("link")).unwrap();
    pipe(&place("pipe"));
    for (name, found) in [("link", "a link"), ("pipe", "a pipe")] {
        let error = export(place(name), true).unwrap_err().to_string();
        assert!(
            error.ends_with(&format!("found {found}, needs a regular file")),
            "{error}"
        );
    }
    assert_eq!(fs::read(place("mine")).unwrap(), b"mine");
    assert!(export(place("mine"), true).unwrap() > 4);
}

#[test]
fn replicas_cost_nothing_to_reshard() {
    let dir = tempfile::tempdir().unwrap();
    let path = save(&Dying::never(), dir.path(), 12, &grid("x=2"), &model(5)).unwrap();
    let reader = Reader::open(path).unwrap();
    let wide = grid("z=3,data=1000000000000");
    let path = reshard(&reader, &dir.path().join("wide"), &wide, &|_| 0).unwrap();
    let whole = IndexBox::full(&[3, 2]);
    let read = |reader: &Reader| reader.read("w", &[3, 2], &whole).unwrap();
    assert_eq!(read(&Reader::open(path).unwrap()), read(&reader));
    let error = reshard(&reader, dir.path(), &grid("x=100000"), &|_| 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "checkpoint: found 100000 ranks that store elements, needs at most 65536"
    );
}
