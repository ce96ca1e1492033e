//! A program outside the library: everything that can be customised is, and no file of the library was edited for
//! it.
//!
//! It proves its model on every grid of up to 8 ranks and trains it from a configuration on its own vendor. It
//! saves on one grid, resumes on another, and asks the planner for a grid on Frontier.

mod data;
mod family;
mod layer;
mod model;
mod optimiser;
mod vendor;

use data::Waves;
use family::Residuals;
use fascicle::{
    Result,
    grid::machine::Machine,
    job,
    parallel::Context,
    registry, testing,
    train::{Config, Trainer},
};
use model::Residual;
use optimiser::SmoothLion;
use std::{path::PathBuf, sync::atomic::Ordering};

const CONFIG: &str = r#"
    seed = 7
    [model]
    family = "residual"
    blocks = 4
    [training]
    steps = 12
    batch = 16
    micro_batches = 2
    precision = "f64"
"#;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    for sequence_parallel in [false, true] {
        let options = testing::Check {
            sequence_parallel,
            ..testing::Check::default()
        };
        let report = testing::check(|builder| Residual::new(builder, 6), Waves, &options)?;
        println!("{report}");
    }

    let families = registry::families().with(Residuals);
    let config = Config::parse(CONFIG, &families)?;
    let dir = std::env::temp_dir().join("fascicle-outside");
    std::fs::remove_dir_all(&dir).ok();
    let uninterrupted = losses(&config, "x=1", None, None)?;
    let first = losses(&config, "x=2,z=2,pipeline=2", Some(6), Some(dir.clone()))?;
    let second = losses(&config, "y=2,data=2", None, Some(dir.clone()))?;
    for (found, wanted) in first.iter().chain(&second).zip(&uninterrupted) {
        assert!(
            (found - wanted).abs() <= 1e-9 * wanted.abs(),
            "{found}, needs {wanted}"
        );
    }
    assert!(
        uninterrupted[11] < uninterrupted[0] / 4.0,
        "it learns: {uninterrupted:?}"
    );
    println!("saved on x=2,z=2,pipeline=2, resumed on y=2,data=2: losses {uninterrupted:.4?}");
    println!(
        "{} kernels on {}",
        vendor::LAUNCHES.load(Ordering::Relaxed),
        vendor::COUNTING.name()
    );
    std::fs::remove_dir_all(&dir)?;

    let plan = fascicle::plan::plan(config.model.clone(), &Machine::find("frontier")?, 64)?;
    let best = &plan.best[0];
    println!(
        "on 64 GCDs of Frontier: grid {}, {:.1} us per step, the best of {} grids",
        best.candidate.degrees,
        best.step_s * 1e6,
        plan.best.len()
    );
    Ok(())
}

/// Losses of the steps up to `until`, or to the last step, of the run in `dir`, on this crate's vendor.
fn losses(
    config: &Config,
    grid: &str,
    until: Option<u64>,
    dir: Option<PathBuf>,
) -> Result<Vec<f64>> {
    let job = job().drivers([vendor::driver()]).grid(grid)?;
    let config = config.clone();
    let mut ranks = job
        .settings(config.settings())
        .run(move |context: &Context| {
            let build = |builder: &fascicle::nn::Builder| config.model.build(builder);
            let options = config.trainer_options();
            let mut trainer = Trainer::new(context, build, SmoothLion { rate: 0.02 }, options)?;
            if let Some(dir) = dir.as_ref().filter(|dir| dir.exists()) {
                trainer.resume(dir)?;
            }
            let data = config.model.batches().expect("the family brings its data");
            let losses = trainer.train_until(until.unwrap_or(config.training.steps), &*data)?;
            assert!(trainer.validate(&*data)?.loss.is_some_and(f64::is_finite));
            if let Some(dir) = &dir {
                trainer.save(dir)?;
            }
            Ok::<_, fascicle::Error>(losses)
        })?;
    Ok(ranks.swap_remove(0))
}
