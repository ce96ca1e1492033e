//! The models that are trained, and their data: GPT-2, Llama, and one that is no decoder.

use families::gpt::GptFamily;
use nn::{Builder, Linear};
use parallel::{Context, Input, Model, Parameter, Reproducible, Route, Wires, layers::Loss};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex},
};
use testkit::{config, edit_gpt, fixed_tokens, gpt};
use train::{Config, Trainer, batches::Rows, config::Precision, trainer::Options};

/// Updates in a step.
pub const UPDATES: u64 = 4;

/// Weights by segment and update, as forward found them: once in forward, and once more in backward, which recomputes.
pub type Seen = Arc<Mutex<BTreeMap<(usize, u64), Vec<BTreeMap<String, Vec<f64>>>>>>;

/// Which model.
#[derive(Clone)]
pub enum Net {
    Decoder,
    /// Linear layers whose first features skip two segments.
    Skips(Seen),
}

/// A model with the configuration of its run.
#[derive(Clone)]
pub struct Subject {
    pub config: Config,
    pub net: Net,
}

impl Subject {
    pub fn gpt2() -> Subject {
        let mut config = config(Precision::F32);
        config.training.reproducible = Reproducible::Grid.into();
        config.training.micro_batches = UPDATES as usize;
        edit_gpt(&mut config, |model| {
            model.tied_head = false;
            model.dropout = 0.1;
        });
        let net = Net::Decoder;
        Subject { config, net }
    }

    pub fn llama() -> Subject {
        let mut subject = Subject::gpt2();
        edit_gpt(&mut subject.config, |model| {
            model.family = GptFamily::Llama;
            model.dropout = 0.0;
        });
        subject
    }

    pub fn skips() -> Subject {
        Subject {
            net: Net::Skips(Seen::default()),
            ..Subject::gpt2()
        }
    }

    /// The same with another configuration.
    pub fn with(&self, change: impl FnOnce(&mut Config)) -> Subject {
        let mut subject = self.clone();
        change(&mut subject.config);
        subject
    }

    pub fn on(&self, grid: &str) -> Subject {
        self.with(|config| config.parallel.grid = grid.parse().unwrap())
    }

    pub fn trainer(&self, context: &Context) -> train::Result<Trainer> {
        match &self.net {
            Net::Decoder => self.config.trainer(context),
            Net::Skips(_) => {
                let options = Options {
                    stages: None,
                    ..self.config.trainer_options()
                };
                self.trainer_with(context, options)
            }
        }
    }

    /// Of the model with skips.
    pub fn trainer_with(&self, context: &Context, options: Options) -> train::Result<Trainer> {
        let seen = match &self.net {
            Net::Decoder => Seen::default(),
            Net::Skips(seen) => seen.clone(),
        };
        let build = move |builder: &Builder| Skips::new(builder, seen.clone());
        Trainer::boxed(context, build, self.config.training.optimiser(), options)
    }

    /// Rows of a step's batch.
    pub fn rows(&self, step: u64, rows: Range<usize>) -> Rows {
        match &self.net {
            Net::Decoder => {
                fixed_tokens(&self.config, step, rows).into_rows(gpt(&self.config).context)
            }
            Net::Skips(_) => {
                let of_update = self.config.training.batch / UPDATES as usize;
                let updates = rows
                    .clone()
                    .map(|row| (step * UPDATES) as f64 + (row / of_update) as f64);
                let features =
                    rows.flat_map(|row| (0..8).map(move |place| (row * 8 + place) as f64));
                let features: Vec<f64> = features
                    .map(|number| (step as f64 + number * 0.7).sin())
                    .collect();
                Rows::new()
                    .with("updates", &[1], updates.collect::<Vec<f64>>())
                    .with("features", &[8], features)
            }
        }
    }
}

/// The first features skip to the third segment and to the head.
struct Skips {
    layers: [Linear; 4],
    parameters: Vec<Parameter>,
    seen: Seen,
}

impl Skips {
    fn new(builder: &Builder, seen: Seen) -> parallel::Result<Skips> {
        let layer = |segment: usize, outputs: usize| {
            let name = format!("layer{segment}");
            builder
                .segment(segment)
                .linear_transposed(&name, 8, outputs)
        };
        Ok(Skips {
            layers: [layer(0, 8)?, layer(1, 8)?, layer(2, 8)?, layer(3, 2)?],
            parameters: builder.parameters(),
            seen,
        })
    }

    fn note(&self, segment: usize, input: &Input<'_>) -> parallel::Result<()> {
        let update = input.tensor("updates")?.to_f64()?[0] as u64;
        let own = self.parameters.iter();
        let own = own.filter(|parameter| parameter.segments() == [segment]);
        let values =
            own.map(|parameter| Ok((parameter.name().to_owned(), parameter.value()?.to_f64()?)));
        let values = values.collect::<parallel::Result<_>>()?;
        let mut seen = self.seen.lock().unwrap();
        seen.entry((segment, update)).or_default().push(values);
        Ok(())
    }
}

impl Model for Skips {
    fn num_segments(&self) -> usize {
        4
    }

    fn routes(&self) -> Vec<Route> {
        let mut routes: Vec<Route> = (0..4)
            .map(|segment| Route::new("x", segment, segment + 1))
            .collect();
        routes.extend([2, 3].map(|to| Route::new("skip", 0, to)));
        routes
    }

    // The last one too, so that every backward shows the weights that it reads.
    fn recomputed(&self) -> Vec<Range<usize>> {
        (0..4).map(|segment| segment..segment + 1).collect()
    }

    fn forward(
        &self,
        segment: usize,
        input: &Input<'_>,
        mut wires: Wires,
    ) -> parallel::Result<Wires> {
        self.note(segment, input)?;
        let mut x = match segment {
            0 => input.activation("features")?,
            _ => wires.take("x")?,
        };
        if segment >= 2 {
            x = x.add(&wires.take("skip")?)?;
        }
        let x = self.layers[segment].forward(&x)?.tanh()?;
        Ok(match segment {
            0 => Wires::of("x", x.clone()).with("skip", x),
            _ => Wires::of("x", x),
        })
    }

    fn objective(&self, _: &Input<'_>, mut wires: Wires) -> parallel::Result<Loss> {
        Loss::mean(&wires.take("x")?.square()?)
    }
}
