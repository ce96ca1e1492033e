//! With `training.reproducible = "grid"`, every grid gives the bits of the serial program: losses, norms, gradients and
//! weights. So does a run that is resumed on another grid, with its optimiser's state.
//!
//! `FASCICLE_BITS=all` also runs what takes minutes: all grids for every model and type, and more steps.

use families::GptFamily;
use grid::Degrees;
use parallel::{Overlap, Reproducible, data::Sharding};
use std::{path::Path, sync::Arc};
use testkit::{
    SCHEDULES, all_grids, bits::check, config, edit_gpt, grids, on, serial, train, train_steps,
    train_with,
};
use train::{
    Config,
    checkpoint::{DiffReport, Reader, diff},
    config::Precision,
    trainer::scalars,
};

fn reproducible(precision: Precision) -> Config {
    let mut config = config(precision);
    config.training.reproducible = Reproducible::Grid.into();
    config.training.steps = if everything() { 50 } else { 3 };
    config
}

fn everything() -> bool {
    std::env::var_os("FASCICLE_BITS").is_some_and(|value| value == "all")
}

fn llama(mut config: Config) -> Config {
    edit_gpt(&mut config, |model| {
        model.family = GptFamily::Llama;
        model.hidden = 64;
        model.heads = 16;
        model.kv_heads = 8;
        model.mlp_hidden = 80;
    });
    config
}

// Those listed in the text, or all of up to 8 ranks.
fn some(text: &str) -> Vec<Degrees> {
    match everything() {
        true => all_grids(&[1, 2, 4, 8]),
        false => text.split(' ').map(|grid| grid.parse().unwrap()).collect(),
    }
}

fn check_all(config: &Config, grids: impl IntoIterator<Item = Degrees>) {
    let expected = serial(config);
    assert!(
        expected.losses.last() < expected.losses.first(),
        "the model learns: {:?}",
        expected.losses
    );
    for grid in grids {
        check(&train(&on(config, grid)), &expected, &grid.to_string());
    }
}

const FEW: &str = "x=2,y=2,z=2 y=2,z=2,pipeline=2 x=8 y=8 z=8 data=8 pipeline=8 x=2,data=2,pipeline=2 x=4,z=2 y=4,data=2";

#[test]
fn gpt2_tied_with_dropout_on_every_grid() {
    let mut config = reproducible(Precision::F32);
    edit_gpt(&mut config, |model| model.dropout = 0.2);
    match everything() {
        true => check_all(&config, some("")),
        false => check_all(&config, grids(&[2, 4, 8]).into_iter().chain(some(FEW))),
    }
}

#[test]
fn llama_with_grouped_heads_recomputed() {
    let mut config = llama(reproducible(Precision::F32));
    config.training.recompute = true.into();
    edit_gpt(&mut config, |model| {
        model.tied_head = false;
        // Leaves of 4 columns: a maximum of 2 has the same bits as two leaves of 1.
        model.vocabulary = 160;
    });
    check_all(&config, some(FEW));
}

// The gradient of a gain is a sum over heads, which X cuts.
#[test]
fn llama_with_norms_of_heads() {
    for precision in [Precision::F32, Precision::Bf16] {
        let mut config = llama(reproducible(precision));
        edit_gpt(&mut config, |model| model.qk_norm = true);
        check_all(&config, some(FEW));
        if precision != Precision::F32 && !everything() {
            continue;
        }
        check_all(&config, some("context=2 x=2,context=2 context=3"));
        edit_gpt(&mut config, |model| {
            (model.hidden, model.heads, model.kv_heads) = (96, 12, 6);
            model.mlp_hidden = 96;
        });
        check_all(&config, some("x=3 x=6 x=3,y=2 x=3,data=2"));
    }
}

#[test]
fn gemma_and_gpt_neox() {
    let mut gemma = llama(reproducible(Precision::F32));
    edit_gpt(&mut gemma, |model| {
        model.family = GptFamily::Gemma;
        (model.qk_norm, model.post_norms) = (true, true);
        (model.score_size, model.local_blocks) = (12, 1);
        model.sliding_window = 3;
        (model.score_cap, model.logit_cap) = (0.7, 1.5);
    });
    check_all(&gemma, some(FEW));
    // Attention and MLP return gradients of one wire.
    for precision in [Precision::F32, Precision::Bf16] {
        let mut neox = reproducible(precision);
        edit_gpt(&mut neox, |model| {
            model.family = GptFamily::GptNeox;
            model.parallel_residual = true;
            model.rotary_size = 2;
        });
        check_all(&neox, some(FEW));
        check_all(
            &neox,
            some("pipeline=2 pipeline=3 pipeline=4 x=2,context=2"),
        );
        neox.training.recompute = true.into();
        check_all(&neox, some("pipeline=4 x=2,pipeline=2"));
    }
}

#[test]
fn an_untied_head_with_padding_in_f64() {
    let mut config = reproducible(Precision::F64);
    edit_gpt(&mut config, |model| {
        model.tied_head = false;
        model.pad_vocabulary_to = 16;
    });
    check_all(&config, some(FEW));
}

#[test]
fn bf16_and_f16() {
    for precision in [Precision::Bf16, Precision::F16] {
        check_all(&reproducible(precision), some(FEW));
        check_all(&llama(reproducible(precision)), some(FEW));
    }
}

#[test]
fn numbers_of_ranks_that_are_no_powers_of_two() {
    let mut config = reproducible(Precision::F32);
    edit_gpt(&mut config, |model| {
        model.hidden = 96;
        model.heads = 12;
        model.context = 16;
    });
    config.training.batch = 84;
    config.training.micro_batches = 1;
    let few = "x=3 y=3 z=3 data=3 pipeline=3 x=3,y=2 data=7 pipeline=5 y=6 x=12 z=3,data=2,pipeline=2 x=3,z=2,data=2";
    let more = "x=6 z=6 data=6 pipeline=6 y=3,z=2 z=7 pipeline=7 x=3,data=2 x=2,z=3 y=12 data=12 z=12 \
                y=3,data=2,pipeline=2";
    let grids = [few, if everything() { more } else { "" }].join(" ");
    check_all(
        &config,
        grids.split_whitespace().map(|grid| grid.parse().unwrap()),
    );
}

#[test]
fn every_number_of_micro_batches() {
    let mut config = reproducible(Precision::F32);
    // So few tokens that a row has one twice, which the row before has too: its gradient is a sum within a leaf.
    edit_gpt(&mut config, |model| model.vocabulary = 5);
    let expected = serial(&config);
    for micro_batches in [1, 2, 4, 8] {
        for grid in some("x=1 z=2 data=2 z=2,data=2 x=2,z=2 y=2,pipeline=2") {
            let mut config = on(&config, grid);
            config.training.micro_batches = micro_batches;
            // X cuts the tokens.
            if grid.x <= 5 && grid.z * grid.data * micro_batches <= config.training.batch {
                check(
                    &train(&config),
                    &expected,
                    &format!("{grid}, {micro_batches} micro-batches"),
                );
            }
        }
    }
}

#[test]
fn every_schedule() {
    let mut config = reproducible(Precision::F32);
    config.training.micro_batches = 4;
    edit_gpt(&mut config, |model| model.dropout = 0.1);
    let expected = serial(&config);
    for schedule in SCHEDULES {
        for grid in [
            "x=1",
            "pipeline=4",
            "x=2,pipeline=4",
            "x=2,z=2,pipeline=2",
            "z=2,data=2,pipeline=2",
        ] {
            let mut config = on(&config, grid.parse().unwrap());
            config.parallel.schedule = schedule.parse().unwrap();
            check(&train(&config), &expected, &format!("{grid}, {schedule}"));
        }
    }
}

#[test]
fn choices_of_how_a_step_runs() {
    let config = reproducible(Precision::F32);
    let expected = serial(&config);
    for grid in some("x=2,z=2,data=2 data=8 y=2,data=2,pipeline=2 z=2,data=4") {
        let run = |what: &str, edit: &dyn Fn(&mut Config)| {
            let mut config = on(&config, grid);
            edit(&mut config);
            check(&train(&config), &expected, &format!("{grid}, {what}"));
        };
        run("no overlap", &|config| {
            config.parallel.overlap.0 = Overlap::NONE
        });
        run("kept weights, small buckets", &|config| {
            config.parallel.keep_gathered = true;
            config.parallel.bucket_mib = 0;
        });
        run("sharded state", &|config| {
            config.parallel.sharding = Sharding::Optimiser
        });
        run("recomputation", &|config| {
            config.training.recompute = true.into()
        });
    }
}

#[test]
fn two_threads_a_rank() {
    let mut config = reproducible(Precision::F32);
    // Large enough for kernels and matmuls to share their work.
    edit_gpt(&mut config, |model| {
        model.hidden = 128;
        model.context = 64;
        model.layers = 2;
    });
    let expected = serial(&config);
    fn two(rank: usize) -> hal::Result<Arc<dyn hal::Device>> {
        let options = cpu::Options {
            ordinal: rank,
            threads: 2,
            ..cpu::Options::default()
        };
        cpu::open(options)
    }
    for grid in ["x=1", "x=2", "y=2", "z=2"] {
        let found = train_with(&on(&config, grid.parse().unwrap()), two);
        check(&found, &expected, &format!("{grid} with 2 threads"));
    }
}

fn compared(found: &Path, expected: &Path) -> DiffReport {
    let readers = [found, expected].map(|path| Reader::open(path).unwrap());
    let [found, expected] = &readers;
    let numbers = [found, expected].map(|reader| scalars(reader).unwrap());
    diff([found, expected], [&numbers[0], &numbers[1]]).unwrap()
}

#[test]
fn halves_on_two_grids_end_with_the_state_of_the_serial_run() {
    for precision in [Precision::F32, Precision::F16] {
        let mut base = reproducible(precision);
        base.training.steps -= base.training.steps % 2;
        base.training.steps = base.training.steps.max(4);
        edit_gpt(&mut base, |model| model.dropout = 0.1);
        let (half, steps) = (base.training.steps / 2, base.training.steps);
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole");
        let expected = train_steps(&on(&base, Degrees::default()), 0..steps, None, Some(&whole));
        for (first, second, micro_batches) in [
            ("x=1", "x=2,y=2,z=2", 2),
            ("x=2,z=2", "y=2,data=2,pipeline=2", 2),
            ("data=2,pipeline=2", "x=2,y=2", 8),
            ("x=4", "z=2,pipeline=2", 1),
            ("y=2,z=2,pipeline=2", "x=1", 4),
        ] {
            let what = format!("{precision:?}, {first}, then {second}");
            let [stopped, ended] =
                ["stopped", "ended"].map(|part| folder.path().join(format!("{what}, {part}")));
            let one = on(&base, first.parse().unwrap());
            let losses = train_steps(&one, 0..half, None, Some(&stopped));
            assert_eq!(losses, expected[..half as usize], "{what}");
            let mut other = on(&base, second.parse().unwrap());
            other.training.micro_batches = micro_batches;
            other.parallel.sharding = Sharding::Optimiser;
            let losses = train_steps(&other, half..steps, Some(&stopped), Some(&ended));
            assert_eq!(losses, expected[half as usize..], "{what}");
            let report = compared(&ended, &whole);
            assert!(report.equal, "{what}: {report}");
            // Weights and two moments of each parameter.
            assert!(
                report.num_compared.is_multiple_of(3),
                "{what}: {} tensors",
                report.num_compared
            );
        }
    }
}
