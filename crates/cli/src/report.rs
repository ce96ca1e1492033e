//! The report at the start of a run.

use crate::{
    launcher, machine,
    numbers::{counted, grouped},
    timeline::bubble,
};
use grid::Axis;
use parallel::{Reproducible, data::Sharding};
use std::{fmt::Write, path::PathBuf};
use train::{Config, run::Started};

/// The facts of a run that are known before it begins.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The configuration of the run, with its vocabulary.
    pub(crate) config: Config,
    /// Where the data comes from.
    pub(crate) data: String,
    /// What turns text into tokens, if the data is text.
    pub(crate) tokenizer: Option<String>,
    /// The device of rank 0.
    pub(crate) device: String,
    /// The run's folder.
    pub(crate) dir: PathBuf,
    /// The weights with which the run begins, if they are not random.
    pub(crate) initial: Option<PathBuf>,
    /// Why `training.reproducible = "auto"` became `run`, if it did.
    pub(crate) why_run: Option<String>,
    /// What the run has of each source of a mixture, in lines.
    pub(crate) mixture: Vec<String>,
    /// What `training.memory = "auto"` chose and why, in sentences.
    pub(crate) memory: Vec<String>,
}

impl Facts {
    /// Those that the settled configuration states.
    pub(crate) fn new(config: &Config) -> Facts {
        Facts {
            config: config.clone(),
            data: String::new(),
            tokenizer: None,
            device: String::new(),
            dir: PathBuf::new(),
            initial: None,
            why_run: None,
            mixture: Vec::new(),
            memory: Vec::new(),
        }
    }

    /// The report at the start.
    pub(crate) fn beginning(&self, started: &Started) -> String {
        let mut text = String::new();
        let mut line =
            |name: &str, value: String| writeln!(text, "{name:<11}{value}").unwrap_or_default();
        line("model", self.model(started));
        if let Some(path) = &self.initial {
            line("weights", format!("those of {}", path.display()));
        }
        line("data", self.data(started));
        self.mixture
            .iter()
            .for_each(|share| line("", share.clone()));
        line("grid", grid(&self.config));
        let axes = self
            .config
            .parallel
            .grid
            .iter()
            .filter(|(_, degree)| *degree > 1);
        axes.for_each(|(axis, degree)| line("", self.axis(axis, degree)));
        line("batch", self.batch(started.tokens_per_step));
        line("numerics", self.numerics());
        line("bits", bits(&self.config, self.why_run.as_deref()));
        let names = std::iter::once("memory").chain(std::iter::repeat(""));
        names
            .zip(&self.memory)
            .for_each(|(name, sentence)| line(name, sentence.clone()));
        line("overlap", self.config.parallel.overlap.explained());
        line("device", self.device.clone());
        line("steps", steps(started));
        line("run", self.dir.display().to_string());
        text.trim_end().to_owned()
    }

    fn model(&self, started: &Started) -> String {
        let parameters = grouped(started.num_parameters as u64);
        let trained = match started.num_trained < started.num_parameters {
            true => format!(", {} of them trained", grouped(started.num_trained as u64)),
            false => String::new(),
        };
        let model = self.config.model.describe();
        format!("{model}: {parameters} parameters{trained}")
    }

    fn data(&self, started: &Started) -> String {
        let (Some([training, validation]), Some(tokenizer)) = (started.num_tokens, &self.tokenizer)
        else {
            return self.data.clone();
        };
        format!(
            "{}: {} tokens to train on, {} to validate, tokenizer {tokenizer}",
            self.data,
            grouped(training as u64),
            grouped(validation as u64),
        )
    }

    fn axis(&self, axis: Axis, degree: usize) -> String {
        let schedule = match axis {
            Axis::Pipeline => self.schedule(degree),
            _ => String::new(),
        };
        format!("{axis}={degree} {}{schedule}", axis.role())
    }

    fn schedule(&self, stages: usize) -> String {
        let (kind, micro_batches) = (
            self.config.parallel.schedule,
            self.config.training.micro_batches,
        );
        let idle = bubble(kind, stages, micro_batches);
        let bubble = idle.map_or(String::new(), |idle| {
            format!(", bubble {:.0} %", 100.0 * idle)
        });
        format!("; schedule {kind}{bubble}")
    }

    fn batch(&self, tokens: usize) -> String {
        let (training, grid) = (&self.config.training, self.config.parallel.grid);
        let micro = training.batch / (grid.data * training.micro_batches).max(1);
        let over = match grid.z {
            1 => String::new(),
            z => format!(", each over {z} ranks"),
        };
        let rows = match self.config.model.text() {
            Some(_) => {
                let each = grouped((tokens / training.batch.max(1)) as u64);
                format!("{} of {each} tokens", counted(training.batch, "sequence"))
            }
            None => counted(training.batch, "row"),
        };
        format!(
            "{rows} = {} x {} of {micro}{over}",
            counted(grid.data, "replica"),
            counted(training.micro_batches, "micro-batch")
        )
    }

    fn numerics(&self) -> String {
        let (training, parallel) = (&self.config.training, &self.config.parallel);
        let replicas = parallel.grid.data;
        let shared = match parallel.sharding {
            Sharding::Optimiser if replicas > 1 => {
                format!(", its state sharded over {replicas} replicas")
            }
            Sharding::Gradients if replicas > 1 => {
                format!(", its state and gradients sharded over {replicas} replicas")
            }
            _ => String::new(),
        };
        format!(
            "{}; {:?} at {:?} after {} of warm-up{shared}",
            training.precision.dtype(),
            training.optimiser,
            training.learning_rate,
            counted(training.warmup_steps as usize, "step")
        )
    }
}

/// What the bits of a run with this settled configuration depend on, and why `auto` became `run`, if it did.
pub(crate) fn bits(config: &Config, why_run: Option<&str>) -> String {
    match (config.training.reproducible.or_run(), why_run) {
        (Reproducible::Grid, _) => "the same on every grid".into(),
        (Reproducible::Run, None) => "those of this grid".into(),
        (Reproducible::Run, Some(why)) => format!("those of this grid, because {why}"),
    }
}

fn grid(config: &Config) -> String {
    let parallel = &config.parallel;
    let ranks = parallel.grid.world_size().unwrap_or(0);
    let threads = counted(parallel.threads, "thread");
    let each = if ranks == 1 { "" } else { " each" };
    // One of several processes sees the cores to which it is bound, not those of the job.
    let place = match launcher::processes() {
        Some(_) => "as processes".to_owned(),
        None => format!("on {}", counted(machine::cores(), "core")),
    };
    format!(
        "{}: {} with {threads}{each}, {place}",
        parallel.grid,
        counted(ranks, "rank")
    )
}

fn steps(started: &Started) -> String {
    match started.first_step {
        0 => grouped(started.num_steps),
        done => format!(
            "{} to {}, resumed",
            grouped(done + 1),
            grouped(started.num_steps)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let config = crate::testing::config(256);
        let [data, tokenizer, device] = ["notes", "bytes", "cpu: one"].map(str::to_owned);
        Facts {
            config,
            data,
            tokenizer: Some(tokenizer),
            device,
            dir: "runs/a".into(),
            initial: None,
            why_run: None,
            mixture: Vec::new(),
            memory: Vec::new(),
        }
    }

    fn started(first_step: u64) -> Started {
        Started {
            first_step,
            num_steps: 600,
            num_parameters: 842_112,
            num_trained: 842_112,
            num_tokens: Some([90_000, 10_000]),
            tokens_per_step: 2048,
        }
    }

    #[test]
    fn the_beginning_names_model_axes_and_batch() {
        let text = facts().beginning(&started(0));
        for part in [
            "842,112 parameters",
            "notes: 90,000 tokens to train on, 10,000 to validate, tokenizer bytes",
            "x=2,y=1,z=2,data=1,pipeline=2: 8 ranks with 1 thread each",
            "pipeline=2 cuts the layers into stages",
            "; schedule 1f1b, bubble 33 %",
            "16 sequences of 128 tokens = 1 replica x 2 micro-batches of 8, each over 2 ranks",
            "oar (all-reduces of gradients of inputs), ors (reduce-scatters of gradients of weights), oag (all-gathers of weights), \
             data (sums of gradients over replicas)",
            "runs/a",
        ] {
            assert!(text.contains(part), "{part} not in\n{text}");
        }
        assert!(
            !text.contains("y=1 cuts") && !text.contains("data=1 holds"),
            "{text}"
        );
        assert!(
            facts()
                .beginning(&started(200))
                .contains("201 to 600, resumed")
        );
    }
}
