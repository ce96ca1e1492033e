//! Frozen parameters and adapters: the serial program's numbers on every grid, and nothing held or sent for what is not trained.

use families::GptFamily;
use parallel::{data::Sharding, pipeline::ScheduleKind};
use tensor::MemoryKind;
use testkit::{config, difference, edit_gpt, fixed_batch, gpt, grids, on, ranks, serial, train};
use train::{
    Config, Error,
    checkpoint::Reader,
    config::{PlaceKind, Precision},
    data::Tokenizer,
    foreign::{ExportOptions, ForeignModel, Merged, export},
    generate::described,
    trainer::{Attached, Weights},
};

// Every kind of layer that can be adapted has one, of a rank that no axis of four ranks divides.
fn adapted(family: GptFamily) -> Config {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.family = family);
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
fn adapters_of_gpt2_on_every_grid() {
    check_all(&adapted(GptFamily::Gpt2));
}

#[test]
fn adapters_of_llama_with_sharded_state_on_every_grid() {
    let mut config = adapted(GptFamily::Llama);
    config.parallel.sharding = Sharding::Gradients;
    config.tuning.adapter_stabilised = true;
    config.tuning.adapter_trained = vec!["*norm*.gain".into()];
    check_all(&config);
}

// With biases, which no length scales and of which some are trained.
#[test]
fn decomposed_adapters_of_gpt2_on_every_grid() {
    let mut config = adapted(GptFamily::Gpt2);
    config.tuning.adapter_decomposed = true;
    config.tuning.adapter_trained = vec!["mlp.*.bias".into()];
    check_all(&config);
}

#[test]
fn decomposed_adapters_of_llama_with_sharded_state_on_every_grid() {
    let mut config = adapted(GptFamily::Llama);
    config.tuning.adapter_decomposed = true;
    config.parallel.sharding = Sharding::Gradients;
    check_all(&config);
}

// Vectors that X spreads, forwards that run again, and weights that are on the device only while a layer needs them.
#[test]
fn decomposed_adapters_of_weights_beyond_the_device_on_every_grid() {
    let mut config = adapted(GptFamily::Gpt2);
    config.tuning.adapter_decomposed = true;
    config.training.recompute = true.into();
    config.parallel.sequence_parallel = true;
    config.placement.weights = PlaceKind::Host;
    check_all(&config);
}

#[test]
fn frozen_blocks_on_every_grid() {
    let mut config = config(Precision::F64);
    config.training.steps = 4;
    config.tuning.frozen = vec!["embedding.*".into(), "blocks.0.*".into()];
    check_all(&config);
}

// Stages that train nothing, and no gradient comes back to them.
#[test]
fn frozen_stages_under_every_schedule() {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| {
        (model.layers, model.tied_head) = (8, false)
    });
    config.training.batch = 8;
    config.training.micro_batches = 4;
    config.training.steps = 3;
    let blocks = (0..5).map(|block| format!("blocks.{block}.*"));
    config.tuning.frozen = ["embedding.*".to_owned()]
        .into_iter()
        .chain(blocks)
        .collect();
    let expected = serial(&config);
    let schedules = testkit::SCHEDULES
        .iter()
        .chain(&["pipedream", "pipedream-2bw"]);
    for (name, grid) in schedules.flat_map(|name| {
        ["pipeline=2", "x=2,pipeline=2", "z=2,pipeline=4"].map(|grid| (name, grid))
    }) {
        let schedule: ScheduleKind = name.parse().unwrap();
        // Its weights change in each micro-batch.
        let is_exact = !schedule.updates_each_micro_batch() && !name.contains("2bw");
        for recompute in [false, true] {
            let mut config = on(&config, grid.parse().unwrap());
            config.parallel.schedule = schedule;
            config.training.recompute = recompute.into();
            let found = train(&config);
            let difference = difference(&found, &expected);
            let what = format!("{name} on {grid}, recomputed: {recompute}: {difference}");
            assert!(!is_exact || difference.largest() <= 1e-9, "{what}");
            let is_finite = found.losses.iter().all(|loss| loss.is_finite());
            assert!(is_finite && found.losses[2] < found.losses[0], "{what}");
        }
    }
}

// What each kind of memory holds on one rank, and the numbers of all parameters and of the trained ones.
fn held(config: &Config) -> ([usize; 2], [usize; 2]) {
    let config = on(config, grid::Degrees::default());
    let results = ranks(1, move |world, device| {
        let context = config.context(&world, &device)?;
        let trainer = config.trainer(&context)?;
        let used = device.memory_use();
        let bytes = [MemoryKind::Gradients, MemoryKind::Optimiser].map(|kind| used.of(kind).peak);
        let elements = |trained: bool| -> usize {
            let all = trainer.parameters().parameters().iter();
            let counted = all.filter(|parameter| !trained || !parameter.is_frozen());
            counted.map(|parameter| parameter.num_elements()).sum()
        };
        Ok((bytes, [elements(false), elements(true)]))
    });
    results[0]
}

#[test]
fn only_what_is_trained_has_gradients_and_state() {
    let mut config = adapted(GptFamily::Llama);
    edit_gpt(&mut config, |model| model.hidden = 256);
    let numbers = [false, true].map(|decomposed| {
        config.tuning.adapter_decomposed = decomposed;
        let ([gradients, state], [all, trained]) = held(&config);
        assert!(trained * 5 < all, "{trained} of {all}");
        // In f64, two moments. Buckets are padded, and memory is handed out in blocks.
        for (found, needed) in [(gradients, 8 * trained), (state, 16 * trained)] {
            assert!(
                (needed..needed + needed / 8 + (1 << 12)).contains(&found),
                "{found} bytes, needs {needed}"
            );
        }
        trained
    });
    // A length for each output of an adapted layer: queries, keys, values, output, gate, up and down.
    let model = gpt(&config);
    let of_attention = model.query_width() + 2 * model.key_width() + model.hidden;
    let of_block = of_attention + 2 * model.mlp_hidden() + model.hidden;
    assert_eq!(numbers[1] - numbers[0], model.layers * of_block);
}

/// The refusal of a run with decomposed adapters that continues, or begins with, a checkpoint of others.
#[test]
fn lengths_that_a_checkpoint_lacks_are_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().to_owned();
    let mut config = on(&adapted(GptFamily::Llama), grid::Degrees::default());
    config.training.steps = 1;
    let (shared, to) = (config.clone(), dir.clone());
    ranks(1, move |world, device| {
        let mut trainer = shared.trainer(&shared.context(&world, &device)?)?;
        trainer.step(&fixed_batch(&trainer, &shared, 0)?)?;
        trainer.save(&to)?;
        Ok(())
    });
    config.tuning.adapter_decomposed = true;
    for begins in [false, true] {
        let (config, dir) = (config.clone(), dir.clone());
        let report = testkit::try_ranks(1, move |world, device| {
            let mut trainer = config.trainer(&config.context(&world, &device)?)?;
            match begins {
                true => trainer.load_weights(&Reader::open(&dir)?, &[]),
                false => trainer.resume(&dir),
            }
        });
        let report = report.unwrap_err();
        let name = "blocks.0.attention.query.lora_magnitude";
        assert!(report.contains(name), "begins {begins}: {report}");
    }
}

#[test]
fn a_pattern_that_selects_nothing_is_refused() {
    let refusal = |edit: &dyn Fn(&mut Config)| {
        let mut config = config(Precision::F32);
        edit(&mut config);
        let report = testkit::try_ranks(1, move |world, device| {
            let config = on(&config, grid::Degrees::default());
            config.trainer(&config.context(&world, &device)?).map(drop)
        });
        report.unwrap_err()
    };
    let found = refusal(&|config| config.tuning.frozen = vec!["blocks.7.*".into()]);
    assert!(
        found.contains("tuning: the pattern `blocks.7.*`, which selects nothing"),
        "{found}"
    );
    let found = refusal(&|config| {
        config.tuning.adapter_rank = 2;
        config.tuning.adapter_targets = vec!["q_proj".into()];
    });
    assert!(
        found.contains("tuning: the pattern `q_proj`, which selects nothing"),
        "{found}"
    );
}

#[test]
fn merged_equals_unmerged() {
    check_merged(false);
}

#[test]
fn merged_equals_unmerged_where_lengths_are_trained() {
    check_merged(true);
}

// Bytes of the tensors in a checkpoint's files of one kind.
fn payload(checkpoint: &std::path::Path, kind: &str) -> u64 {
    let files = std::fs::read_dir(checkpoint)
        .unwrap()
        .map(|file| file.unwrap());
    let of_kind = files.filter(|file| file.file_name().to_string_lossy().starts_with(kind));
    let payload = |file: std::fs::DirEntry| {
        let bytes = std::fs::read(file.path()).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        bytes.len() as u64 - 8 - header
    };
    of_kind.map(payload).sum()
}

// In f64 and with AdamW: 8 bytes of each frozen weight, once, and 24 of each trained one.
#[test]
fn checkpoints_are_as_large_as_the_formulas_say() {
    for (grid, decomposed) in [
        ("x=1", false),
        ("x=2,y=2", true),
        ("z=2,data=2,pipeline=2", false),
    ] {
        let mut config = adapted(GptFamily::Llama);
        config.tuning.adapter_decomposed = decomposed;
        config.parallel.grid = grid.parse().unwrap();
        let (_, [all, trained]) = held(&config);
        let temporary = tempfile::tempdir().unwrap();
        let (shared, to) = (config.clone(), temporary.path().to_owned());
        ranks(config.grid().unwrap().world_size(), move |world, device| {
            let context = shared.context(&world, &device)?;
            let mut trainer = shared.trainer(&context)?;
            for step in 0..2 {
                trainer.step(&fixed_batch(&trainer, &shared, step)?)?;
                let kept = train::checkpoint::Retention::newest(2);
                trainer.save_with(&to, kept, &Attached::default())?;
            }
            Ok(())
        });
        let mut checkpoints = 0;
        for entry in std::fs::read_dir(temporary.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.join("manifest.json").exists() {
                checkpoints += 1;
                let found = ["shard-", "frozen-"].map(|kind| payload(&path, kind));
                let needed = [24 * trained, 8 * (all - trained)].map(|bytes| bytes as u64);
                assert_eq!(found, needed, "{grid}");
            }
        }
        assert_eq!(checkpoints, 2, "{grid}");
    }
}

// Trains adapters over the weights of a folder, and compares the losses of the adapted model with those of the folder that its
// checkpoint is exported to.
fn check_merged(decomposed: bool) {
    for name in ["gpt2", "llama3", "qwen2", "qwen3", "gemma3", "gpt_neox"] {
        let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(name);
        let open = |path: &std::path::Path| {
            ForeignModel::open(path, &families::families(), Ok::<_, Error>).unwrap()
        };
        let foreign = open(&fixture);
        let temporary = tempfile::tempdir().unwrap();
        let mut config = Config::new(foreign.model.clone());
        config.training.precision = Precision::F64;
        config.training.warmup_steps = 0;
        config.training.batch = 2;
        config.training.micro_batches = 1;
        config.tuning.adapter_rank = 4;
        config.tuning.adapter_decomposed = decomposed;
        config.tuning.adapter_targets = vec!["attention.*".into(), "mlp.*".into()];
        config.parallel.grid = "x=2,y=2".parse().unwrap();
        let attached = Attached {
            config: serde_json::to_value(&config).unwrap(),
            tokenizer: serde_json::to_value(Tokenizer::ids(67)).unwrap(),
            ..Attached::default()
        };
        let dir = temporary.path().join("checkpoints");
        let (shared, to) = (config.clone(), dir.clone());
        let losses = ranks(4, move |world, device| {
            let context = shared.context(&world, &device)?;
            let mut trainer = shared.trainer(&context)?;
            trainer.load_weights(&foreign, &[])?;
            let batch = |trainer: &train::Trainer, step| fixed_batch(trainer, &shared, step);
            let first = trainer.step(&batch(&trainer, 0)?)?.loss;
            for step in 1..5 {
                trainer.step(&batch(&trainer, step)?)?;
            }
            trainer.save_with(&to, train::checkpoint::Retention::newest(1), &attached)?;
            Ok((first, trainer.step(&batch(&trainer, 0)?)?.loss))
        });
        let (first, adapted) = losses[0];
        let reader = Reader::open(&dir).unwrap();
        let states = reader
            .names()
            .filter(|name| name.starts_with("state"))
            .collect::<Vec<_>>();
        assert!(
            !states.is_empty() && states.iter().all(|name| name.contains(".lora_")),
            "{states:?}"
        );

        let out = temporary.path().join("merged");
        let to = out.clone();
        ranks(1, move |world, device| {
            let (families, reader) = (families::families(), Reader::open(&dir)?);
            let (config, tokenizer) = described(&reader, &families)?;
            let options = ExportOptions {
                precision: Precision::F64,
                most_file_bytes: u64::MAX,
            };
            let merged = Merged::new(&reader, &config);
            assert!(merged.names().iter().all(|name| !name.contains("lora")));
            let run = (&config, &tokenizer);
            export(
                (&world, &device),
                &reader,
                run,
                &families,
                (&to, options, true),
            )
            .map(drop)
        });
        let merged = open(&out);
        let plain = Config {
            tuning: Default::default(),
            ..config
        };
        let losses = ranks(1, move |world, device| {
            let plain = on(&plain, grid::Degrees::default());
            let context = plain.context(&world, &device)?;
            let mut trainer = plain.trainer(&context)?;
            trainer.load_weights(&open(&fixture), &[])?;
            let batch = fixed_batch(&trainer, &plain, 0)?;
            let first = trainer.step(&batch)?.loss;
            trainer.load_weights(&merged, &[])?;
            let loss = trainer.step(&batch)?.loss;
            Ok((first, loss))
        });
        // An adapted model begins as it was, learns, and is the merged one.
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9 * one.abs();
        assert!(near(losses[0].0, first), "{name}: {first} and {losses:?}");
        assert!(
            near(losses[0].1, adapted),
            "{name}: {adapted} and {losses:?}"
        );
        assert!(
            (adapted - first).abs() > 1e-4,
            "{name}: {first} and {adapted}"
        );
    }
}

#[test]
fn adapters_have_the_same_bits_on_every_grid() {
    for decomposed in [false, true] {
        let mut config = adapted(GptFamily::Llama);
        config.training.precision = Precision::F32;
        config.training.reproducible = parallel::Reproducible::Grid.into();
        config.tuning.adapter_decomposed = decomposed;
        let expected = serial(&config);
        for grid in grids(&[2, 4]) {
            testkit::bits::check(
                &train(&on(&config, grid)),
                &expected,
                &format!("decomposed {decomposed}, grid {grid}"),
            );
        }
    }
}
