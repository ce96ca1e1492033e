//! A process that dies at any moment leaves the earlier checkpoints unchanged.

use super::{
    super::{Error, Reader, Retention, folder::complete, prune},
    Dying, Whole,
    dying::OPERATION,
    grid, holds, model, names, save,
};
use std::{path::Path, sync::Arc};

/// A folder with steps 40 and 80.
fn two_checkpoints() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    save(&Dying::never(), dir.path(), 40, &grid("x=2"), &model(40)).unwrap();
    save(&Dying::never(), dir.path(), 80, &grid("x=2"), &model(80)).unwrap();
    dir
}

/// Writes a step and prunes, as a trainer does.
fn save_and_prune(disk: &Arc<Dying>, dir: &Path, step: u64, wholes: &[Whole]) -> Result<(), Error> {
    save(disk, dir, step, &grid("z=2"), wholes)?;
    prune(&**disk, dir, &Retention::newest(2))
}

/// Makes the process die before every operation and within every 16 bytes while it writes `step`.
fn dies_everywhere(step: u64) {
    let enough = 1 << 20;
    let healthy = Dying::after(enough);
    save_and_prune(&healthy, two_checkpoints().path(), step, &model(7)).unwrap();
    let needed = healthy.spent(enough);
    assert!(needed > 1000, "{needed}");
    for budget in (0..needed).step_by(OPERATION as usize).chain([needed]) {
        let dir = two_checkpoints();
        let done = save_and_prune(&Dying::after(budget), dir.path(), step, &model(7)).is_ok();
        assert_eq!(done, budget == needed, "{budget}");
        check(dir.path(), step, done, budget);
        // The next process repairs everything.
        save_and_prune(&Dying::never(), dir.path(), 120, &model(9)).unwrap();
        assert!(holds(&Reader::open(dir.path()).unwrap(), &model(9)));
        assert!(
            names(dir.path())
                .iter()
                .all(|name| name.starts_with("step-")),
            "{budget}: {:?}",
            names(dir.path())
        );
    }
}

fn check(dir: &Path, step: u64, done: bool, budget: u64) {
    for (found, path) in complete(dir).unwrap() {
        let reader = Reader::open(&path).unwrap();
        let new = found == step && holds(&reader, &model(7));
        assert!(
            new || (!done || found != step) && holds(&reader, &model(found)),
            "{budget}: {}",
            path.display()
        );
    }
    let newest = Reader::open(dir).unwrap().step();
    assert!(
        newest == step || !done && newest == 80,
        "{budget}: newest is {newest}"
    );
}

#[test]
fn while_a_new_step_is_written() {
    dies_everywhere(120);
}

#[test]
fn while_a_step_is_replaced() {
    dies_everywhere(80);
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing_behind() {
    let enough = 1 << 20;
    let roomy = Dying::full_after(enough);
    save(
        &roomy,
        tempfile::tempdir().unwrap().path(),
        120,
        &grid("z=2"),
        &model(7),
    )
    .unwrap();
    let needed = roomy.spent(enough);
    for budget in (0..needed).step_by(13) {
        let dir = two_checkpoints();
        let error = save(
            &Dying::full_after(budget),
            dir.path(),
            120,
            &grid("z=2"),
            &model(7),
        )
        .unwrap_err();
        let Error::NoSpace {
            path,
            needed,
            written,
        } = &error
        else {
            panic!("{error}")
        };
        assert!(
            path.starts_with(dir.path()) && written < needed && *written <= budget,
            "{error}"
        );
        assert_eq!(names(dir.path()), ["step-00000040", "step-00000080"]);
        check(dir.path(), 120, false, budget);
    }
}

#[test]
fn the_sentence_of_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let error = save(
        &Dying::full_after(100),
        dir.path(),
        120,
        &grid("z=2"),
        &model(7),
    )
    .unwrap_err()
    .to_string();
    let shard = dir
        .path()
        .join(".writing-step-00000120/shard-00000.safetensors");
    let needed = format!(
        "checkpoint: writing {}: found room for 100 bytes, needs ",
        shard.display()
    );
    assert!(error.starts_with(&needed), "{error}");
}

#[test]
fn names_are_given_after_what_they_name_is_on_disk() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Dying::never());
    save(&Dying::never(), dir.path(), 8, &grid("x=1"), &model(1)).unwrap();
    save(&disk, dir.path(), 8, &grid("x=1"), &model(1)).unwrap();
    let log = disk.log();
    let from = log
        .iter()
        .position(|line| line.starts_with("create shard"))
        .unwrap();
    let folder = dir.path().file_name().unwrap().to_string_lossy();
    let needed = [
        "create shard-00000.safetensors",
        "create manifest.json",
        "sync .writing-step-00000008",
        "rename step-00000008 to .old-step-00000008",
        "rename .writing-step-00000008 to step-00000008",
        &format!("sync {folder}"),
        "remove shard-00000.safetensors",
        "remove manifest.json",
        "remove .old-step-00000008",
    ];
    assert_eq!(log[from..], needed);
}
