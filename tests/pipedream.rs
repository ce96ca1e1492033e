//! PipeDream-2BW: every grid has the bits of a serial loop whose gradients belong to the weights of one update before.

use grid::{AxisOrder, Grid};
use nn::{Builder, Linear};
use parallel::{
    Context, Input, Model, Parameter, Reproducible, Route, Settings, Wires,
    data::{Part, Sharding, UpdateRule},
    layers::Loss,
    pipeline::ScheduleKind,
};
use std::{collections::BTreeMap, ops::Range, path::Path};
use testkit::{announced_steps, config, edit_gpt, fixed_tokens, gpt, on, ranks, stored};
use train::{
    Config, Error, Trainer,
    batches::Rows,
    config::{OptimiserKind, PlaceKind, Precision},
    optimiser::{Sgd, UpdateCall},
    trainer::{Options, StepDone},
};

const STEPS: u64 = 6;

type Weights = BTreeMap<String, Vec<f64>>;

/// Losses, norms, and the weights of both versions.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    losses: Vec<f64>,
    norms: Vec<f64>,
    latest: Weights,
    previous: Weights,
}

fn configured(precision: Precision, optimiser: OptimiserKind) -> Config {
    let mut config = config(precision);
    config.training.reproducible = Reproducible::Grid.into();
    config.training.optimiser = optimiser;
    config.training.steps = STEPS;
    config.training.micro_batches = 4;
    edit_gpt(&mut config, |model| model.dropout = 0.1);
    config
}

fn weights(trainer: &Trainer) -> train::Result<Weights> {
    let mut all = Weights::new();
    trainer
        .parameters()
        .read::<Error>(Part::Weights, |parameter, values| {
            all.insert(parameter.name().to_owned(), values);
            Ok(())
        })?;
    Ok(all)
}

fn set(trainer: &Trainer, weights: &Weights) -> train::Result<()> {
    let set = trainer.parameters();
    set.write::<Error>(Part::Weights, |parameter| {
        Ok(weights[parameter.name()].clone())
    })?;
    Ok(())
}

// One rank, and no pipeline: w(t+1) = w(t) - update(gradient of batch t at w(t-1)).
fn serial(config: &Config) -> Run {
    let mut config = on(config, "x=1".parse().unwrap());
    config.parallel.schedule = Default::default();
    let mut results = ranks(1, move |world, device| {
        let context = config.context(&world, &device)?;
        let trainer = config.trainer(&context)?;
        let optimiser = config.training.optimiser();
        let mut latest = weights(&trainer)?;
        let mut previous = latest.clone();
        let (mut losses, mut norms) = (Vec::new(), Vec::new());
        for step in 0..STEPS {
            set(&trainer, &previous)?;
            let tokens =
                |range| Ok(fixed_tokens(&config, step, range).into_rows(gpt(&config).context));
            let computed = trainer.gradients(&trainer.batch_of(step, tokens)?)?;
            set(&trainer, &latest)?;
            let sum = computed.gradients.sum_squares()?;
            let max_norm = Some(config.training.clip_norm);
            let factor = tensor::ops::optimiser::clip_scale(&sum, max_norm, 1.0)?;
            losses.push(computed.loss.item()?);
            norms.push(factor.rows(1, 1)?.item()?);
            let rule = |parameter: &Parameter| UpdateRule {
                rate_factor: 1.0,
                weight_decay: match parameter.decays() {
                    true => optimiser.weight_decay(),
                    false => 0.0,
                },
            };
            computed
                .gradients
                .update::<Error>(&factor, rule, |rate_factor, factor, pieces| {
                    Ok(optimiser.update(&UpdateCall {
                        device: &device,
                        pieces,
                        factor,
                        rate: optimiser.rate(step) * rate_factor,
                        number: step + 1,
                    })?)
                })?;
            previous = std::mem::replace(&mut latest, weights(&trainer)?);
        }
        Ok(Run {
            losses,
            norms,
            latest,
            previous,
        })
    });
    results.remove(0)
}

/// Runs these steps with the schedule, announced one ahead or not, between two checkpoints.
fn steps(
    config: &Config,
    steps: Range<u64>,
    announces: bool,
    [resume, save]: [Option<&Path>; 2],
) -> (Vec<f64>, Vec<f64>) {
    let mut config = config.clone();
    config.parallel.schedule = "pipedream-2bw".parse().unwrap();
    let [resume, save] = [resume, save].map(|path| path.map(Path::to_owned));
    let grid = config.grid().unwrap();
    let mut results = ranks(grid.world_size(), move |world, device| {
        let context = config.context(&world, &device)?;
        let mut trainer = config.trainer(&context)?;
        let context = gpt(&config).context;
        let shared = config.clone();
        let data = move |step: u64, rows: Range<usize>| {
            Ok(fixed_tokens(&shared, step, rows).into_rows(context))
        };
        let between = [resume.as_deref(), save.as_deref()];
        let (losses, norms) =
            announced_steps(&mut trainer, &data, (steps.clone(), announces), between)?;
        Ok((losses, norms))
    });
    results.remove(0)
}

fn run(config: &Config, announces: bool) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let (losses, norms) = steps(config, 0..STEPS, announces, [None, Some(dir.path())]);
    Run {
        losses,
        norms,
        latest: stored(dir.path(), "weights/"),
        previous: stored(dir.path(), "previous/"),
    }
}

#[test]
fn every_grid_has_the_bits_of_a_serial_loop_with_delayed_gradients() {
    let config = configured(Precision::F32, OptimiserKind::AdamW);
    let expected = serial(&config);
    assert_ne!(expected.latest, expected.previous);
    assert!(
        expected
            .norms
            .iter()
            .any(|norm| *norm > config.training.clip_norm)
    );
    for grid in [
        "pipeline=1",
        "pipeline=2",
        "pipeline=3",
        "pipeline=4",
        "x=2,pipeline=2",
        "z=2,pipeline=3",
        "data=2,pipeline=4",
        "x=2,data=2,pipeline=2",
        "y=2,context=2,pipeline=2",
    ] {
        let found = run(&on(&config, grid.parse().unwrap()), true);
        assert!(
            found == expected,
            "{grid}: {:?}, not {:?}",
            found.losses,
            expected.losses
        );
    }
}

#[test]
fn that_holds_for_other_optimisers_precisions_shards_and_recomputation() {
    for (precision, optimiser) in [
        (Precision::F64, OptimiserKind::Sgd),
        (Precision::F32, OptimiserKind::Lion),
        (Precision::Bf16, OptimiserKind::AdamW),
    ] {
        let mut config = configured(precision, optimiser);
        let mut expected = serial(&config);
        config.training.recompute = true.into();
        for (grid, sharding) in [
            ("data=2,pipeline=2", Sharding::Optimiser),
            ("data=2,pipeline=2", Sharding::Gradients),
            ("pipeline=4", Sharding::None),
        ] {
            config.parallel.sharding = sharding;
            let found = run(&on(&config, grid.parse().unwrap()), true);
            if precision == Precision::Bf16 {
                // The version that is read no more is kept in the type of activations alone.
                expected.previous.clone_from(&found.previous);
            }
            assert!(
                found == expected,
                "{grid}, {precision:?}, {optimiser:?}, {sharding:?}"
            );
        }
    }
}

// Their updates exchange among the ranks that share a matrix or a block.
#[test]
fn optimisers_that_look_at_whole_matrices_have_the_same_bits_on_every_grid() {
    for optimiser in [
        OptimiserKind::Muon,
        OptimiserKind::Adafactor,
        OptimiserKind::AdamW8bit,
    ] {
        let config = configured(Precision::F32, optimiser);
        let expected = run(&on(&config, "pipeline=1".parse().unwrap()), false);
        for grid in ["pipeline=3", "x=2,data=2,pipeline=2"] {
            let found = run(&on(&config, grid.parse().unwrap()), true);
            assert!(found == expected, "{grid}, {optimiser:?}");
        }
    }
}

#[test]
fn state_and_activations_may_be_beyond_the_device() {
    for (grid, sharding) in [
        ("pipeline=4", Sharding::None),
        ("data=2,pipeline=2", Sharding::Gradients),
    ] {
        let mut config = configured(Precision::F32, OptimiserKind::AdamW);
        config.parallel.sharding = sharding;
        let mut config = on(&config, grid.parse().unwrap());
        let expected = run(&config, true);
        config.placement.optimiser = PlaceKind::Host;
        config.placement.activations = PlaceKind::Host.into();
        assert!(run(&config, true) == expected, "{grid}");
    }
}

#[test]
fn no_number_depends_on_whether_the_next_batch_is_known() {
    let config = configured(Precision::F32, OptimiserKind::Muon);
    let config = on(&config, "x=2,pipeline=4".parse().unwrap());
    assert_eq!(run(&config, true), run(&config, false));
}

#[test]
fn a_run_resumed_on_another_grid_has_the_same_bits() {
    let config = configured(Precision::F32, OptimiserKind::AdamW);
    let expected = serial(&config);
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |grid: &str| on(&config, grid.parse().unwrap());
    let (begun, _) = steps(&at("pipeline=4"), 0..3, true, [None, Some(first.path())]);
    let paths = [Some(first.path()), Some(second.path())];
    let (ended, _) = steps(&at("z=2,pipeline=2"), 3..STEPS, true, paths);
    assert_eq!([begun, ended].concat(), expected.losses);
    assert_eq!(stored(second.path(), "weights/"), expected.latest);
    assert_eq!(stored(second.path(), "previous/"), expected.previous);
}

// Two versions of weights; of gradients where backwards are run ahead, which they are not on the first two stages.
#[test]
fn the_memory_is_that_of_1f1b_and_a_second_version() {
    let config = configured(Precision::F32, OptimiserKind::AdamW);
    let config = on(&config, "pipeline=4".parse().unwrap());
    let held = |schedule: &str| {
        let mut config = config.clone();
        config.parallel.schedule = schedule.parse().unwrap();
        ranks(4, move |world, device| {
            let context = config.context(&world, &device)?;
            let trainer = config.trainer(&context)?;
            let numbers = trainer.parameters().parameters().iter();
            let numbers = numbers.map(Parameter::num_elements).sum::<usize>();
            let by_kind = device.memory_use().by_kind;
            let kinds = [
                tensor::MemoryKind::Weights,
                tensor::MemoryKind::Gradients,
                tensor::MemoryKind::Optimiser,
            ];
            Ok((numbers, kinds.map(|kind| by_kind[kind as usize].in_use)))
        })
    };
    let both = held("1f1b").into_iter().zip(held("pipedream-2bw"));
    for (stage, ((numbers, flushed), (_, overlapped))) in both.enumerate() {
        assert!(flushed[0] >= 4 * numbers);
        let [weights, gradients, optimiser] = flushed;
        let versions = if stage < 2 { 1 } else { 2 };
        assert_eq!(overlapped, [2 * weights, versions * gradients, optimiser]);
    }
}

#[test]
fn what_it_cannot_run_is_refused_in_one_sentence() {
    let refused = |change: fn(&mut Config)| {
        let mut config = configured(Precision::F32, OptimiserKind::AdamW);
        config.parallel.schedule = "pipedream-2bw".parse().unwrap();
        config.parallel.grid = "pipeline=4".parse().unwrap();
        change(&mut config);
        let check = config.check();
        let ranks = config.grid().unwrap().world_size();
        match check {
            Err(error) => error.to_string(),
            Ok(()) => testkit::try_ranks(ranks, move |world, device| {
                config.trainer(&config.context(&world, &device)?).map(drop)
            })
            .unwrap_err()
            .to_string(),
        }
    };
    let text = refused(|config| config.training.micro_batches = 2);
    assert!(
        text.contains("at least as many micro-batches as stages"),
        "{text}"
    );
    let text = refused(|config| config.training.precision = Precision::F16);
    assert!(
        text.contains("found f16 with schedule pipedream-2bw, needs f64, f32 or bf16"),
        "{text}"
    );
}

// What a segment returns in forward is seen in the step to which it belongs, though stages begin steps early.
#[test]
fn digests_of_steps_are_those_of_one_stage() {
    let mut config = configured(Precision::F32, OptimiserKind::AdamW);
    config.training.digest_every = 2;
    config.parallel.schedule = "pipedream-2bw".parse().unwrap();
    let digests = |grid: &str| {
        let config = on(&config, grid.parse().unwrap());
        let ranks = ranks(config.grid().unwrap().world_size(), move |world, device| {
            let mut trainer = config.trainer(&config.context(&world, &device)?)?;
            let (shared, context) = (config.clone(), gpt(&config).context);
            let data = move |step: u64, rows: Range<usize>| {
                Ok(fixed_tokens(&shared, step, rows).into_rows(context))
            };
            let mut seen = Vec::new();
            trainer.fit(&data, STEPS, &mut |trainer: &mut Trainer, _: &StepDone| {
                seen.extend(
                    trainer
                        .digest()
                        .map(|digest| (digest.step, digest.digest.clone())),
                );
                Ok(())
            })?;
            Ok(seen)
        });
        ranks.into_iter().next().unwrap()
    };
    let expected = digests("pipeline=1");
    assert_eq!(expected.len(), 3);
    for grid in ["pipeline=4", "z=2,pipeline=2"] {
        assert_eq!(digests(grid), expected, "{grid}");
    }
}

/// The first features skip to the third segment and to the head.
struct Skips {
    layers: [Linear; 4],
}

impl Skips {
    fn new(builder: &Builder) -> parallel::Result<Skips> {
        let layer = |segment: usize, outputs: usize| {
            let builder = builder.segment(segment);
            builder.linear_transposed(&format!("layer{segment}"), 8, outputs)
        };
        Ok(Skips {
            layers: [layer(0, 8)?, layer(1, 8)?, layer(2, 8)?, layer(3, 2)?],
        })
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

    fn forward(
        &self,
        segment: usize,
        input: &Input<'_>,
        mut wires: Wires,
    ) -> parallel::Result<Wires> {
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

// Between two steps, messages that skip stages are received too, or the evaluation would meet them.
#[test]
fn skips_over_stages_are_received_before_an_evaluation() {
    let losses = |stages: usize| {
        let mut results = ranks(stages, move |world, device| {
            let grid = Grid::new(format!("pipeline={stages}").parse()?, AxisOrder::default())?;
            let context = Context::new(world, grid, device, Settings::default())?;
            let schedule = ScheduleKind::PipeDream2Bw;
            let options = Options::new(8, 4)
                .precision(Precision::F64)
                .schedule(schedule);
            let mut trainer = Trainer::new(
                &context,
                Skips::new,
                Sgd {
                    momentum: 0.5,
                    ..Sgd::new(0.1)
                },
                options,
            )?;
            let data = |step: u64, rows: Range<usize>| {
                let features =
                    rows.flat_map(|row| (0..8).map(move |place| (row * 8 + place) as f64));
                let features: Vec<f64> = features
                    .map(|number| (step as f64 + number * 0.7).sin())
                    .collect();
                Ok(Rows::new().with("features", &[8], features))
            };
            let mut losses = Vec::new();
            trainer.fit(
                &data,
                STEPS,
                &mut |trainer: &mut Trainer, done: &StepDone| {
                    let other = trainer.batch_of(0, |rows| data(99, rows))?;
                    losses.extend([done.result.loss, trainer.loss(&other)?]);
                    Ok(())
                },
            )?;
            Ok(losses)
        });
        results.remove(0)
    };
    let expected = losses(1);
    for stages in [2, 3, 4] {
        let found = losses(stages);
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(
            found.iter().zip(&expected).all(near),
            "{stages}: {found:?}, not {expected:?}"
        );
    }
}
