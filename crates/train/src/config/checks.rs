//! Keys that do not fit each other.

use super::{Config, MemoryMode, ObjectiveKind, PlaceKind, as_config, bounds::check_path};
use crate::{Error, Result, data::LossOn, placement::depths};
use hal::error::Counted;
use parallel::{data::UpdatePlace, memory::ActivationMemory, work::dry_context};

impl Config {
    /// Everything that can be checked without a device: the model's sizes, the training's numbers, the grid, the schedule.
    ///
    /// # Errors
    /// [`Error::Setting`] for a size, a number or a schedule that cannot be; [`Error::Grid`] and [`Error::Machine`] as
    /// [`grid`](Config::grid) and [`machine`](Config::machine).
    pub fn check(&self) -> Result<()> {
        self.model.check()?;
        self.training.check()?;
        self.tuning.check()?;
        self.parallel.check()?;
        self.device.check()?;
        self.placement.check()?;
        self.checkpoint.check()?;
        self.data.check()?;
        check_path(
            "device.matmul_choices",
            self.device.matmul_choices.as_deref(),
        )?;
        self.grid()?;
        self.check_tuning()?;
        self.check_objective()?;
        self.check_graph()?;
        self.check_placement()?;
        self.machine()?;
        // A model whose vocabulary is not known yet cannot be counted; its trainer checks the cut and the segments' names.
        // What a search will replace is not read.
        let memory = match self.training.memory {
            MemoryMode::Stated => self.activation_memory(),
            MemoryMode::Auto => ActivationMemory::default(),
        };
        if (self.parallel.stages.is_some() || memory.names_segments())
            && let Ok(work) = self.work()
        {
            work.memory(&memory).map_err(as_config)?;
            if self.parallel.stages.is_some() {
                depths(self, &work, None)?;
            }
        }
        self.schedule().map(drop)
    }

    // Patterns are compared with the names that the model declares.
    fn check_tuning(&self) -> Result<()> {
        if self.tuning.tuning() == nn::Tuning::default() {
            return Ok(());
        }
        let builder = nn::Builder::new(&dry_context()?);
        self.build(&builder).map(drop).map_err(as_config)
    }

    // A pair is two samples of one row, of which only answers count.
    fn check_objective(&self) -> Result<()> {
        if self.training.objective == ObjectiveKind::Model {
            return Ok(());
        }
        let refuse = |key: &str, found: String, needed: &str| {
            let found = format!("{found} with training.objective = \"dpo\"");
            Err(Error::setting(key, found, needed))
        };
        let family = self.model.family();
        let (data, smoothing) = (&self.data, self.training.dpo_label_smoothing);
        if self.model.text().is_none() || !self.model.separates_samples() {
            let needed = "a family that keeps the samples of a row apart";
            return refuse("model.family", family.into(), needed);
        }
        if smoothing >= 0.5 {
            let key = "training.dpo_label_smoothing";
            return refuse(key, smoothing.to_string(), "a number below 0.5");
        }
        if data.loss_on == LossOn::All {
            return refuse("data.loss_on", "all".into(), "answers");
        }
        if !data.mixture.is_empty() {
            let found = Counted(data.mixture.len(), "source").to_string();
            return refuse("data.mixture", found, "one file of pairs, data.path");
        }
        match data.evaluations.len() {
            0 => Ok(()),
            sets => refuse("data.evaluations", Counted(sets, "set").to_string(), "none"),
        }
    }

    // Masks are drawn by numbers that kernels take by value, collectives run on other streams, and the host moves activations.
    fn check_graph(&self) -> Result<()> {
        let (ranks, draws) = (self.grid()?.world_size(), self.model.draws_masks());
        if self.training.graph && self.training.memory == MemoryMode::Auto {
            let found = "auto with training.graph";
            return Err(Error::setting("training.memory", found, "stated"));
        }
        if self.training.graph && self.placement.activations.is_beyond() {
            let found = format!("{} with training.graph", self.placement.activations);
            return Err(Error::setting("placement.activations", found, "device"));
        }
        let pages = [
            ("placement.weights", self.placement.weights),
            ("placement.gradients", self.placement.gradients),
        ];
        for (key, place) in pages {
            if self.training.graph && place != PlaceKind::Device {
                let found = format!("{} with training.graph", place.name());
                return Err(Error::setting(key, found, "device"));
            }
        }
        match self.training.graph && (ranks > 1 || draws) {
            true => {
                let masks = if draws { "dropout" } else { "no dropout" };
                let found = format!("{ranks} ranks and {masks}");
                Err(Error::setting(
                    "training.graph",
                    found,
                    "1 rank and no dropout",
                ))
            }
            false => Ok(()),
        }
    }

    // Ranks agree on such state in the middle of an update, and means become directions of all gradients at once. Whole matrices
    // are updated between two passes over their state.
    fn check_placement(&self) -> Result<()> {
        let optimiser = self.training.optimiser();
        let (gradients, update) = (self.placement.gradients, self.placement.update);
        if update == UpdatePlace::Host {
            let (found, needed) = match self.placement.optimiser {
                PlaceKind::Device => (
                    "state on the device",
                    "device, or placement.optimiser = \"host\" or \"files\"".into(),
                ),
                _ if optimiser.matrices().is_some() => (
                    "matrices that are updated as a whole",
                    format!("device, or an optimiser other than {}", optimiser.name()),
                ),
                _ => ("", String::new()),
            };
            if !found.is_empty() {
                let found = format!("{update} with {found}");
                return Err(Error::setting("placement.update", found, needed));
            }
        }
        if optimiser.factors().is_some() && gradients != PlaceKind::Device {
            return Err(Error::setting(
                "placement.gradients",
                format_args!("{} with means of rows and columns", gradients.name()),
                format!("device, or an optimiser other than {}", optimiser.name()),
            ));
        }
        let state = match (optimiser.codes(), optimiser.factors()) {
            _ if self.placement.optimiser == PlaceKind::Device => return Ok(()),
            (Some(_), _) => "8-bit state",
            (_, Some(_)) => "means of rows and columns",
            (None, None) => return Ok(()),
        };
        Err(Error::setting(
            "placement.optimiser",
            format_args!("{} with {state}", self.placement.optimiser.name()),
            format!("device, or an optimiser other than {}", optimiser.name()),
        ))
    }
}
