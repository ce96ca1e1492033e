//! `fascicle plan`: finds the grid, its speed and whether it fits, without access to the machine.

use crate::{
    failure::{Failure, Outcome},
    files, grids, output,
    overrides::{optimisers, precisions},
};
use clap::Args;
use grid::{AxisOrder, Degrees, machine::Machine};
use parallel::{
    ContextAttention, GradientWire,
    data::{Sharding, UpdatePlace},
    pipeline::ScheduleKind,
};
use plan::{
    Preset, Request, StatePlaceKinds, kernels,
    model::is_configuration,
    picture::{self, Totals},
    report,
    request::{BATCH_TOKENS, sequences},
    search, simulate,
};
use std::{path::PathBuf, time::Duration};
use train::Families;
use train::config::{
    BitsChoice, MemoryMode, OptimiserKind, PlaceKind, Precision, overlap_from_names,
};

/// The longest time for simulations.
const MOST_SECONDS: f64 = 86400.0;

/// The most tokens of a batch.
const MOST_TOKENS: f64 = 1e11;

/// What to plan.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// perlmutter, frontier, alps, selene, laptop, or the file of a machine description
    #[arg(long, value_name = "NAME|FILE")]
    machine: String,
    /// Number of devices in the job; on MI250X a device is a GCD
    #[arg(long, value_name = "N")]
    devices: usize,
    /// Name of a model in one of the families, such as gpt-40b, a configuration file, or a config.json of the library
    /// transformers, or its folder
    #[arg(long, value_name = "NAME|CONFIG")]
    model: String,
    /// Number of layers, instead of the model's
    #[arg(long, value_name = "N")]
    layers: Option<usize>,
    /// Width of the residual stream, instead of the model's
    #[arg(long, value_name = "N")]
    hidden: Option<usize>,
    /// Number of attention heads, instead of the model's
    #[arg(long, value_name = "N")]
    heads: Option<usize>,
    /// Vocabulary size, instead of the model's
    #[arg(long, value_name = "N")]
    vocabulary: Option<usize>,
    /// Tokens per global batch, as in 16.8M; by default those of the configuration file, or 16,777,216
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    batch_tokens: Option<f64>,
    /// Tokens per sequence, instead of the model's
    #[arg(long, value_name = "N")]
    sequence: Option<usize>,
    /// Type in which the model computes; by default that of the configuration file, or bf16
    #[arg(long, value_parser = precisions())]
    precision: Option<Precision>,
    /// Optimiser; by default that of the configuration file, or adamw
    #[arg(long, value_parser = optimisers())]
    optimiser: Option<OptimiserKind>,
    /// Allow pipeline stages
    #[arg(long)]
    allow_pipeline: bool,
    /// Preset: ours (everything overlaps), or published-axonn (the settings of AxoNN's published runs)
    #[arg(long, value_name = "NAME", default_value = "ours")]
    settings: String,
    /// Consider only this grid, as in x=2,z=4,data=8
    #[arg(long, value_name = "AXIS=N,...", value_parser = grids::named)]
    grid: Option<Degrees>,
    /// Consider only this order of axes, fastest varying first, as in x,y,z,pipeline,data
    #[arg(long, value_name = "AXES")]
    order: Option<AxisOrder>,
    /// Consider only this number of micro-batches per replica
    #[arg(long, value_name = "N")]
    micro_batches: Option<usize>,
    /// Whether to recompute layers in backward; by default both are tried
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    recompute: Option<bool>,
    /// Consider only this schedule: gpipe, 1f1b, interleaved:CHUNKS, zb-h1, zb-v, pipedream, pipedream-2bw, message-driven
    #[arg(long)]
    schedule: Option<ScheduleKind>,
    /// What replicas along Data hold in shards; by default all are tried
    #[arg(long, value_name = "none|optimiser|gradients")]
    sharding: Option<Sharding>,
    /// Whether to keep gathered weights from a layer's forward to its backward; by default both are tried
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    keep_gathered: Option<bool>,
    /// Whether ranks of X hold runs of the vectors between layers (sequence parallelism); by default both are tried
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    sequence_parallel: Option<bool>,
    /// How attention meets the keys and values of other ranks along Context; by default both are tried
    #[arg(long, value_name = "gather|heads")]
    context_attention: Option<ContextAttention>,
    /// Where the optimiser's state may be, of which each is tried; by default the device, and if nothing fits there, also the host
    #[arg(long, value_name = "device|host|files,...", value_delimiter = ',')]
    optimiser_place: Vec<PlaceKind>,
    /// What updates weights whose optimiser's state is beyond the device, of which each is tried; by default the device, and where
    /// nothing fits without such state, also the host
    #[arg(long, value_name = "device|host,...", value_delimiter = ',')]
    update_place: Vec<UpdatePlace>,
    /// The same of weights while no layer uses them; by default the device, and where nothing fits otherwise, also beyond it
    #[arg(long, value_name = "device|host|files,...", value_delimiter = ',')]
    weight_place: Vec<PlaceKind>,
    /// The same of gradients
    #[arg(long, value_name = "device|host|files,...", value_delimiter = ',')]
    gradient_place: Vec<PlaceKind>,
    /// Where activations may be between forward and backward; by default as for the optimiser's state
    #[arg(long, value_name = "device|host|files,...", value_delimiter = ',')]
    activation_place: Vec<PlaceKind>,
    /// What segments keep and where: the same for all (stated), or, on the best grids, what is fastest for each segment within the
    /// memory (auto)
    #[arg(long, value_name = "stated|auto", default_value = "stated", value_parser = memory_mode)]
    memory: MemoryMode,
    /// MiB that each rank may allocate, if fewer than the machine's devices have
    #[arg(long, value_name = "MIB")]
    memory_limit: Option<usize>,
    /// Gather weights in f32, like systems that keep f32 parameters under automatic casting
    #[arg(long)]
    gather_wide: bool,
    /// The type in which gradients travel, with 16-bit activations: over Z in 16 bits and over Data in f32 (mixed), or all in
    /// one of these
    #[arg(long, value_name = "mixed|narrow|wide", default_value_t)]
    gradient_wire: GradientWire,
    /// Plan for a training whose bits depend on its grid (run), or on no grid (grid); auto is grid on hosts where a
    /// candidate can hold it
    #[arg(long, value_name = "auto|run|grid", default_value_t)]
    reproducible: BitsChoice,
    /// Collectives that run beside compute, instead of the preset's: all, none, or any of oar (all-reduces of gradients of inputs),
    /// ors (reduce-scatters of gradients of weights), oag (all-gathers of weights), oag-backward (these in backward alone) and
    /// data (sums of gradients over replicas)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    overlap: Option<Vec<String>>,
    /// Run GEMMs as they are written; by default the fastest variant of each is used, as if chosen by timing
    #[arg(long)]
    untuned: bool,
    /// Describe a program whose attention writes its scores to memory, unlike this library's; with --recompute no, only
    /// attention is recomputed
    #[arg(long)]
    stored_scores: bool,
    /// Seconds after which no further candidate is simulated, once a dozen are; the estimates before them are not counted
    #[arg(long, value_name = "SECONDS", default_value = "12", value_parser = seconds)]
    budget: Duration,
    /// Also print the work of the best candidate's step by kernel: calls, bytes, flop, and time beside the least that the device allows
    #[arg(long)]
    kernels: bool,
    /// Write the simulated step of the best candidate as a Perfetto trace
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Compare the simulated step of the best candidate with a measured one, read from a run's trace.json
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Print the plan as JSON on stdout
    #[arg(long)]
    json: bool,
}

impl Plan {
    /// Plans, and prints the plan.
    pub(crate) fn run(&self, families: &Families) -> Outcome {
        let request = self.request(families)?;
        if let Some(path) = &self.trace {
            files::check_output("--trace", path)?;
        }
        let measured = self.compare.as_deref().map(picture::measured);
        let measured = measured.transpose().map_err(as_failure)?;
        let plan = search(&request).map_err(as_failure)?;
        let traced = self.traced(&request, &plan, measured.is_some())?;
        if let Some(traced) = &traced {
            self.picture(traced, measured)?;
        }
        let counted = traced.as_ref().filter(|_| self.kernels);
        match self.json {
            true => {
                let mut report = report::json(&plan);
                if let Some(counted) = counted {
                    report["kernels"] = serde_json::json!(kernels::kernels(&request, counted));
                }
                output::json(&report)
            }
            false => {
                let work = counted.map(|counted| kernels::text(&request, counted));
                output::result(&(report::text(&plan) + &work.unwrap_or_default()))
            }
        }
    }

    // Simulates the best candidate again and records every piece of its work, if a flag asks for any of it.
    fn traced(
        &self,
        request: &Request,
        plan: &plan::Plan,
        is_compared: bool,
    ) -> Result<Option<plan::Outcome>, Failure> {
        let is_told = self.kernels || self.trace.is_some() || is_compared;
        let best = plan.best.first().filter(|_| is_told);
        let simulated =
            best.map(|best| simulate(request, &best.candidate, true).map_err(as_failure));
        simulated.transpose()
    }

    fn picture(&self, traced: &plan::Outcome, measured: Option<Totals>) -> Outcome {
        if let Some(path) = &self.trace {
            picture::write_trace(traced, path).map_err(as_failure)?;
            output::note(&format!("trace of the simulated step: {}", path.display()));
        }
        if let Some(measured) = measured {
            output::note(&picture::comparison(&measured, &picture::simulated(traced)));
        }
        Ok(())
    }

    fn request(&self, families: &Families) -> Outcome<Request> {
        let machine =
            Machine::find(&self.machine).map_err(|error| Failure::usage(error.to_string()))?;
        let (name, config) = plan::model::find(&self.model, families).map_err(as_failure)?;
        let sizes = [
            ("layers", self.layers),
            ("hidden", self.hidden),
            ("heads", self.heads),
            ("vocabulary", self.vocabulary),
            ("context", self.sequence),
        ];
        let asked = sizes.into_iter().filter_map(|(key, size)| {
            let size = i64::try_from(size?).unwrap_or(i64::MAX);
            Some((key, toml::Value::Integer(size)))
        });
        let model = families
            .edited(Some(&config.model), asked)
            .map_err(Failure::usage)?;
        let sequence = model.text().map_or(1, |text| text.context);
        let overlap = self.overlap.as_ref().map(|names| overlap_from_names(names));
        let request = Request::new(machine, self.devices, name, model).map_err(as_failure)?;
        let request = request.with_tuning(&config.tuning).map_err(as_failure)?;
        let sequences = |tokens| sequences(tokens, sequence);
        // A configuration says how its model is trained, too.
        let request = match is_configuration(&self.model, families) {
            true => request.with_training(&config.training),
            false => Request {
                batch: sequences(BATCH_TOKENS as f64),
                ..request
            },
        };
        Ok(Request {
            batch: self.batch_tokens.map_or(request.batch, sequences),
            precision: self.precision.unwrap_or(request.precision),
            optimiser: self.optimiser.unwrap_or(request.optimiser),
            preset: Preset::parse(&self.settings)
                .map_err(|error| Failure::usage(format!("--{error}")))?,
            allow_pipeline: self.allow_pipeline,
            grid: self.grid,
            order: self.order,
            micro_batches: self.micro_batches,
            recompute: self.recompute,
            schedule: self.schedule,
            sharding: self.sharding,
            keep_gathered: self.keep_gathered,
            sequence_parallel: self.sequence_parallel,
            context_attention: self.context_attention,
            state_places: self.state_places(),
            activation_places: self.activation_place.clone(),
            memory: self.memory,
            memory_limit: self.memory_limit.map(|mib| mib.saturating_mul(1 << 20)),
            gather_wide: self.gather_wide,
            gradient_wire: self.gradient_wire,
            reproducible: self.reproducible,
            tuned: !self.untuned,
            stored_scores: self.stored_scores,
            overlap: overlap
                .transpose()
                .map_err(|error| Failure::usage(format!("--{error}")))?,
            budget: self.budget,
            ..request
        })
    }

    // Every combination of the places that are named; none if none is.
    fn state_places(&self) -> Vec<StatePlaceKinds> {
        let named = [
            &self.optimiser_place,
            &self.weight_place,
            &self.gradient_place,
        ];
        if named.iter().all(|places| places.is_empty()) && self.update_place.is_empty() {
            return Vec::new();
        }
        let [mut optimiser, weights, gradients] = named.map(|places| match places.is_empty() {
            true => vec![PlaceKind::Device],
            false => places.clone(),
        });
        let updates = match self.update_place.is_empty() {
            true => vec![UpdatePlace::Device],
            false => self.update_place.clone(),
        };
        if self.optimiser_place.is_empty() && updates.contains(&UpdatePlace::Host) {
            optimiser = vec![PlaceKind::Host];
        }
        let mut all = Vec::new();
        for &optimiser in &optimiser {
            for &weights in &weights {
                for &gradients in &gradients {
                    let places = StatePlaceKinds::from([optimiser, weights, gradients]);
                    let each = updates
                        .iter()
                        .map(|&update| StatePlaceKinds { update, ..places });
                    all.extend(each);
                }
            }
        }
        // State on the device can only be updated there. If nothing else is named, the planner refuses it.
        let can_be = |places: &StatePlaceKinds| {
            places.update == UpdatePlace::Device || places.optimiser != PlaceKind::Device
        };
        if all.iter().any(can_be) {
            all.retain(can_be);
        }
        all
    }
}

fn as_failure(error: plan::Error) -> Failure {
    match error {
        plan::Error::OutOfReach { .. }
        | plan::Error::Capacity { .. }
        | plan::Error::Simulation(_) => Failure::run(error),
        plan::Error::Train(error) => error.into(),
        _ => Failure::usage(error),
    }
}

// Parses a number of tokens; K, M and G stand for 10^3, 10^6 and 10^9.
fn tokens(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1e3),
        Some('m' | 'M') => (&text[..text.len() - 1], 1e6),
        Some('g' | 'G') => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    match digits.parse::<f64>() {
        Ok(number) if number > 0.0 && number * unit <= MOST_TOKENS => Ok(number * unit),
        _ => Err(format!(
            "found `{text}`, needs a number of tokens up to {MOST_TOKENS:e}, as in 16777216 or 16.8M"
        )),
    }
}

fn memory_mode(text: &str) -> Result<MemoryMode, String> {
    match text {
        "stated" => Ok(MemoryMode::Stated),
        "auto" => Ok(MemoryMode::Auto),
        _ => Err(format!("found `{text}`, needs stated or auto")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= MOST_SECONDS);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("found `{text}`, needs seconds from 0 to {MOST_SECONDS}"))
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" | "full" => Ok(true),
        "no" | "false" | "none" => Ok(false),
        _ => Err(format!("found `{text}`, needs yes or no")),
    }
}
