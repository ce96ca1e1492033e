//! Checkpoints: saved on one grid and loaded on every other; resumed bit for bit; complete or absent.

use grid::Degrees;
use parallel::{Context, Reproducible, data::Sharding};
use testkit::{config, edit_gpt, on, train_steps as steps};
use train::{
    checkpoint::{Reader, diff, digest},
    config::Precision,
    trainer::scalars,
};

#[test]
fn saved_on_one_grid_and_continued_on_every_other() {
    let dir = tempfile::tempdir().unwrap();
    let base = config(Precision::F64);
    let uninterrupted = steps(&base, 0..4, None, None);
    for (index, grid) in [
        "x=2,y=2,z=2",
        "y=2,z=2,pipeline=2",
        "x=2,data=2,pipeline=2",
        "x=2,context=2,data=2",
    ]
    .into_iter()
    .enumerate()
    {
        let path = dir.path().join(index.to_string());
        let losses = steps(&on(&base, grid.parse().unwrap()), 0..2, None, Some(&path));
        assert!(near(&losses, &uninterrupted[..2]), "{grid}: {losses:?}");
        for other in testkit::grids(&[1, 2, 4, 8]) {
            let losses = steps(&on(&base, other), 2..4, Some(&path), None);
            assert!(
                near(&losses, &uninterrupted[2..]),
                "{grid} to {other}: {losses:?}, not {uninterrupted:?}"
            );
        }
    }
}

fn near(found: &[f64], expected: &[f64]) -> bool {
    found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs())
}

#[test]
fn resumed_on_the_same_grid_bit_for_bit() {
    for (precision, sharded) in [
        (Precision::F32, false),
        (Precision::Bf16, false),
        (Precision::F32, true),
        (Precision::F16, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = on(
            &config(precision),
            Degrees {
                x: 2,
                data: 2,
                pipeline: 2,
                ..Degrees::default()
            },
        );
        config.parallel.sharding = match sharded {
            true => Sharding::Optimiser,
            false => Sharding::None,
        };
        edit_gpt(&mut config, |model| model.dropout = 0.1);
        let whole = steps(&config, 0..5, None, None);
        let first = steps(&config, 0..3, None, Some(dir.path()));
        let second = steps(&config, 3..5, Some(dir.path()), None);
        assert_eq!(
            [first, second].concat(),
            whole,
            "{precision:?}, sharded {sharded}"
        );
    }
}

#[test]
fn grids_of_reproducible_sums_have_one_digest() {
    let dir = tempfile::tempdir().unwrap();
    let mut base = config(Precision::F16);
    base.training.reproducible = Reproducible::Grid.into();
    base.training.digest_every = 2;
    let state = |grid: &str, reproducible: Reproducible| {
        let mut config = on(&base, grid.parse().unwrap());
        config.training.reproducible = reproducible.into();
        let path = dir.path().join(format!("{grid} {reproducible:?}"));
        steps(&config, 0..2, None, Some(&path));
        let reader = Reader::open(path).unwrap();
        let scalars = scalars(&reader).unwrap();
        (reader, scalars)
    };
    let (one, numbers) = state("x=1", Reproducible::Grid);
    let needed = digest(&one, &numbers).unwrap();
    let of_step = one.sections().step_digest.clone();
    assert_eq!(of_step.as_ref().map(String::len), Some(64));
    for grid in ["x=2,z=2", "y=2,data=2,pipeline=2"] {
        let (reader, scalars) = state(grid, Reproducible::Grid);
        let report = diff([&one, &reader], [&numbers, &scalars]).unwrap();
        assert!(report.equal, "{grid}: {report}");
        assert_eq!(digest(&reader, &scalars).unwrap().digest, needed.digest);
        assert_eq!(reader.sections().step_digest, of_step, "{grid}");
    }
    let (other, scalars) = state("x=2,z=2", Reproducible::Run);
    let report = diff([&one, &other], [&numbers, &scalars]).unwrap();
    assert!(!report.equal && !report.tensors.is_empty() && report.unmatched.is_empty());
    assert_ne!(digest(&other, &scalars).unwrap().digest, needed.digest);
    assert_ne!(other.sections().step_digest, of_step);
}

#[test]
fn a_checkpoint_of_another_model_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let config = on(&config(Precision::F32), Degrees::default());
    steps(&config, 0..1, None, Some(dir.path()));
    let mut other = config.clone();
    edit_gpt(&mut other, |model| model.hidden = 64);
    let path = dir.path().to_owned();
    let failure = testkit::try_ranks(1, move |world, device| {
        let context = Context::new(world, other.grid()?, device, other.settings())?;
        other.trainer(&context)?.resume(&path)
    });
    let message = failure.unwrap_err();
    assert!(
        message.contains("has shape") && message.contains("the model needs"),
        "{message}"
    );
}
