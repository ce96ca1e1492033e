//! PipeDream with weight stashing: the pipelined run has the bits of a serial loop that keeps the weights which each stage reads.

mod oracle;
mod subject;

use grid::Axis;
use oracle::Oracle;
use parallel::data::Sharding;
use std::{collections::BTreeMap, ops::Range, path::Path};
use subject::{Net, Subject, UPDATES};
use tensor::MemoryKind;
use testkit::{announced_steps, ranks, stored, try_ranks};
use train::{
    Config,
    config::{OptimiserKind, PlaceKind, Precision},
    trainer::Options,
};

const STEPS: u64 = 4;

type Weights = BTreeMap<String, Vec<f64>>;

/// What a run has computed, with the weights of its checkpoint: the latest, those of one update before, and so on.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    losses: Vec<f64>,
    norms: Vec<f64>,
    versions: Vec<Weights>,
}

/// Runs these steps, announced one ahead or not, between two checkpoints. Returns also the stage of each parameter.
fn steps(
    subject: &Subject,
    steps: Range<u64>,
    announces: bool,
    [resume, save]: [Option<&Path>; 2],
) -> (Vec<f64>, Vec<f64>, BTreeMap<String, usize>) {
    let subject = subject.with(|config| config.parallel.schedule = "pipedream".parse().unwrap());
    let [resume, save] = [resume, save].map(|path| path.map(Path::to_owned));
    let grid = subject.config.grid().unwrap();
    let results = ranks(grid.world_size(), move |world, device| {
        let context = subject.config.context(&world, &device)?;
        let mut trainer = subject.trainer(&context)?;
        let shared = subject.clone();
        let data = move |step: u64, rows: Range<usize>| Ok(shared.rows(step, rows));
        let between = [resume.as_deref(), save.as_deref()];
        let (losses, norms) =
            announced_steps(&mut trainer, &data, (steps.clone(), announces), between)?;
        let stage = context.index(Axis::Pipeline);
        let names = trainer.parameters().parameters().iter();
        let names: Vec<String> = names.map(|one| one.name().to_owned()).collect();
        Ok((losses, norms, stage, names))
    });
    let stages = results.iter().flat_map(|(_, _, stage, names)| {
        let stage = *stage;
        names.iter().map(move |name| (name.clone(), stage))
    });
    let stages = stages.collect();
    let (losses, norms, ..) = results.into_iter().next().unwrap();
    (losses, norms, stages)
}

fn versions(path: &Path) -> Vec<Weights> {
    let prefixes = [
        "weights/",
        "previous/",
        "previous2/",
        "previous3/",
        "previous4/",
    ];
    let all = prefixes.map(|prefix| stored(path, prefix));
    all.into_iter().filter(|one| !one.is_empty()).collect()
}

fn run(subject: &Subject, announces: bool) -> (Run, BTreeMap<String, usize>) {
    let dir = tempfile::tempdir().unwrap();
    let (losses, norms, stages) = steps(subject, 0..STEPS, announces, [None, Some(dir.path())]);
    let versions = versions(dir.path());
    let run = Run {
        losses,
        norms,
        versions,
    };
    (run, stages)
}

// The versions that stages hold at the end.
fn expected(oracle: &Oracle, stages: &BTreeMap<String, usize>) -> Vec<Weights> {
    let last = 1 + stages.values().max().copied().unwrap();
    let end = (STEPS * UPDATES) as usize;
    let version = |late: usize| {
        let own = stages.iter().filter(|(_, stage)| last - 1 - *stage >= late);
        own.map(|(name, _)| (name.clone(), oracle.after[end - late][name].clone()))
            .collect()
    };
    (0..last).map(version).collect()
}

fn check(subject: &Subject, pipeline: usize, grids: &[&str]) {
    let mut first: Option<(Run, Oracle)> = None;
    for axes in grids {
        let grid = format!("pipeline={pipeline}{axes}");
        let (found, stages) = run(&subject.on(&grid), true);
        let (of_first, oracle) = first.get_or_insert_with(|| {
            let oracle = oracle::run(subject, &stages);
            (found.clone(), oracle)
        });
        assert!(found.versions == expected(oracle, &stages), "{grid}");
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-5 * b.abs();
        assert!(found.losses.iter().zip(&oracle.losses).all(near), "{grid}");
        // Losses and norms are sums over the same stages on every grid.
        assert_eq!(
            (&found.losses, &found.norms),
            (&of_first.losses, &of_first.norms),
            "{grid}"
        );
        let clips = subject.config.training.clip_norm;
        assert!(found.norms.iter().any(|norm| *norm > clips), "{grid}");
    }
}

#[test]
fn gpt2_has_the_bits_of_a_serial_loop_with_stashed_weights() {
    check(&Subject::gpt2(), 2, &["", ",x=2", ",data=2", ",z=2"]);
    check(&Subject::gpt2(), 4, &["", ",x=2"]);
}

#[test]
fn llama_has_the_bits_of_a_serial_loop_with_stashed_weights() {
    check(&Subject::llama(), 2, &["", ",x=2,data=2"]);
    check(&Subject::llama(), 4, &["", ",z=2"]);
}

#[test]
fn a_model_with_skips_has_the_bits_of_a_serial_loop_with_stashed_weights() {
    let subject = Subject::skips().with(|config| config.training.clip_norm = 1e-3);
    check(&subject, 2, &["", ",data=2", ",z=2"]);
    check(&subject, 4, &["", ",data=2"]);
}

#[test]
fn that_holds_with_shards_recomputation_other_optimisers_and_state_beyond_the_device() {
    for (optimiser, sharding) in [
        (OptimiserKind::AdamW, Sharding::Optimiser),
        (OptimiserKind::Lion, Sharding::Gradients),
    ] {
        let subject = Subject::gpt2().with(|config| {
            config.training.optimiser = optimiser;
            config.training.recompute = true.into();
            config.parallel.sharding = sharding;
            config.placement.optimiser = PlaceKind::Host;
            config.placement.activations = PlaceKind::Host.into();
        });
        check(&subject, 2, &[",data=2"]);
    }
}

// Their updates exchange among the ranks of a stage.
#[test]
fn optimisers_that_look_at_whole_matrices_have_the_same_bits_on_every_grid() {
    for optimiser in [
        OptimiserKind::Muon,
        OptimiserKind::Adafactor,
        OptimiserKind::AdamW8bit,
    ] {
        let subject = Subject::gpt2().with(|config| config.training.optimiser = optimiser);
        let (expected, _) = run(&subject.on("pipeline=2"), false);
        let (found, _) = run(&subject.on("x=2,data=2,pipeline=2"), true);
        assert!(found == expected, "{optimiser:?}");
    }
}

#[test]
fn one_stage_is_plain_training_with_an_update_for_each_micro_batch() {
    check(&Subject::gpt2(), 1, &["", ",data=2"]);
}

#[test]
fn no_number_depends_on_whether_the_next_batch_is_known() {
    let subject = Subject::gpt2().on("x=2,pipeline=4");
    assert_eq!(run(&subject, true), run(&subject, false));
}

#[test]
fn each_backward_reads_the_weights_of_its_forward_at_the_predicted_update() {
    for pipeline in [1, 2, 4] {
        let subject = Subject::skips()
            .on(&format!("pipeline={pipeline}"))
            .with(|config| config.training.recompute = true.into());
        let (_, _, stages) = steps(&subject, 0..STEPS, true, [None, None]);
        let Net::Skips(seen) = &subject.net else {
            unreachable!()
        };
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let oracle = oracle::run(&subject, &stages);
        let mut compared = 0;
        for ((segment, update), read) in seen.iter().filter(|((_, update), _)| *update < 99) {
            // Forward, and the forward that backward runs once more.
            assert_eq!(read.len(), 2, "segment {segment}, micro-batch {update}");
            assert_eq!(read[0], read[1], "segment {segment}, micro-batch {update}");
            let (name, values) = read[0].iter().next().unwrap();
            let late = pipeline - 1 - stages[name];
            let at = (*update as usize).saturating_sub(late);
            assert_eq!(values, &oracle.after[at][name], "{name} at {update}");
            // Weights change with every update, so no other version has these values.
            let same = oracle.after.iter().filter(|one| one[name] == *values);
            assert_eq!(same.count(), 1);
            compared += 1;
        }
        assert_eq!(compared, 4 * STEPS * UPDATES);
    }
}

#[test]
fn a_run_resumed_on_another_grid_of_as_many_stages_has_the_same_bits() {
    let subject = Subject::gpt2();
    let (expected, _) = run(&subject.on("pipeline=4"), true);
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let save = [None, Some(first.path())];
    let (begun, ..) = steps(&subject.on("pipeline=4"), 0..2, true, save);
    let paths = [Some(first.path()), Some(second.path())];
    let (ended, ..) = steps(&subject.on("z=2,pipeline=4"), 2..STEPS, true, paths);
    assert_eq!([begun, ended].concat(), expected.losses);
    assert!(versions(second.path()) == expected.versions);
}

fn resumed(subject: &Subject, path: &Path) -> Result<Vec<()>, String> {
    let (subject, path) = (subject.clone(), path.to_owned());
    let ranks = subject.config.grid().unwrap().world_size();
    try_ranks(ranks, move |world, device| {
        let context = subject.config.context(&world, &device)?;
        subject.trainer(&context)?.resume(&path)
    })
}

#[test]
fn a_checkpoint_of_other_stages_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let subject = Subject::gpt2().with(|config| {
        config.parallel.schedule = "pipedream".parse().unwrap();
    });
    steps(
        &subject.on("pipeline=4"),
        0..1,
        true,
        [None, Some(dir.path())],
    );
    for grid in ["pipeline=1", "pipeline=2", "pipeline=3"] {
        let text = resumed(&subject.on(grid), dir.path()).unwrap_err();
        let needed = "resume it with the schedule and the stages that wrote it";
        assert!(
            text.contains("earlier versions, needs") && text.contains(needed),
            "{text}"
        );
    }
    let other = subject.with(|config| config.parallel.schedule = "pipedream-2bw".parse().unwrap());
    let text = resumed(&other.on("pipeline=4"), dir.path()).unwrap_err();
    assert!(text.contains("earlier versions, needs 1"), "{text}");
    // Without delays, the latest weights are all that there is to read.
    let flushed = subject.with(|config| config.parallel.schedule = "1f1b".parse().unwrap());
    resumed(&flushed.on("pipeline=2"), dir.path()).unwrap();
}

// p - s versions of the weights of stage s, and one of gradients.
#[test]
fn the_memory_is_that_of_1f1b_and_the_stash() {
    let held = |schedule: &str| {
        let subject = Subject::gpt2().on("pipeline=4");
        let subject = subject.with(|config| config.parallel.schedule = schedule.parse().unwrap());
        ranks(4, move |world, device| {
            let context = subject.config.context(&world, &device)?;
            let trainer = subject.trainer(&context)?;
            let numbers = trainer.parameters().parameters().iter();
            let numbers = numbers.map(|one| one.num_elements()).sum::<usize>();
            let by_kind = device.memory_use().by_kind;
            let kinds = [
                MemoryKind::Weights,
                MemoryKind::Gradients,
                MemoryKind::Optimiser,
            ];
            Ok((numbers, kinds.map(|kind| by_kind[kind as usize].in_use)))
        })
    };
    let both = held("1f1b").into_iter().zip(held("pipedream"));
    for (stage, ((numbers, flushed), (_, stashed))) in both.enumerate() {
        assert!(flushed[0] >= 4 * numbers);
        let [weights, gradients, optimiser] = flushed;
        assert_eq!(stashed, [(4 - stage) * weights, gradients, optimiser]);
    }
}

#[test]
fn what_it_cannot_run_is_refused_in_one_sentence() {
    let refused = |change: fn(&mut Config)| {
        let subject = Subject::gpt2().on("pipeline=4").with(|config| {
            config.parallel.schedule = "pipedream".parse().unwrap();
            change(config);
        });
        let ranks = subject.config.grid().unwrap().world_size();
        match subject.config.check() {
            Err(error) => error.to_string(),
            Ok(()) => try_ranks(ranks, move |world, device| {
                subject
                    .trainer(&subject.config.context(&world, &device)?)
                    .map(drop)
            })
            .unwrap_err(),
        }
    };
    for (change, needed) in [
        (
            (|config| config.training.micro_batches = 2) as fn(&mut Config),
            "at least as many micro-batches as stages",
        ),
        (
            |config| config.training.precision = Precision::F16,
            "found f16 with schedule pipedream, needs f64, f32 or bf16",
        ),
        (
            |config| config.training.digest_every = 2,
            "training.digest_every: found 2 with schedule pipedream, needs 0",
        ),
        (
            |config| testkit::edit_gpt(config, |model| model.tied_head = true),
            "uses on stages [0, 3], needs one stage, because with schedule pipedream",
        ),
    ] {
        let text = refused(change);
        assert!(text.contains(needed), "{text}");
    }
}

// A configuration refuses such batches by itself, a program that makes options does not.
#[test]
fn micro_batches_of_unequal_rows_and_gradients_without_an_update_are_refused() {
    let subject = Subject::skips().on("pipeline=1").with(|config| {
        config.parallel.schedule = "pipedream".parse().unwrap();
    });
    let texts = ranks(1, move |world, device| {
        let context = subject.config.context(&world, &device)?;
        let trainer = subject.trainer(&context)?;
        let batch = trainer.batch_of(0, |rows| Ok(subject.rows(0, rows)))?;
        let of_gradients = trainer.gradients(&batch).unwrap_err().to_string();
        let uneven = Options {
            batch: 18,
            stages: None,
            ..subject.config.trainer_options()
        };
        let refused = subject.trainer_with(&context, uneven).unwrap_err();
        Ok([of_gradients, refused.to_string()])
    });
    let needed = [
        "found pipedream, which updates within a step",
        "found 18 rows in 4 micro-batches with schedule pipedream, needs as many rows in each",
    ];
    for (text, needed) in texts[0].iter().zip(needed) {
        assert!(text.contains(needed), "{text}");
    }
}
