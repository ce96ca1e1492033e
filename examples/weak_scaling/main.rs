//! Weak scaling: a model that grows with the machine, simulated, measured, and compared with published results.
//!
//! ```text
//! cargo run --release --example weak_scaling -- --simulate --machine perlmutter
//! cargo run --release --example weak_scaling -- --measure --machine laptop
//! cargo run --release --example weak_scaling -- --report
//! ```
//!
//! `perlmutter.sbatch` and `frontier.sbatch` measure a row on the machine itself. Points accumulate in the folder
//! of `--out`, with a table and the plot beside them; a later run adds to them. Read in this order: `rows`,
//! `point`, `points`, `table`, `plot`; then `simulate`, `team`, `measure`; then `published`, `report`,
//! `improvements`, `chapter`.

#![forbid(unsafe_code)]

mod chapter;
mod improvements;
mod measure;
mod plot;
mod point;
mod points;
mod published;
mod report;
mod rows;
mod simulate;
mod table;
mod team;

use clap::{Args, Parser};
use plan::Preset;
use rows::Row;
use std::{error::Error, fs, path::PathBuf, process::ExitCode, time::Duration};

/// The result of this program's parts.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Time per batch on growing numbers of devices.
#[derive(Parser, Debug)]
struct Arguments {
    #[command(flatten)]
    mode: Mode,
    /// perlmutter, frontier, alps, laptop, or the file of a machine description
    #[arg(long, value_name = "NAME|FILE", default_value = "perlmutter")]
    machine: String,
    /// Only the row with this number of devices
    #[arg(long, value_name = "N")]
    devices: Option<usize>,
    /// With --devices: a model other than the table's
    #[arg(long, value_name = "NAME", requires = "devices")]
    model: Option<String>,
    /// Only these settings: ours, or published-axonn
    #[arg(long, value_name = "NAME")]
    settings: Option<String>,
    /// Seconds that the planner may take for each point
    #[arg(long, value_name = "SECONDS", default_value_t = 4.0)]
    budget: f64,
    /// Steps that are timed with --measure
    #[arg(long, value_name = "N", default_value_t = 5)]
    steps: u64,
    /// Folder for points, tables and plots
    #[arg(long, value_name = "DIR", default_value = "runs/weak_scaling")]
    out: PathBuf,
    /// With --report: write the chapter of predictions to this file
    #[arg(long, value_name = "FILE", requires = "report")]
    write: Option<PathBuf>,
}

/// What to do.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Mode {
    /// Simulate every row
    #[arg(long)]
    simulate: bool,
    /// Train a few steps of each row on the devices at hand; under srun or mpirun, of the row of that many
    #[arg(long)]
    measure: bool,
    /// Predict every published step, and fail if one is further off than it may be
    #[arg(long)]
    report: bool,
}

impl Arguments {
    fn budget(&self) -> Duration {
        Duration::from_secs_f64(self.budget.clamp(0.0, 3600.0))
    }

    fn settings(&self) -> Result<Vec<Preset>> {
        match &self.settings {
            Some(name) => Ok(vec![Preset::parse(name)?]),
            None => Ok(vec![Preset::PublishedAxonn, Preset::Ours]),
        }
    }

    fn rows(&self) -> Result<Vec<Row>> {
        if let (Some(devices), Some(model)) = (self.devices, &self.model) {
            return Ok(vec![Row::new(&self.machine, devices, model)]);
        }
        let all = rows::rows(&self.machine)?;
        let counts: Vec<_> = all.iter().map(|row| row.devices).collect();
        let asked = |row: &Row| self.devices.is_none_or(|devices| row.devices == devices);
        let rows: Vec<_> = all.into_iter().filter(asked).collect();
        match rows.is_empty() {
            true => Err(format!(
                "--devices: found {:?}, {} has rows of {counts:?}; --model makes one of any number",
                self.devices, self.machine
            )
            .into()),
            false => Ok(rows),
        }
    }

    // The points' file is named after the machine, which may be a file itself.
    fn machine_name(&self) -> Result<String> {
        Ok(fascicle::grid::machine::Machine::find(&self.machine)?.name)
    }

    fn simulate(&self) -> Result<()> {
        let (name, rows, mut points) = (self.machine_name()?, self.rows()?, Vec::new());
        for row in &rows {
            eprintln!(
                "simulating {} on {} devices of {name}",
                row.model, row.devices
            );
            points.extend(simulate::row(row, &self.settings()?, self.budget())?);
        }
        points.extend(simulate::published(&name, &rows)?);
        let all = points::add(&self.out, &name, points)?;
        print!("{}", table::text(&all));
        Ok(())
    }

    fn measure(&self) -> Result<()> {
        let started = team::started()?;
        let name = self.machine_name()?;
        let rows: Vec<_> = match (started, &self.model) {
            (Some(ranks), Some(model)) => vec![Row::new(&self.machine, ranks, model)],
            (ranks, _) => self
                .rows()?
                .into_iter()
                .filter(|row| ranks.is_none_or(|ranks| row.devices == ranks))
                .collect(),
        };
        for row in rows {
            let known = points::read(&self.out, &name)?;
            let planned = match points::planned(&known, row.devices) {
                Some(planned) => planned.clone(),
                None => self.planned(&row, started)?,
            };
            let Some(measured) = measure::row(&row, &planned, self.steps)? else {
                continue;
            };
            let all = points::add(&self.out, &name, vec![planned, measured])?;
            print!("{}", table::text(&all));
        }
        Ok(())
    }

    // Processes must all follow one plan, so they do not each make their own.
    fn planned(&self, row: &Row, started: Option<usize>) -> Result<point::Point> {
        if started.is_some() {
            let out = self.out.display();
            return Err(format!(
                "no plan for {} devices in {out}; make it with --simulate first",
                row.devices
            )
            .into());
        }
        let points = simulate::row(row, &[Preset::Ours], self.budget())?;
        points
            .into_iter()
            .next()
            .ok_or_else(|| "the row does not fit the machine".into())
    }

    fn report(&self) -> Result<()> {
        let lines = report::lines(self.budget())?;
        println!("{}", report::table(&lines));
        if let Some(path) = &self.write {
            let text = chapter::text(&lines, self.budget())?;
            fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        match report::broken(&lines) {
            broken if broken.is_empty() => Ok(()),
            broken => Err(format!("predictions are too far off: {}", broken.join(", ")).into()),
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.mode {
        Mode { simulate: true, .. } => arguments.simulate(),
        Mode { measure: true, .. } => arguments.measure(),
        _ => arguments.report(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weak_scaling: {error}");
            ExitCode::FAILURE
        }
    }
}
