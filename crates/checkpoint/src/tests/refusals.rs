//! Incomplete checkpoints are not committed.

use super::{
    super::{Piece, Result, Sections, ShardRecord, Writer, write_shard},
    Whole, piece,
};
use grid::{IndexBox, Layout};
use hal::DType;
use std::{fs, path::Path};

fn index(start: &[usize], shape: &[usize]) -> IndexBox {
    IndexBox {
        start: start.to_vec(),
        shape: shape.to_vec(),
    }
}

/// The error from committing these boxes of a 4 x 2 tensor, one rank per box; the folder must be empty
/// afterwards.
fn said(boxes: &[IndexBox]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let whole = Whole::new("w", DType::F32, &[4, 2], "[x | -]", 1);
    let committed = commit(dir.path(), boxes.len(), |rank, writing| {
        let bytes = vec![0; boxes[rank].num_elements() * 4];
        write_shard(writing, rank, &[piece(&whole, &boxes[rank], &bytes)])
    });
    let sentence = committed.unwrap_err().to_string();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    sentence
}

fn commit(
    dir: &Path,
    num_ranks: usize,
    write: impl Fn(usize, &Path) -> Result<ShardRecord>,
) -> Result<std::path::PathBuf> {
    let writer = Writer::begin(dir, 1)?;
    let records = (0..num_ranks)
        .map(|rank| write(rank, writer.dir()))
        .collect::<Result<_>>()?;
    writer.commit(records, Sections::default())
}

#[test]
fn boxes_that_do_not_tile() {
    let (top, bottom) = (index(&[0, 0], &[2, 2]), index(&[2, 0], &[2, 2]));
    assert_eq!(
        said(std::slice::from_ref(&top)),
        "checkpoint: tensor w: box [2..4, 0..2] is missing (found 4 elements in all boxes, needs 8)"
    );
    assert_eq!(
        said(&[top, bottom, index(&[3, 1], &[1, 1])]),
        "checkpoint: tensor w: box [2..4, 0..2] in shard-00001.safetensors and box [3..4, 1..2] in \
         shard-00002.safetensors overlap"
    );
}

#[test]
fn ranks_that_disagree() {
    let dir = tempfile::tempdir().unwrap();
    let layouts = [Layout::replicated(1), "[x]".parse().unwrap()];
    let said = |dtypes: [DType; 2], shapes: [usize; 2], layouts: [&Layout; 2]| {
        let committed = commit(dir.path(), 2, |rank, writing| {
            let (dtype, bytes) = (dtypes[rank], vec![0; dtypes[rank].bytes()]);
            let (index, global_shape) = (index(&[rank], &[1]), &[shapes[rank]]);
            write_shard(
                writing,
                rank,
                &[Piece {
                    name: "w",
                    dtype,
                    global_shape,
                    layout: layouts[rank],
                    index,
                    bytes: &bytes,
                }],
            )
        });
        committed.unwrap_err().to_string()
    };
    let same = [&layouts[0]; 2];
    let [f32s, dtypes] = [[DType::F32; 2], [DType::F32, DType::F16]];
    let tensor = "checkpoint: tensor w: rank 0 says";
    assert_eq!(
        said(dtypes, [2, 2], same),
        format!("{tensor} dtype f32, but rank 1 says f16")
    );
    assert_eq!(
        said(f32s, [2, 3], same),
        format!("{tensor} shape [2], but rank 1 says [3]")
    );
    let differ = [&layouts[0], &layouts[1]];
    assert_eq!(
        said(f32s, [2, 2], differ),
        format!("{tensor} layout [-], but rank 1 says [x]")
    );
}

#[test]
fn a_shard_that_went_away_before_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let whole = Whole::new("w", DType::F32, &[4, 2], "[x | -]", 1);
    let committed = commit(dir.path(), 1, |rank, writing| {
        let record = write_shard(
            writing,
            rank,
            &[piece(&whole, &index(&[0, 0], &[4, 2]), &whole.bytes)],
        );
        fs::remove_file(writing.join("shard-00000.safetensors")).unwrap();
        record
    });
    assert!(
        committed
            .unwrap_err()
            .to_string()
            .contains("shard-00000.safetensors is missing, needs ")
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_rank_writes_once() {
    let dir = tempfile::tempdir().unwrap();
    write_shard(dir.path(), 0, &[]).unwrap();
    let sentence = write_shard(dir.path(), 0, &[]).unwrap_err().to_string();
    assert!(
        sentence.contains("shard-00000.safetensors: File exists"),
        "{sentence}"
    );
    assert!(dir.path().join("shard-00000.safetensors").exists());
}

#[test]
fn a_place_that_cannot_be_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let sentence = Writer::begin(&file.join("checkpoints"), 1)
        .unwrap_err()
        .to_string();
    assert!(
        sentence.starts_with(&format!(
            "checkpoint: making {}/checkpoints: ",
            file.display()
        )),
        "{sentence}"
    );
    // No user, not even root, can create folders here.
    if Path::new("/proc/self").is_dir() {
        let sentence = Writer::begin(Path::new("/proc/self/checkpoints"), 1)
            .unwrap_err()
            .to_string();
        assert!(
            sentence.starts_with("checkpoint: making /proc/self/checkpoints: "),
            "{sentence}"
        );
    }
    let layout = Layout::replicated(1);
    let piece = Piece {
        name: "w",
        dtype: DType::F16,
        global_shape: &[1],
        layout: &layout,
        index: index(&[0], &[1]),
        bytes: &[0; 2],
    };
    let sentence = write_shard(&dir.path().join("gone"), 0, &[piece])
        .unwrap_err()
        .to_string();
    assert!(
        sentence.contains("gone/shard-00000.safetensors: No such file"),
        "{sentence}"
    );
}
