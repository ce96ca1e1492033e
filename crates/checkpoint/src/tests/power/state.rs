//! The checkpoints of the scenarios: a number decides all that one holds.

use super::random::Random;
use crate::{
    FrozenFile, Reader, Result, Sections,
    disk::Disk,
    tests::{Whole, grid, holds, names, save_with_frozen},
};
use hal::DType;
use std::{fs, path::Path, sync::Arc};

/// One to four ranks.
const GRIDS: [&str; 6] = ["x=1", "x=2", "z=2", "x=3", "x=2,z=2", "x=4"];

/// Some tensors, of which a file takes several sectors.
fn tensors(content: u64) -> Vec<Whole> {
    vec![
        Whole::new("w", DType::F32, &[6, 50], "[z | x]", content),
        Whole::new("b", DType::Bf16, &[301], "[x]", content),
        Whole::new("count", DType::U32, &[], "[]", content),
    ]
}

/// What all contents have in common.
fn frozen() -> Vec<Whole> {
    vec![Whole::new("frozen", DType::F32, &[8, 40], "[z | x]", 1)]
}

/// The validation loss of a content, which some lack.
pub fn loss(content: u64) -> Option<f64> {
    (!content.is_multiple_of(3)).then_some((content * 7 % 5) as f64)
}

/// Writes a checkpoint as the ranks of some grid, whose last call has written files of frozen tensors.
pub fn save(
    disk: &Arc<dyn Disk>,
    (dir, step): (&Path, u64),
    content: u64,
    frozen_files: &mut Vec<FrozenFile>,
    random: &mut Random,
) -> Result<()> {
    let grid = grid(random.one_of(&GRIDS));
    let sections = Sections {
        trainer: content.into(),
        validation_loss: loss(content),
        ..Sections::default()
    };
    let (tensors, frozen) = (tensors(content), frozen());
    let frozen = (&frozen[..], frozen_files);
    save_with_frozen(disk, (dir, step), &grid, &tensors, frozen, sections).map(drop)
}

/// The number of a checkpoint, if it is whole.
pub fn content_of(path: &Path) -> std::result::Result<u64, String> {
    let said = |error: crate::Error| error.to_string();
    let reader = Reader::open_exactly(path).map_err(said)?;
    reader.verify().map_err(said)?;
    let content = reader.sections().trainer.as_u64();
    content
        .filter(|content| holds(&reader, &[tensors(*content), frozen()].concat()))
        .ok_or_else(|| format!("{} holds other bytes than were written", path.display()))
}

/// Flips a bit in each file of a checkpoint in turn, which verifying must notice, and returns their number.
pub fn flip_bits(checkpoint: &Path, random: &mut Random) -> std::result::Result<u64, String> {
    let names = names(checkpoint);
    for name in &names {
        let file = checkpoint.join(name);
        let whole = fs::read(&file).unwrap();
        let (byte, bit) = (random.below(whole.len()), random.below(8));
        let mut rotten = whole.clone();
        rotten[byte] ^= 1 << bit;
        fs::write(&file, rotten).unwrap();
        let verified = Reader::open(checkpoint).and_then(|reader| reader.verify());
        if verified.is_ok() {
            return Err(format!(
                "bit {bit} of byte {byte} of {name} is flipped, and verified"
            ));
        }
        fs::write(&file, whole).unwrap();
    }
    Ok(names.len() as u64)
}

/// A folder in memory, where there is such a file system.
pub fn temporary() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .unwrap()
}
