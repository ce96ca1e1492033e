//! Steps of schedules that go on into the next one, and the versions of the weights that their checkpoints hold.

use grid::IndexBox;
use std::{collections::BTreeMap, ops::Range, path::Path};
use train::{
    Trainer,
    batches::Rows,
    checkpoint::Reader,
    trainer::{StepDone, StepResult},
};

/// Runs these steps on the rows of `data`, each announced to the one before it or not, after loading the checkpoint in `resume` and
/// before saving one in `save`. Returns losses and norms. Where steps are announced, an evaluation stands between any two.
///
/// # Errors
/// Those of the trainer.
pub fn announced_steps(
    trainer: &mut Trainer,
    data: &(impl Fn(u64, Range<usize>) -> train::Result<Rows> + Send + Sync + 'static),
    (steps, announces): (Range<u64>, bool),
    [resume, save]: [Option<&Path>; 2],
) -> train::Result<(Vec<f64>, Vec<f64>)> {
    if let Some(path) = resume {
        trainer.resume(path)?;
    }
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    let mut done = |done: StepResult| {
        losses.push(done.loss);
        norms.push(done.gradient_norm);
    };
    if announces {
        trainer.fit(
            data,
            steps.end,
            &mut |trainer: &mut Trainer, step: &StepDone| {
                done(step.result);
                // It meets none of the messages of what is ahead.
                trainer
                    .loss(&trainer.batch_of(0, |rows| data(99, rows))?)
                    .map(drop)
            },
        )?;
    } else {
        for _ in steps {
            done(trainer.step(&trainer.batch(data)?)?);
        }
    }
    if let Some(path) = save {
        trainer.save(path)?;
    }
    Ok((losses, norms))
}

/// The tensors of a checkpoint below a prefix, such as `weights/`, whole.
///
/// # Panics
/// If there is no such checkpoint: this is for tests.
pub fn stored(path: &Path, prefix: &str) -> BTreeMap<String, Vec<f64>> {
    let reader = Reader::open(path).unwrap_or_else(|error| panic!("{error}"));
    let names = reader.names().filter_map(|name| name.strip_prefix(prefix));
    let tensor = |name: &str| {
        let full = format!("{prefix}{name}");
        let info = reader.info(&full).expect("a tensor of that name");
        let shape = info.global_shape.to_vec();
        let whole = IndexBox {
            start: vec![0; shape.len()],
            shape: shape.clone(),
        };
        let values = reader.read_f64(&full, &shape, &whole);
        (
            name.to_owned(),
            values.unwrap_or_else(|error| panic!("{error}")),
        )
    };
    names.map(tensor).collect()
}
