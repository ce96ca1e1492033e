//! A point of the plot: the time of a step on a number of devices, and how it is run there.

use crate::{Result, rows::Row};
use fascicle::{
    parallel::{ContextAttention, data::Sharding, memory::SegmentMemory},
    train::config::PlaceKind,
};
use plan::{Candidate, Outcome, Request};
use serde::{Deserialize, Serialize};

/// Where a point comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PointKind {
    /// By the simulated vendor.
    Simulated,
    /// On the devices themselves.
    Measured,
    /// By others.
    Published,
}

/// A point of the plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The machine's name.
    pub machine: String,
    /// Devices of the job.
    pub devices: usize,
    /// The model's name.
    pub model: String,
    /// Name of the settings that the run was planned with.
    pub settings: String,
    /// Where it comes from.
    pub kind: PointKind,
    /// Seconds of a batch.
    pub step_s: f64,
    /// Of the full job.
    pub pflops: f64,
    /// Of the advertised peak.
    pub percent_of_peak: f64,
    /// On the fullest rank, if known.
    pub memory_gib: Option<f64>,
    /// How it is run, if known.
    pub run: Option<Run>,
}

/// A candidate in the terms of a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Ranks along each axis.
    pub grid: String,
    /// Axes, fastest varying first.
    pub order: String,
    /// Micro-batches per replica.
    pub micro_batches: usize,
    /// Whether layers are recomputed in backward.
    pub recompute: bool,
    /// Name of the pipeline's schedule.
    pub schedule: String,
    /// What replicas along Data hold in shards.
    #[serde(alias = "sharded_optimiser")]
    pub sharding: Sharding,
    /// Whether gathered weights are kept from forward to backward.
    pub keep_gathered: bool,
    /// Whether ranks of X hold runs of the vectors between layers.
    #[serde(default)]
    pub sequence_parallel: bool,
    /// How attention meets the keys and values of other ranks along Context.
    #[serde(default)]
    pub context_attention: ContextAttention,
    /// Where the optimiser's state is.
    #[serde(default)]
    pub optimiser_place: PlaceKind,
    /// Where weights are.
    #[serde(default)]
    pub weight_place: PlaceKind,
    /// Where gradients are.
    #[serde(default)]
    pub gradient_place: PlaceKind,
    /// Where activations are between forward and backward.
    #[serde(default)]
    pub activation_place: PlaceKind,
}

impl Point {
    /// A point that takes `step_s` with this candidate.
    pub fn new(
        row: &Row,
        request: &Request,
        candidate: &Candidate,
        kind: PointKind,
        step_s: f64,
    ) -> Point {
        let flops = request.flop(candidate.memory.recomputes_all()) / step_s;
        let peak = request
            .machine
            .device
            .peak(request.precision.dtype().name())
            * row.devices as f64;
        Point {
            machine: request.machine.name.clone(),
            devices: row.devices,
            model: request.model_name.clone(),
            settings: request.preset.name().into(),
            kind,
            step_s,
            pflops: flops / 1e15,
            percent_of_peak: 100.0 * flops / peak,
            memory_gib: None,
            run: Some(Run::of(candidate)),
        }
    }

    /// The simulated vendor's result for a row.
    pub fn simulated(row: &Row, request: &Request, outcome: &Outcome) -> Point {
        let memory_gib = Some(outcome.memory() as f64 / f64::from(1 << 30));
        let point = Point::new(
            row,
            request,
            &outcome.candidate,
            PointKind::Simulated,
            outcome.step_s,
        );
        Point {
            memory_gib,
            ..point
        }
    }

    /// Whether a newer `other` replaces this one.
    pub fn is_same_as(&self, other: &Point) -> bool {
        let key = |point: &Point| {
            (
                point.machine.clone(),
                point.devices,
                point.model.clone(),
                point.settings.clone(),
                point.kind,
            )
        };
        key(self) == key(other)
    }
}

impl Run {
    // The plans of this study have the same memory for all segments.
    fn of(candidate: &Candidate) -> Run {
        let SegmentMemory { recompute, place } = candidate.memory.all().unwrap_or_default();
        Run {
            grid: candidate.degrees.to_string(),
            order: candidate.order.to_string(),
            micro_batches: candidate.micro_batches,
            recompute,
            schedule: candidate.schedule.to_string(),
            sharding: candidate.sharding,
            keep_gathered: candidate.keep_gathered,
            sequence_parallel: candidate.sequence_parallel,
            context_attention: candidate.context_attention,
            optimiser_place: candidate.places.optimiser,
            weight_place: candidate.places.weights,
            gradient_place: candidate.places.gradients,
            activation_place: place,
        }
    }

    /// The candidate that these words describe.
    ///
    /// # Errors
    /// If the text of an edited file names no valid grid, order or schedule.
    pub fn candidate(&self) -> Result<Candidate> {
        Ok(Candidate {
            degrees: self.grid.parse()?,
            order: self.order.parse()?,
            micro_batches: self.micro_batches,
            memory: SegmentMemory {
                recompute: self.recompute,
                place: self.activation_place,
            }
            .into(),
            schedule: self.schedule.parse()?,
            sharding: self.sharding,
            keep_gathered: self.keep_gathered,
            sequence_parallel: self.sequence_parallel,
            context_attention: self.context_attention,
            places: [self.optimiser_place, self.weight_place, self.gradient_place].into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fascicle::parallel::pipeline::ScheduleKind;

    #[test]
    fn a_candidate_survives_its_words() {
        let candidate = Candidate {
            degrees: "x=2,z=4,data=8,pipeline=2".parse().unwrap(),
            order: "z,x,y,data,pipeline".parse().unwrap(),
            micro_batches: 4,
            memory: SegmentMemory {
                recompute: true,
                place: PlaceKind::Files,
            }
            .into(),
            schedule: ScheduleKind::Interleaved { chunks: 2 },
            sharding: Sharding::Gradients,
            keep_gathered: false,
            sequence_parallel: true,
            context_attention: ContextAttention::Heads,
            places: [PlaceKind::Host, PlaceKind::Files, PlaceKind::Device].into(),
        };
        assert_eq!(Run::of(&candidate).candidate().unwrap(), candidate);
    }
}
