//! Frozen weights that are stored as codes: on every grid the numbers of a serial run over the weights for which the codes stand,
//! and memory and traffic by formula.

use families::GptFamily;
use grid::{Axis, Degrees};
use parallel::{
    Operation, Quantised,
    counters::Subject,
    data::{Part, Sharding},
};
use std::path::Path;
use tensor::MemoryKind;
use testkit::{config, difference, edit_gpt, fixed_batch, gpt, grids, on, ranks, serial, train};
use train::{
    Config,
    checkpoint::{Reader, Retention},
    config::{FrozenWeights, PlaceKind, Precision},
    data::Tokenizer,
    generate::{Generator, GeneratorOptions, Request, described, load, text},
    trainer::Attached,
};

// Rows of 40 and 48 weights, which axes cut within blocks of 64.
fn quantised(family: GptFamily, frozen_weights: FrozenWeights) -> Config {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.family = family);
    config.tuning.frozen_weights = frozen_weights;
    config.tuning.adapter_rank = 6;
    config.tuning.adapter_targets = vec!["attention.*".into(), "mlp.*".into()];
    config.training.steps = 4;
    config
}

fn check_all(config: &Config) {
    let expected = serial(config);
    for grid in grids(&[1, 2, 4, 8]) {
        let found = train(&on(config, grid));
        let difference = difference(&found, &expected);
        assert!(difference.largest() <= 1e-9, "grid {grid}: {difference}");
    }
}

#[test]
fn gpt2_of_8_bits_on_every_grid() {
    check_all(&quantised(GptFamily::Gpt2, FrozenWeights::Int8));
}

#[test]
fn llama_of_4_bits_with_sharded_state_on_every_grid() {
    let mut config = quantised(GptFamily::Llama, FrozenWeights::Nf4);
    config.parallel.sharding = Sharding::Gradients;
    config.tuning.adapter_decomposed = true;
    check_all(&config);
}

// Forwards that run again, and codes that are on the device only while a layer needs them.
#[test]
fn codes_beyond_the_device_on_every_grid() {
    let mut config = quantised(GptFamily::Llama, FrozenWeights::Nf4);
    config.training.recompute = true.into();
    config.parallel.sequence_parallel = true;
    config.placement.weights = PlaceKind::Host;
    check_all(&config);
}

#[test]
fn codes_of_several_versions_of_the_weights() {
    let mut config = quantised(GptFamily::Gpt2, FrozenWeights::Int8);
    config.parallel.schedule = "pipedream-2bw".parse().unwrap();
    config.parallel.grid = "pipeline=2".parse().unwrap();
    let expected = train(&config);
    for grid in ["z=2,pipeline=2", "x=2,pipeline=2", "y=2,data=2,pipeline=2"] {
        let found = train(&on(&config, grid.parse().unwrap()));
        let difference = difference(&found, &expected);
        assert!(difference.largest() <= 1e-9, "grid {grid}: {difference}");
    }
}

#[test]
fn the_same_bits_on_every_grid() {
    let mut config = quantised(GptFamily::Llama, FrozenWeights::Nf4);
    config.training.precision = Precision::F32;
    config.training.reproducible = parallel::Reproducible::Grid.into();
    let expected = serial(&config);
    for grid in ["x=2", "y=2,z=2", "z=2,data=2", "x=2,y=2,pipeline=2"] {
        let found = train(&on(&config, grid.parse().unwrap()));
        testkit::bits::check(&found, &expected, grid);
    }
}

// In f32, in which the products of shares and scales are exact: a run over codes, and one over what they stand for, which begins
// with its checkpoint. Both save the same weights.
#[test]
fn codes_stand_for_the_weights_of_their_checkpoint() {
    let temporary = tempfile::tempdir().unwrap();
    for (frozen_weights, format) in [
        (FrozenWeights::Int8, Quantised::Int8),
        (FrozenWeights::Nf4, Quantised::Nf4),
    ] {
        let mut config = quantised(GptFamily::Llama, frozen_weights);
        config.training.precision = Precision::F32;
        let dirs = ["before", "after", "plain"]
            .map(|name| temporary.path().join(format!("{format} {name}")));
        let run = |config: &Config, grid: &str, from: Option<usize>, to: usize, steps: u64| {
            let config = on(config, grid.parse().unwrap());
            let from = from.map(|from| dirs[from].clone());
            let to = dirs[to].clone();
            let losses = ranks(config.grid().unwrap().world_size(), move |world, device| {
                let mut trainer = config.trainer(&config.context(&world, &device)?)?;
                if let Some(from) = &from {
                    trainer.load_weights(&Reader::open(from)?, &[])?;
                }
                let step = |step| {
                    let batch = fixed_batch(&trainer, &config, step)?;
                    Ok(trainer.step(&batch)?.loss)
                };
                let losses: train::Result<Vec<f64>> = (0..steps).map(step).collect();
                let losses = losses?;
                trainer.save(&to)?;
                Ok(losses)
            });
            losses[0].clone()
        };
        run(&config, "x=1", None, 0, 0);
        let expected = run(&config, "x=2,z=2", Some(0), 1, 3);
        let mut plain = config.clone();
        plain.tuning.frozen_weights = FrozenWeights::Compute;
        assert_eq!(run(&plain, "x=2,z=2", Some(0), 2, 3), expected, "{format}");
        let [before, after, plain] = dirs.map(|dir| testkit::stored(&dir, "weights/"));
        assert_eq!(after, plain, "{format}");
        let frozen = "blocks.0.attention.query.weight";
        assert_eq!(before[frozen], after[frozen], "{format}");
    }
}

// Bytes of weights on the fullest rank, and those that it gathers in a step.
fn held(config: &Config, grid: &str) -> (usize, u64) {
    let config = on(config, grid.parse().unwrap());
    let results = ranks(config.grid().unwrap().world_size(), move |world, device| {
        let context = config.context(&world, &device)?;
        let mut trainer = config.trainer(&context)?;
        let held = device.memory_use().of(MemoryKind::Weights).in_use;
        trainer.step(&fixed_batch(&trainer, &config, 0)?)?;
        let gathered = context.counters();
        let gathered = gathered.get(Axis::Z, Operation::AllGather, Subject::Linear);
        Ok((held, gathered.bytes))
    });
    results[0]
}

// Sizes of which every cut keeps blocks whole.
#[test]
fn memory_and_traffic_by_formula() {
    for (frozen_weights, bits) in [(FrozenWeights::Int8, 8.5), (FrozenWeights::Nf4, 4.5)] {
        let mut config = quantised(GptFamily::Gpt2, frozen_weights);
        config.training.precision = Precision::F32;
        config.tuning.adapter_rank = 4;
        // Each weight by itself, in f32 of a size that blocks of memory have too.
        config.parallel.bucket_mib = 0;
        edit_gpt(&mut config, |model| {
            (model.hidden, model.heads, model.vocabulary) = (256, 4, 48);
        });
        let mut plain = config.clone();
        plain.tuning.frozen_weights = FrozenWeights::Compute;
        let layers = testkit::gpt(&config).layers;
        for (grid, ranks) in [("x=1", 1), ("x=2", 2), ("z=2", 2), ("x=2,y=2,z=2", 8)] {
            let (found, gathered) = held(&config, grid);
            let (all, gathered_plain) = held(&plain, grid);
            // Matrices of attention and MLP, of 32 and `bits` bits.
            let elements = 12 * 256 * 256 * layers;
            let saved = (elements / ranks) as f64 * (32.0 - bits) / 8.0;
            let needed = all as f64 - saved;
            // Memory is handed out in blocks that are up to an eighth longer.
            assert!(
                (needed..needed * 9.0 / 8.0 + 4096.0).contains(&(found as f64)),
                "{grid}: {found} bytes, needs {needed}"
            );
            if grid.contains("z=2") {
                // Forward and backward; no gradient goes through the first block's queries, keys and values to the frozen table.
                let gathered_weights = 2 * elements - 3 * 256 * 256;
                let of_blocks = config.training.micro_batches * gathered_weights / (ranks / 2);
                let saved = of_blocks as f64 * (32.0 - bits) / 8.0;
                assert_eq!((gathered_plain - gathered) as f64, saved, "{grid}");
                let formula = |config: &Config| {
                    let config = on(config, grid.parse().unwrap());
                    let all = train::placement::volumes(&config).unwrap();
                    let is_gather = |volume: &&train::placement::Volume| {
                        (volume.axis, volume.operation) == (Axis::Z, Operation::AllGather)
                    };
                    all.iter()
                        .filter(is_gather)
                        .map(|volume| volume.bytes)
                        .sum::<u64>()
                };
                assert_eq!(formula(&config), gathered, "{grid}");
                assert_eq!(formula(&plain), gathered_plain, "{grid}");
            }
        }
    }
}

#[test]
fn what_cannot_be_coded_is_refused() {
    let refusal = |edit: fn(&mut Config)| {
        let mut config = quantised(GptFamily::Gpt2, FrozenWeights::Nf4);
        edit(&mut config);
        config.check().unwrap_err().to_string()
    };
    let found = refusal(|config| config.tuning.adapter_rank = 0);
    assert!(
        found.contains("tuning.frozen_weights") && found.contains("nf4"),
        "{found}"
    );
    let config = quantised(GptFamily::Gpt2, FrozenWeights::Int8);
    let report = testkit::try_ranks(1, move |world, device| {
        let config = on(&config, Degrees::default());
        let trainer = config.trainer(&config.context(&world, &device)?)?;
        let set = trainer.parameters();
        set.write::<train::Error>(Part::Weights, |parameter| {
            Ok(vec![f64::NAN; parameter.num_elements()])
        })
    });
    let report = report.unwrap_err();
    assert!(report.contains("NaN, needs a number of int8"), "{report}");
}

// The texts of a run's checkpoint, token by token with its log-probability, and the bytes of weights on the fullest rank.
fn written(dir: &Path, grid: &str, stored_as: Option<FrozenWeights>) -> (Vec<(u32, f64)>, usize) {
    let (dir, grid): (_, Degrees) = (dir.to_owned(), grid.parse().unwrap());
    let results = ranks(grid.world_size().unwrap(), move |world, device| {
        let reader = Reader::open(&dir)?;
        let (mut config, tokenizer) = described(&reader, &families::families())?;
        config.parallel.grid = grid;
        let pipeline = load(&world, &device, &config, &reader, stored_as)?;
        let bytes = device.memory_use().of(MemoryKind::Weights).in_use;
        let options = GeneratorOptions::default();
        let mut generator = Generator::new(&pipeline, text(&config)?, &tokenizer, options)?;
        for first in [1, 2] {
            generator.add(Request {
                prompt: vec![first, 5, 9],
                tokens: 12,
                log_probabilities: Some(0),
                ..Request::default()
            })?;
        }
        let mut tokens = Vec::new();
        generator.run(|token| {
            tokens.push((token.token, token.log_probability.unwrap()));
            Ok(())
        })?;
        Ok((tokens, bytes))
    });
    let fullest = results.iter().map(|(_, bytes)| *bytes).max().unwrap();
    (results[0].0.clone(), fullest)
}

// Saves weights that begin as those of a checkpoint, as a model without codes or adapters beside `attached`.
fn save(config: &Config, from: Option<&Path>, to: &Path, attached: &Config) {
    let (config, from, to) = (config.clone(), from.map(Path::to_owned), to.to_owned());
    let attached = Attached {
        config: serde_json::to_value(attached).unwrap(),
        tokenizer: serde_json::to_value(Tokenizer::ids(gpt(&config).vocabulary)).unwrap(),
        ..Attached::default()
    };
    ranks(1, move |world, device| {
        let mut trainer = config.trainer(&config.context(&world, &device)?)?;
        if let Some(from) = &from {
            trainer.load_weights(&Reader::open(from)?, &[])?;
        }
        trainer.step(&fixed_batch(&trainer, &config, 0)?)?;
        trainer.save_with(&to, Retention::newest(1), &attached)
    });
}

// A model that was trained without codes generates over them what it would over the weights for which they stand.
#[test]
fn generators_read_codes() {
    let temporary = tempfile::tempdir().unwrap();
    let dirs = ["plain", "rounded"].map(|name| temporary.path().join(name));
    let [plain, rounded] = &dirs;
    let mut config = on(&testkit::config(Precision::F32), Degrees::default());
    edit_gpt(&mut config, |model| {
        model.family = GptFamily::Llama;
        model.tied_head = false;
        model.init_deviation = 0.3;
    });
    save(&config, None, plain, &config);
    let (tokens, bytes) = written(plain, "x=1", None);
    assert_eq!(
        written(plain, "x=1", Some(FrozenWeights::Compute)),
        (tokens.clone(), bytes)
    );
    for frozen_weights in [FrozenWeights::Int8, FrozenWeights::Nf4] {
        let mut coded = config.clone();
        coded.tuning.frozen = vec!["blocks.*".into()];
        coded.tuning.frozen_weights = frozen_weights;
        // Its rate is 0: a step changes nothing that is not frozen either.
        coded.training.learning_rate = 0.0;
        save(&coded, Some(plain), rounded, &config);
        let (expected, _) = written(rounded, "x=1", None);
        assert_ne!(expected, tokens, "{frozen_weights:?}");
        let (found, held) = written(plain, "x=1", Some(frozen_weights));
        assert_eq!(found, expected, "{frozen_weights:?}");
        assert!(held * 2 < bytes, "{held} of {bytes} bytes");
        for grid in ["x=2", "z=2", "y=2,pipeline=2"] {
            let (found, _) = written(plain, grid, Some(frozen_weights));
            let ids =
                |tokens: &[(u32, f64)]| tokens.iter().map(|token| token.0).collect::<Vec<_>>();
            assert_eq!(ids(&found), ids(&expected), "{frozen_weights:?} on {grid}");
        }
    }
}

// Adapters stay as they are beside codes; lengths of columns are folded into weights that are rounded.
#[test]
fn generators_of_adapted_models_read_codes() {
    let temporary = tempfile::tempdir().unwrap();
    for decomposed in [false, true] {
        let mut config = on(
            &quantised(GptFamily::Llama, FrozenWeights::Compute),
            Degrees::default(),
        );
        config.training.precision = Precision::F32;
        config.tuning.adapter_decomposed = decomposed;
        let dir = temporary.path().join(decomposed.to_string());
        save(&config, None, &dir, &config);
        let (_, bytes) = written(&dir, "x=1", None);
        let (expected, held) = written(&dir, "x=1", Some(FrozenWeights::Nf4));
        assert!(held < bytes, "{held} of {bytes} bytes");
        let (found, _) = written(&dir, "x=2,z=2", Some(FrozenWeights::Nf4));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.0, expected.0);
            assert!(
                (found.1 - expected.1).abs() < 1e-4,
                "{found:?} {expected:?}"
            );
        }
    }
}
