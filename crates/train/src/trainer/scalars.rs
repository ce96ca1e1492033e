//! The numbers in a checkpoint, besides tensors, that decide the next step of training.

use super::stored::stored;
use crate::{
    Result,
    checkpoint::{Reader, Scalar, ScalarValue},
};

/// The numbers that decide the next step of a trainer that resumes from a checkpoint, besides the step itself: the
/// number of updates, the loss scale and the number of steps since it last changed. A checkpoint without a record of a
/// trainer has none.
///
/// [`digest`](fn@crate::checkpoint::digest) and [`diff`](fn@crate::checkpoint::diff) take them. The configuration, which
/// also decides the next step, is not among them.
///
/// # Errors
/// [`Error::Mismatch`](crate::Error::Mismatch) if another program wrote the record.
pub fn scalars(reader: &Reader) -> Result<Vec<Scalar>> {
    if reader.sections().trainer.is_null() {
        return Ok(Vec::new());
    }
    let stored = stored(reader)?;
    let scalar = |name, value| Scalar { name, value };
    let (scale, good_steps) = (stored.loss_scale.value, stored.loss_scale.good_steps);
    Ok(vec![
        scalar("num_updates", ScalarValue::U64(stored.num_updates)),
        scalar("loss_scale", ScalarValue::F64(scale)),
        scalar("loss_scale.good_steps", ScalarValue::U64(good_steps.into())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Error,
        checkpoint::{Sections, Writer},
    };
    use serde_json::{Value, json};

    fn of(trainer: Value) -> Result<Vec<Scalar>> {
        let dir = tempfile::tempdir().unwrap();
        let sections = Sections {
            trainer,
            ..Sections::default()
        };
        let writer = Writer::begin(dir.path(), 7).unwrap();
        let path = writer.commit(Vec::new(), sections).unwrap();
        scalars(&Reader::open(path).unwrap())
    }

    #[test]
    fn the_trainers_numbers_are_read_and_nothing_else() {
        let scale = json!({"value": 512.0, "good_steps": 3, "adapts": true});
        let found = of(json!({"num_updates": 6, "loss_scale": scale, "config": {"a": 1}})).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|scalar| format!("{} {}", scalar.name, scalar.value))
            .collect();
        let needed = [
            "num_updates 6",
            "loss_scale 512.0",
            "loss_scale.good_steps 3",
        ];
        assert_eq!(found, needed);
        assert!(of(Value::Null).unwrap().is_empty());
        let foreign = of(json!({"epoch": 3}));
        assert!(
            matches!(foreign, Err(Error::Mismatch { .. })),
            "{foreign:?}"
        );
    }
}
