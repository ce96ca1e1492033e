//! Published measurements: `published.toml`, and the request that repeats each of its runs.

use crate::{
    Result,
    point::{Point, PointKind},
    rows::Row,
};
use fascicle::families::gpt::published;
use fascicle::grid::{AxisOrder, Degrees, machine::Machine};
use fascicle::parallel::pipeline::ScheduleKind;
use fascicle::train::config::{Precision, overlap_from_names};
use plan::{Outcome, Preset, Request};
use serde::Deserialize;
use std::time::Duration;

const POINTS: &str = include_str!("published.toml");

/// One published step.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// It in words.
    pub name: String,
    /// The machine's name.
    pub machine: String,
    /// Devices of the job.
    pub devices: usize,
    /// The quantity that the figure measures.
    pub unit: Unit,
    /// The figure.
    pub value: f64,
    /// The permitted error of a prediction.
    pub within_percent: Option<f64>,
    /// Where it was published.
    pub source: String,
    model: Sizes,
    sequence: Option<usize>,
    batch: usize,
    #[serde(default = "bf16")]
    precision: Precision,
    grid: Option<Degrees>,
    order: Option<String>,
    micro_batches: Option<usize>,
    schedule: Option<String>,
    overlap: Option<Vec<String>>,
    #[serde(default)]
    gather_wide: bool,
    keep_gathered: Option<bool>,
    #[serde(default = "yes")]
    recompute: bool,
    #[serde(default)]
    sequence_parallel: bool,
    #[serde(default)]
    stored_scores: bool,
    /// Whether the fastest variant of each GEMM was chosen by timing.
    #[serde(default = "yes")]
    pub tuned: bool,
}

/// The quantity that a published figure measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Pflop/s of the full job.
    Pflops,
    /// Of the advertised peak, where recomputation counts as work.
    PercentOfPeak,
    /// Of the advertised peak, where it does not.
    Utilisation,
    /// Tflop/s of one device.
    TflopsPerDevice,
    /// Seconds per step.
    StepS,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sizes {
    layers: usize,
    hidden: usize,
    heads: usize,
}

#[derive(Deserialize)]
struct File {
    point: Vec<Published>,
}

fn yes() -> bool {
    true
}

fn bf16() -> Precision {
    Precision::Bf16
}

/// All published steps.
///
/// # Errors
/// An invalid line of the file.
pub fn all() -> Result<Vec<Published>> {
    let file: File = toml::from_str(POINTS).map_err(|error| format!("published.toml: {error}"))?;
    Ok(file.point)
}

impl Published {
    /// The request to the planner that repeats this run.
    ///
    /// # Errors
    /// Names that do not exist.
    pub fn request(&self, budget: Duration) -> Result<Request> {
        let Sizes {
            layers,
            hidden,
            heads,
        } = self.model;
        let mut model = published(layers, hidden, heads);
        model.context = self.sequence.unwrap_or(model.context);
        let overlap = self
            .overlap
            .as_ref()
            .map(|names| overlap_from_names(names))
            .transpose();
        let request = Request::new(
            Machine::find(&self.machine)?,
            self.devices,
            &self.name,
            model.into(),
        )?;
        Ok(Request {
            batch: self.batch,
            precision: self.precision,
            preset: Preset::PublishedAxonn,
            grid: self.grid,
            order: self
                .order
                .as_deref()
                .map(str::parse::<AxisOrder>)
                .transpose()?,
            micro_batches: self.micro_batches,
            schedule: self
                .schedule
                .as_deref()
                .map(str::parse::<ScheduleKind>)
                .transpose()?,
            gather_wide: self.gather_wide,
            keep_gathered: self.keep_gathered,
            recompute: Some(self.recompute),
            sequence_parallel: Some(self.sequence_parallel),
            stored_scores: self.stored_scores,
            tuned: self.tuned,
            overlap: overlap.map_err(|error| format!("{}: {error}", self.name))?,
            budget,
            ..request
        })
    }

    /// A simulated step of its request in the unit of the figure.
    pub fn predicted(&self, request: &Request, outcome: &Outcome) -> f64 {
        match self.unit {
            Unit::Pflops => outcome.flops / 1e15,
            Unit::PercentOfPeak => outcome.percent_of_peak,
            Unit::Utilisation => {
                let counted =
                    request.flop(false) / request.flop(outcome.candidate.memory.recomputes_all());
                counted * outcome.percent_of_peak
            }
            Unit::TflopsPerDevice => outcome.flops / 1e12 / self.devices as f64,
            Unit::StepS => outcome.step_s,
        }
    }

    /// The point of the plot, if this run is one of `row`: same devices, model and batch.
    ///
    /// # Errors
    /// As [`request`](Published::request).
    pub fn point(&self, row: &Row, of_row: &Request) -> Result<Option<Point>> {
        let request = self.request(Duration::ZERO)?;
        let same_model = request.model == of_row.model && request.batch == of_row.batch;
        if self.devices != row.devices || !same_model {
            return Ok(None);
        }
        let flop = request.flop(true);
        let peak = request.machine.device.peak(self.precision.dtype().name()) * self.devices as f64;
        let flops = match self.unit {
            Unit::Pflops => self.value * 1e15,
            Unit::PercentOfPeak => self.value / 100.0 * peak,
            Unit::Utilisation => self.value / 100.0 * peak * flop / request.flop(false),
            Unit::TflopsPerDevice => self.value * 1e12 * self.devices as f64,
            Unit::StepS => flop / self.value,
        };
        Ok(Some(Point {
            machine: self.machine.clone(),
            devices: self.devices,
            model: of_row.model_name.clone(),
            settings: Preset::PublishedAxonn.name().into(),
            kind: PointKind::Published,
            step_s: flop / flops,
            pflops: flops / 1e15,
            percent_of_peak: 100.0 * flops / peak,
            memory_gib: None,
            run: None,
        }))
    }
}

impl Unit {
    /// The unit as text.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Pflops => "Pflop/s",
            Unit::PercentOfPeak => "% of peak",
            Unit::Utilisation => "% of peak, recomputation not counted",
            Unit::TflopsPerDevice => "Tflop/s per device",
            Unit::StepS => "s per step",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_can_be_asked_and_its_devices_fill_its_grid() {
        for published in all().unwrap() {
            let request = published.request(Duration::ZERO).unwrap();
            request.check().unwrap();
            assert!(
                !plan::enumerate::candidates(&request).is_empty(),
                "{}",
                published.name
            );
            assert!(!published.source.is_empty() && published.value > 0.0);
        }
    }

    #[test]
    fn a_published_speed_is_a_published_time() {
        let row = Row::new("perlmutter", 4096, "gpt-40b");
        let of_row = row.request(Preset::PublishedAxonn, Duration::ZERO).unwrap();
        let point = all().unwrap()[0].point(&row, &of_row).unwrap().unwrap();
        assert!((point.step_s - 8.77).abs() < 0.05, "{}", point.step_s);
        assert!(
            (point.percent_of_peak - 48.5).abs() < 0.2,
            "{}",
            point.percent_of_peak
        );
    }
}
