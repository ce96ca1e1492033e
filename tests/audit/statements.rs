//! What a checkpoint states about how it came to be.

use serde_json::{Value, json};
use train::checkpoint::Sections;

// Numbers that a checkpoint states, besides those of the trainer.
const NUMBERS: [&str; 11] = [
    "/trainer/config/training/learning_rate",
    "/trainer/config/training/weight_decay",
    "/trainer/config/training/beta2",
    "/trainer/config/training/clip_norm",
    "/trainer/config/training/warmup_steps",
    "/trainer/config/training/steps",
    "/trainer/config/training/batch",
    "/trainer/config/model/dropout",
    "/trainer/config/model/heads",
    "/trainer/config/seed",
    "/model/heads",
];

// Other statements, each with another value.
const TEXTS: [(&str, &str); 9] = [
    ("/trainer/data", "\"another\""),
    ("/trainer/data", "null"),
    ("/trainer/optimiser", "\"sgd\""),
    ("/trainer/tokenizer", "null"),
    ("/tokenizer", "null"),
    ("/trainer/config/data/order", "\"epochs\""),
    ("/trainer/config/training/reproducible", "\"run\""),
    ("/trainer/config/training/epsilon", "null"),
    ("/trainer/config/model", "null"),
];

/// The number of statements that [`change`] changes.
pub const NUM_STATEMENTS: usize = NUMBERS.len() + TEXTS.len();

/// Gives one of the statements another value; returns its place.
pub fn change(sections: &mut Sections, statement: usize) -> &'static str {
    let Some(place) = NUMBERS.get(statement) else {
        let (place, json) = TEXTS[statement - NUMBERS.len()];
        *value_at(sections, place) = serde_json::from_str(json).unwrap();
        return place;
    };
    let value = value_at(sections, place);
    let other = match value.as_u64() {
        Some(whole) => json!(whole + 1),
        None => json!(value.as_f64().unwrap() * 0.97 + 0.001),
    };
    assert_ne!(*value, other, "{place}");
    *value = other;
    place
}

// The value at this place, `/SECTION/KEY...`.
fn value_at<'a>(sections: &'a mut Sections, place: &str) -> &'a mut Value {
    let (section, rest) = place[1..].split_once('/').unwrap_or((&place[1..], ""));
    let section = match section {
        "model" => &mut sections.model,
        "trainer" => &mut sections.trainer,
        _ => &mut sections.tokenizer,
    };
    match rest {
        "" => section,
        rest => section.pointer_mut(&format!("/{rest}")).unwrap(),
    }
}
