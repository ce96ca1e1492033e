//! `training.reproducible = "auto"`: what it settles before a run is what the run's first step would find.

use families::GptFamily;
use grid::Degrees;
use hal::Capabilities;
use parallel::{Input, Model, Reproducible, Result, Wires, layers::Loss, pipeline::ScheduleKind};
use std::{fs, ops::Range, path::Path, sync::Arc};
use testkit::{edit_gpt, try_ranks};
use train::{
    Config, Summary,
    batches::{Batches, Rows},
    blueprint::Blueprint,
    config::{BitsChoice, Precision},
    run::{Resume, Run, settle_bits},
};

#[path = "../examples/10_residual_classifier.rs"]
#[allow(dead_code, reason = "the example's main is not called")]
mod residual;

const AUTO: BitsChoice = BitsChoice::Auto;
const GRID: BitsChoice = BitsChoice::Fixed(Reproducible::Grid);
const RUN: BitsChoice = BitsChoice::Fixed(Reproducible::Run);

fn cpu() -> Capabilities {
    let device = cpu::open(cpu::Options::default()).unwrap();
    device.capabilities().clone()
}

fn on(config: &Config, grid: Degrees) -> Config {
    let mut config = config.clone();
    config.parallel.grid = grid;
    config.training.reproducible = AUTO;
    config
}

// The error of a training step whose bits are to be the same on every grid, if it fails.
fn refused_by_a_step(config: &Config) -> Option<String> {
    let mut config = config.clone();
    config.training.reproducible = GRID;
    let num_ranks = config.grid().unwrap().world_size();
    let ended = try_ranks(num_ranks, move |world, device| {
        let trainer = config.trainer(&config.context(&world, &device)?)?;
        let blank = |rows: Range<usize>| Ok(config.model.blank_rows(rows.len()));
        trainer.gradients(&trainer.batch_of(0, blank)?).map(drop)
    });
    ended.err()
}

// Settles the bits of a configuration on all grids of these numbers of ranks that fit it, and compares with a step. Returns
// how many hold the bits, and the reasons of the others.
fn settled_as_steps_find(config: &Config, ranks: &[usize]) -> (usize, Vec<String>) {
    let (mut held, mut reasons) = (0, Vec::new());
    for grid in testkit::grids(ranks) {
        let mut config = on(config, grid);
        if config.grid().is_err() || config.schedule().is_err() {
            continue;
        }
        let refused = refused_by_a_step(&config);
        let reason = settle_bits(&mut config, &cpu(), None).unwrap();
        let expected = if refused.is_some() { RUN } else { GRID };
        assert_eq!(
            config.training.reproducible, expected,
            "{grid}: {refused:?}, {reason:?}"
        );
        match (refused, reason) {
            (Some(refused), Some(reason)) => {
                assert!(refused.contains(&reason), "{refused}\n{reason}");
                reasons.push(reason);
            }
            _ => held += 1,
        }
    }
    (held, reasons)
}

#[test]
fn transformers_hold_the_bits_where_every_shard_ends_with_a_leaf() {
    let gpt = testkit::config(Precision::F32);
    assert_eq!(settled_as_steps_find(&gpt, &[1, 2, 3, 4, 8]).1, [""; 0]);
    // Heads need equal shards: 9 of 36 features end within a leaf of 2.
    let mut uneven = gpt.clone();
    edit_gpt(&mut uneven, |model| (model.hidden, model.heads) = (36, 12));
    let (held, reasons) = settled_as_steps_find(&uneven, &[1, 2, 4]);
    assert!(held > 0 && !reasons.is_empty(), "{held} {reasons:?}");
    assert!(
        reasons.iter().all(|reason| reason.contains("features in")),
        "{reasons:?}"
    );
    let mut llama = gpt;
    llama.parallel.schedule = ScheduleKind::Interleaved { chunks: 2 };
    edit_gpt(&mut llama, |model| {
        model.family = GptFamily::Llama;
        (model.hidden, model.heads, model.kv_heads) = (64, 16, 8);
        model.mlp_hidden = 80;
    });
    assert!(settled_as_steps_find(&llama, &[1, 2, 4]).0 > 0);
}

#[test]
fn plain_operations_hold_the_bits_of_single_rows() {
    let model = Blueprint::new("residual", residual::Classifier::new)
        .column("point", &[2], vec![0.0f32; 2])
        .column("label", &[], vec![0u32]);
    let mut config = Config::new(model.into());
    (config.training.batch, config.training.micro_batches) = (8, 2);
    let (held, reasons) = settled_as_steps_find(&config, &[1, 2, 4]);
    assert!(held > 0 && !reasons.is_empty(), "{held} {reasons:?}");
    assert!(
        reasons
            .iter()
            .all(|reason| reason.contains("plain operations"))
    );
}

/// A chain of layers that all use one weight.
struct Shared(Vec<nn::Linear>);

impl Shared {
    fn new(builder: &nn::Builder, layers: usize) -> Result<Shared> {
        let first = builder.linear("shared", 16, 16)?;
        let share = |segment: usize| {
            let parameters = builder.parameters();
            parameters
                .iter()
                .for_each(|parameter| parameter.share_with(segment));
            first.clone()
        };
        Ok(Shared((0..layers).map(share).collect()))
    }
}

impl Model for Shared {
    fn num_segments(&self) -> usize {
        self.0.len()
    }

    fn forward(&self, segment: usize, input: &Input<'_>, mut wires: Wires) -> Result<Wires> {
        let x = match segment {
            0 => input.activation("x")?,
            _ => wires.take("x")?,
        };
        Ok(Wires::of(
            "x",
            self.0[segment].forward(&x.whole("a layer")?)?,
        ))
    }

    fn objective(&self, _: &Input<'_>, mut wires: Wires) -> Result<Loss> {
        Loss::mean(&wires.take("x")?.square()?)
    }
}

#[test]
fn a_weight_holds_the_bits_of_two_uses_over_stages() {
    for (layers, is_refused) in [(2, false), (3, true)] {
        let build = move |builder: &nn::Builder| Shared::new(builder, layers);
        let model = Blueprint::new("shared", build).column("x", &[16], vec![0.0f32; 16]);
        let mut config = Config::new(model.into());
        (config.training.batch, config.training.micro_batches) = (16, 2);
        let grids = ["pipeline=2", "pipeline=2,data=2"].map(|grid| grid.parse().unwrap());
        for grid in grids {
            let mut config = on(&config, grid);
            let refused = refused_by_a_step(&config);
            assert_eq!(
                refused.is_some(),
                is_refused,
                "{layers} on {grid}: {refused:?}"
            );
            let reason = settle_bits(&mut config, &cpu(), None).unwrap();
            assert_eq!(reason.is_some(), is_refused);
            assert_eq!(
                config.training.reproducible,
                if is_refused { RUN } else { GRID }
            );
            if let Some(reason) = reason {
                assert!(reason.contains("2 stages"), "{reason}");
            }
        }
    }
}

#[test]
fn short_rows_hold_the_bits_where_every_rank_has_leaves() {
    // Rows of one vector: leaves of several rows, which 3 ranks or micro-batches of 5 rows cut.
    let build = |builder: &nn::Builder| Shared::new(builder, 1);
    let model = Blueprint::new("rows", build).column("x", &[16], vec![0.0f32; 16]);
    for (batch, micro_batches) in [(32, 1), (32, 2), (20, 1), (22, 2), (13, 1)] {
        let mut config = Config::new(model.clone().into());
        (config.training.batch, config.training.micro_batches) = (batch, micro_batches);
        settled_as_steps_find(&config, &[1, 2, 3, 4]);
    }
}

#[test]
fn other_devices_have_the_bits_of_the_grid() {
    let mut config = on(&testkit::config(Precision::F32), Degrees::default());
    let other = Capabilities {
        canonical_sums: false,
        description: "a GPU".into(),
        ..cpu()
    };
    let reason = settle_bits(&mut config, &other, None).unwrap();
    assert_eq!(config.training.reproducible, RUN);
    assert_eq!(reason.unwrap(), "a GPU adds in an order of its own");
    config.training.reproducible = GRID;
    let refused = settle_bits(&mut config, &other, None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "training.reproducible: found \"grid\" on grid x=1,y=1,z=1,data=1,pipeline=1, needs another grid or device, or \
         \"run\", with which the bits depend on the grid (a GPU adds in an order of its own)"
    );
}

struct Tokens(Config);

impl Batches for Tokens {
    fn training(&self, step: u64, rows: Range<usize>) -> train::Result<Rows> {
        let context = testkit::gpt(&self.0).context;
        Ok(testkit::fixed_tokens(&self.0, step, rows).into_rows(context))
    }
}

fn run_to(config: &Config, steps: u64, dir: &Path, from: Option<&Summary>) -> Summary {
    let mut config = config.clone();
    (config.training.steps, config.training.checkpoint_every) = (steps, 1);
    let data = Arc::new(Tokens(config.clone()));
    let this = Run {
        resume: from.map(|from| Resume {
            checkpoint: from.checkpoint.clone().unwrap(),
            any_change: false,
        }),
        ..testkit::new_run(config, data, dir)
    };
    testkit::ran(&this).unwrap().swap_remove(0)
}

#[test]
fn a_resumed_run_keeps_what_its_checkpoint_used() {
    let mut config = testkit::config(Precision::F32);
    edit_gpt(&mut config, |model| (model.hidden, model.heads) = (36, 12));
    let one = on(&config, Degrees::default());
    let four = on(&config, "x=4".parse().unwrap());
    let recorded = |dir: &Path| fs::read_to_string(dir.join("config.toml")).unwrap();

    // What a run settles is in its folder and its checkpoints.
    let held = tempfile::tempdir().unwrap();
    let summary = run_to(&one, 1, held.path(), None);
    assert!(recorded(held.path()).contains("reproducible = \"grid\""));
    let reader = train::checkpoint::Reader::open(held.path()).unwrap();
    let refused = settle_bits(&mut four.clone(), &cpu(), Some(&reader)).unwrap_err();
    let sentence = refused.to_string();
    assert!(
        sentence.starts_with("training.reproducible: found \"grid\" on grid x=4"),
        "{sentence}"
    );
    let dir = held.path();
    run_to(&one, 2, dir, Some(&summary));
    assert!(recorded(dir).contains("reproducible = \"grid\""));

    // A run that could not hold them does not begin to hold them when it is resumed.
    let other = tempfile::tempdir().unwrap();
    let summary = run_to(&four, 1, other.path(), None);
    assert!(recorded(other.path()).contains("reproducible = \"run\""));
    run_to(&one, 2, other.path(), Some(&summary));
    assert!(recorded(other.path()).contains("reproducible = \"run\""));
}
