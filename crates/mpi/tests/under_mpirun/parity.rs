//! On every grid of this many processes, losses and gradient norms equal those of the serial program.

use bootstrap::Processes;
use families::GptFamily;
use grid::Degrees;
use parallel::{Reproducible, pipeline::ScheduleKind};
use testkit::{config, edit_gpt, train};
use train::{Config, config::Precision};

/// Checks all grids, or a few, and returns a description of what was checked.
pub(crate) fn check(processes: &'static dyn Processes, quick: bool) -> Result<String, String> {
    let ranks = processes.join().map_err(|error| error.to_string())?.size;
    testkit::use_processes(processes);
    let mut checked = 0;
    for (name, config, tolerance) in cases(quick) {
        let expected = train(&on(&config, Degrees::default()));
        let grids = testkit::grids(&[ranks]);
        let step = if quick { grids.len().div_ceil(3) } else { 1 };
        for grid in grids.into_iter().step_by(step) {
            let found = train(&on(&config, grid));
            let apart = largest(&found.losses, &expected.losses)
                .max(largest(&found.norms, &expected.norms));
            if apart > tolerance || apart.is_nan() {
                return Err(format!(
                    "{name} on grid {grid}: {apart:.1e} apart, needs {tolerance:.0e}"
                ));
            }
            checked += 1;
        }
    }
    Ok(format!(
        "{ranks} processes: {checked} trainings give the serial program's losses"
    ))
}

// In f32, norms differ more than losses; see the suite for threads, `tests/parity.rs`.
fn cases(quick: bool) -> Vec<(&'static str, Config, f64)> {
    let mut gpt2 = config(Precision::F64);
    edit_gpt(&mut gpt2, |model| model.dropout = 0.2);
    let mut llama = config(Precision::F64);
    edit_gpt(&mut llama, |model| model.family = GptFamily::Llama);
    edit_gpt(&mut llama, |model| {
        (model.hidden, model.heads, model.kv_heads, model.mlp_hidden) = (64, 16, 8, 40);
    });
    llama.training.recompute = true.into();
    let mut driven = config(Precision::F64);
    (driven.training.batch, driven.training.micro_batches) = (32, 4);
    driven.parallel.schedule = ScheduleKind::MessageDriven { in_flight: None };
    let mut checked = config(Precision::F64);
    checked.parallel.checked = true;
    let mut reproducible = config(Precision::F32);
    reproducible.training.reproducible = Reproducible::Grid.into();
    let mut cases = vec![
        ("gpt2 with dropout", gpt2, 1e-9),
        ("gpt2 with reproducible sums", reproducible, 0.0),
    ];
    if !quick {
        cases.push(("llama recomputed", llama, 1e-9));
        cases.push(("message-driven", driven, 1e-9));
        cases.push(("checked mode", checked, 1e-9));
    }
    cases
}

fn on(config: &Config, grid: Degrees) -> Config {
    let mut config = config.clone();
    config.parallel.grid = grid;
    config
}

fn largest(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found
        .iter()
        .zip(expected)
        .map(|(a, b)| (a - b).abs() / b.abs())
        .fold(0.0, f64::max)
}
