//! The digest of a checkpoint, and the differences between two.

use crate::{
    failure::{Failure, Outcome},
    numbers::{counted, grouped},
    output,
};
use serde_json::json;
use train::{
    checkpoint::{Reader, diff, digest},
    trainer::scalars,
};

/// Prints the digest of a checkpoint, with those of its tensors if `tensors` is set.
pub(super) fn print(reader: &Reader, tensors: bool, json: bool) -> Outcome {
    let report = digest(reader, &scalars(reader)?).map_err(train::Error::from)?;
    let num_tensors = reader.names().count();
    output::note(&format!(
        "step {}, {}",
        grouped(report.step),
        counted(num_tensors, "tensor")
    ));
    match (json, tensors) {
        (true, true) => output::json(&report),
        (true, false) => {
            let (path, step, digest) = (&report.path, report.step, report.digest);
            output::json(&json!({"path": path, "step": step, "digest": digest}))
        }
        (false, true) => output::result(report.to_string().trim_end()),
        (false, false) => output::result(&report.digest.to_string()),
    }
}

/// Prints the differences between two checkpoints, and fails if there are any.
pub(super) fn compare(a: &Reader, b: &Reader, json: bool) -> Outcome {
    let report = diff([a, b], [&scalars(a)?, &scalars(b)?]).map_err(train::Error::from)?;
    match json {
        true => output::json(&report)?,
        false => output::result(report.to_string().trim_end())?,
    }
    match report.equal {
        true => Ok(()),
        false => Err(Failure::run(report.sentence())),
    }
}
