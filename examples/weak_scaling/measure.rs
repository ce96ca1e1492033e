//! A row on the devices at hand: the plan's training step, timed.

use crate::{
    Result,
    point::{Point, PointKind},
    rows::Row,
    team,
};
use fascicle::bootstrap::World;
use fascicle::hal::random::Key;
use fascicle::parallel::Batch;
use fascicle::tensor::Device;
use fascicle::train::{self, Config, Trainer, data::Batch as Tokens};
use plan::{Preset, Request};
use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// Steps before those that count: the first learns in which order weights are gathered.
const WARM_UP: u64 = 2;

/// The rank that writes, and the seconds of each of its steps.
struct Timed {
    rank: usize,
    seconds: Vec<f64>,
}

/// Trains a few steps of the row with the plan `planned`, and times them. `None` on processes other than the
/// first rank's.
///
/// # Errors
/// The ranks' failures; a plan whose words were edited.
pub fn row(row: &Row, planned: &Point, steps: u64) -> Result<Option<Point>> {
    let request = row.request(Preset::Ours, Duration::ZERO)?;
    let run = planned
        .run
        .as_ref()
        .ok_or("the planned point has no grid")?;
    let candidate = run.candidate()?;
    let config = candidate.config(&request);
    let asked = request.clone();
    let ranks = team::run(row.devices, move |world, device| {
        time(world, device, &config, &asked, steps)
    })?;
    let first = ranks.into_iter().find(|timed| timed.rank == 0);
    let point = |timed: Timed| {
        Point::new(
            row,
            &request,
            &candidate,
            PointKind::Measured,
            median(timed.seconds),
        )
    };
    Ok(first.map(point))
}

fn time(
    world: &World,
    device: &Device,
    config: &Config,
    request: &Request,
    steps: u64,
) -> train::Result<Timed> {
    let context = config.context(world, device)?;
    let mut trainer = config.trainer(&context)?;
    let (everyone, mut seconds) = (world.everyone(), Vec::new());
    for step in 0..WARM_UP + steps.max(1) {
        world.beat(&format!("step {step}"));
        let batch = batch(&trainer, request, step)?;
        everyone.barrier()?;
        let begun = Instant::now();
        trainer.step(&batch)?;
        device.compute().synchronize()?;
        everyone.barrier()?;
        seconds.push(begun.elapsed().as_secs_f64());
    }
    Ok(Timed {
        rank: world.rank(),
        seconds: seconds.split_off(WARM_UP as usize),
    })
}

// Tokens drawn by their place: every grid trains on the same ones, and no file is read.
fn batch(trainer: &Trainer, request: &Request, step: u64) -> train::Result<Batch> {
    let needs = || train::Error::setting("model", "one that reads no text", "one that does");
    let text = request.model.text().ok_or_else(needs)?;
    let (sequence, vocabulary) = (text.context, text.vocabulary as u32);
    let key = Key::new(1, "weak scaling batch", step);
    let tokens = |range: Range<usize>| {
        let row = |index: usize, from: usize| {
            let first = (index * (sequence + 1) + from) as u64;
            (first..first + sequence as u64).map(move |place| key.word(place) % vocabulary)
        };
        let rows = |from: usize| range.clone().flat_map(|index| row(index, from)).collect();
        let (inputs, targets) = (rows(0), rows(1));
        Ok(Tokens { inputs, targets }.into_rows(sequence))
    };
    trainer.batch_of(step, tokens)
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{rows::rows, simulate};

    #[test]
    fn a_toy_row_is_measured_as_it_was_planned() {
        let row = &rows("laptop").unwrap()[1];
        let planned = simulate::row(row, &[Preset::Ours], Duration::ZERO).unwrap();
        let point = super::row(row, &planned[0], 1).unwrap().unwrap();
        assert_eq!((point.devices, point.kind), (2, PointKind::Measured));
        assert_eq!(point.run, planned[0].run);
        assert!(point.step_s > 0.0 && point.pflops > 0.0);
    }
}
