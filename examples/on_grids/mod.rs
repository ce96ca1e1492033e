//! Trains on several grids, which must give the losses of one rank: shared by the examples with models of their own.

use fascicle::{launch, prelude::*, train};
use serde::{Serialize, de::DeserializeOwned};

/// What every rank of a grid such as `x=2,pipeline=2` returns; `None` where mpirun started another number of processes.
pub fn on<T: Serialize + DeserializeOwned + Send + 'static>(
    grid: &str,
    body: impl Fn(&Context) -> train::Result<T> + Send + Sync + 'static,
) -> train::Result<Option<Vec<T>>> {
    let degrees: Degrees = grid.parse()?;
    let ranks = degrees.world_size()?;
    if ranks > 1 && launch::num_processes().is_some_and(|started| started != ranks) {
        return Ok(None);
    }
    let grid = Grid::new(degrees, AxisOrder::default())?;
    launch(grid, Settings::default(), body).map(Some)
}

/// Trains for `steps` steps on one rank, and gives their losses.
pub fn serial(
    trainer: impl Fn(&Context) -> train::Result<Trainer> + Send + Sync + 'static,
    data: impl Batches + 'static,
    steps: u64,
) -> train::Result<Vec<f64>> {
    let ranks = on("x=1", move |context| {
        trainer(context)?.train_until(steps, &data)
    })?;
    let losses = ranks.expect("one rank everywhere").swap_remove(0);
    compare("serial", &losses, &losses);
    Ok(losses)
}

/// Trains on another grid, which must give the serial losses.
pub fn same(
    grid: &str,
    trainer: impl Fn(&Context) -> train::Result<Trainer> + Send + Sync + 'static,
    data: impl Batches + 'static,
    serial: &[f64],
) -> train::Result<()> {
    let steps = serial.len() as u64;
    let ranks = on(grid, move |context| {
        trainer(context)?.train_until(steps, &data)
    })?;
    if let Some(ranks) = ranks {
        compare(grid, &ranks[0], serial);
    }
    Ok(())
}

/// Trains half of the steps on the first of two grids, saves, and resumes on the second, which must give the serial losses.
pub fn resumed(
    [first, second]: [&str; 2],
    trainer: impl Fn(&Context) -> train::Result<Trainer> + Copy + Send + Sync + 'static,
    data: impl Batches + Copy + 'static,
    serial: &[f64],
) -> train::Result<()> {
    let (half, steps) = (serial.len() / 2, serial.len() as u64);
    let ranks = on(first, move |context| {
        let mut trainer = trainer(context)?;
        trainer.train_until(half as u64, &data)?;
        // Every process has another id: all ranks use the folder of the first one.
        let own = format!("fascicle-example-{}", std::process::id());
        let name = context.world().everyone().broadcast(0, own.as_bytes())?;
        let folder = std::env::temp_dir().join(String::from_utf8_lossy(&name).as_ref());
        trainer.save(&folder)?;
        Ok(folder)
    })?;
    let Some(folder) = ranks.map(|mut folders| folders.swap_remove(0)) else {
        return Ok(());
    };
    let saved = folder.clone();
    let ranks = on(second, move |context| {
        let mut trainer = trainer(context)?;
        trainer.resume(&saved)?;
        trainer.train_until(steps, &data)
    })?;
    if let Some(ranks) = ranks {
        compare(&format!("{second}, resumed"), &ranks[0], &serial[half..]);
    }
    if launch::is_first() {
        std::fs::remove_dir_all(folder).ok();
    }
    Ok(())
}

// Prints the last of these losses, each of which is that of the serial program, but for the order of sums.
fn compare(what: &str, losses: &[f64], serial: &[f64]) {
    assert_eq!(losses.len(), serial.len(), "{what}");
    for (step, (found, expected)) in losses.iter().zip(serial).enumerate() {
        let close = (found - expected).abs() < 1e-9;
        assert!(close, "{what}: step {step} has {found}, not {expected}");
    }
    launch::say(&format!("{what:<36}{:.6}", losses[losses.len() - 1]));
}
