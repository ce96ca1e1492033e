use super::*;
use crate::{
    batches::Values,
    data::{Pair, Sample},
};

fn content(pairs: &[[&str; 3]]) -> Content {
    let completion = |prompt: &str, completion: &str| Sample::Completion {
        prompt: prompt.into(),
        completion: completion.into(),
    };
    let pair = |[prompt, chosen, rejected]: &[&str; 3]| {
        Sample::Pair(Box::new(Pair {
            chosen: completion(prompt, chosen),
            rejected: completion(prompt, rejected),
            given: 0,
        }))
    };
    Content::Samples {
        name: "a.jsonl".into(),
        samples: pairs.iter().map(pair).collect(),
    }
}

fn open(
    pairs: &[[&str; 3]],
    (context, batch): (usize, usize),
    smoothing: f64,
) -> Result<Preferences> {
    let settings = Settings {
        context,
        global_batch: batch,
        validation_batches: 2,
        ..Settings::default()
    };
    let options = PairOptions {
        label_smoothing: smoothing,
    };
    let held_out = Some(content(&[["v", "a", "b"]]));
    Preferences::new(
        content(pairs),
        held_out,
        &Tokenizer::bytes(),
        (&settings, options),
    )
}

fn numbered(pairs: Preferences) -> Preferences {
    let numbers = (0..pairs.num_sequences()).map(|sequence| -(sequence as f64) - 1.0);
    pairs.with_reference(numbers.collect()).unwrap()
}

fn ids(rows: &Rows, name: &str) -> Vec<u32> {
    match rows.column(name) {
        Some(Values::Ids(ids)) => ids.clone(),
        _ => panic!("bug: no ids called {name}"),
    }
}

fn weights(rows: &Rows, name: &str) -> Vec<f64> {
    match rows.column(name) {
        Some(Values::Weights(weights)) => weights.clone(),
        _ => panic!("bug: no weights called {name}"),
    }
}

const NONE: u32 = u32::MAX;

#[test]
fn a_row_holds_both_sequences_of_its_pairs() {
    let pairs = open(&[["ab", "c", "de"], ["x", "y", "z"]], (16, 1), 0.125).unwrap();
    let rows = numbered(pairs).training(0, 0..1).unwrap();
    // Each sequence reads all of its tokens but the line end behind it.
    assert_eq!(ids(&rows, "inputs")[..11], b"abcabdexyxz".map(u32::from));
    let [c, d, e, y, z] = b"cdeyz".map(u32::from);
    assert_eq!(
        ids(&rows, "targets")[..12],
        [NONE, c, 10, NONE, d, e, 10, y, 10, z, 10, NONE]
    );
    assert_eq!(
        ids(&rows, "sequences")[..12],
        [0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 0]
    );
    assert_eq!(
        ids(&rows, "documents")[..12],
        [0, 0, 0, 3, 3, 3, 3, 7, 7, 9, 9, 11]
    );
    assert_eq!(
        ids(&rows, "places")[..11],
        [0, 1, 2, 0, 1, 2, 3, 0, 1, 0, 1]
    );
    assert_eq!(weights(&rows, "labels"), [0.875, 0.125, 0.875, 0.125]);
    assert_eq!(weights(&rows, "reference"), [-1.0, -2.0, -3.0, -4.0]);
    assert_eq!(weights(&rows, "loss_weight"), [0.5]);
}

#[test]
fn a_pair_that_is_too_long_is_cut_and_one_without_an_answer_left_out() {
    let given = [
        ["a", "bcdefghijk", "l"],
        ["abcdefgh", "i", "j"],
        ["a", "b", "c"],
    ];
    let pairs = open(&given, (8, 1), 0.0).unwrap();
    let [training, _] = pairs.packed();
    assert_eq!(
        (training.samples, training.cut, training.dropped),
        (2, 1, 1)
    );
    let refused = open(&given[1..2], (8, 1), 0.0).unwrap_err().to_string();
    let needed = "data: a.jsonl: none of 1 pairs for training has both answers within 8 tokens, needs at least 1 that has";
    assert_eq!(refused, needed);
}

#[test]
fn what_is_missing_is_named() {
    let refused = open(&[["a", "b", "c"]], (8, 1), 0.0)
        .unwrap()
        .training(0, 0..1);
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.ends_with(
            "found no log-probabilities of the reference model, needs Preferences::with_reference"
        ),
        "{refused}"
    );
    let settings = Settings::default();
    let text = Content::Samples {
        name: "a.jsonl".into(),
        samples: vec![Sample::Text("a".into()); 20],
    };
    let tokenizer = Tokenizer::bytes();
    let refused = Preferences::new(text, None, &tokenizer, (&settings, PairOptions::default()));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "data: a.jsonl: sample 1 is no pair, needs `chosen` and `rejected`, as training.objective = \"dpo\" says"
    );
    let pairs = super::super::Samples::new(
        content(&[["a", "b", "c"]]),
        Some(content(&[["a", "b", "c"]])),
        &tokenizer,
        (&settings, super::super::LossOn::Answers),
    );
    let needed = "sample 1 is a pair, `chosen` and `rejected`, needs training.objective = \"dpo\"";
    assert!(pairs.unwrap_err().to_string().ends_with(needed));
}

// Every sequence has its number again, wherever the order of an epoch puts it.
#[test]
fn the_reference_follows_its_pair() {
    let letters: Vec<String> = ('a'..='t').map(String::from).collect();
    let given: Vec<[&str; 3]> = letters
        .iter()
        .map(|letter| ["", letter.as_str(), "?"])
        .collect();
    let pairs = open(&given, (12, 3), 0.0).unwrap();
    let mut numbers = vec![0.0; pairs.num_sequences()];
    for batch in 0..pairs.num_reference_batches() {
        for row in 0..3 {
            let rows = pairs.reference_rows(batch, row..row + 1);
            let (inputs, sequences) = (ids(&rows, "inputs"), ids(&rows, "sequences"));
            for (sequence, place) in pairs.reference_places(batch, row).into_iter().enumerate() {
                let first = sequences.iter().position(|found| *found == sequence as u32);
                numbers[place] = f64::from(inputs[first.unwrap()]);
            }
        }
    }
    assert!(numbers.iter().all(|number| *number > 0.0));
    let before = pairs.fingerprint();
    let pairs = pairs.with_reference(numbers).unwrap();
    assert_ne!(pairs.fingerprint(), before);
    let rows_of_epoch = pairs.packed()[0].rows;
    let mut seen = Vec::new();
    for place in 0..rows_of_epoch {
        let row = pairs
            .training((place / 3) as u64, place % 3..place % 3 + 1)
            .unwrap();
        let (inputs, places) = (ids(&row, "inputs"), ids(&row, "places"));
        let labels = weights(&row, "labels");
        let starts = inputs
            .iter()
            .zip(&places)
            .filter(|(token, place)| **place == 0 && **token != 0);
        let starts: Vec<f64> = starts.map(|(token, _)| f64::from(*token)).collect();
        let known = labels.chunks(2).filter(|labels| labels[0] > 0.0).count();
        assert_eq!(weights(&row, "reference")[..2 * known], starts);
        seen.extend(starts.chunks(2).map(|pair| pair[0]));
    }
    seen.sort_by(f64::total_cmp);
    assert_eq!(seen, (97..117).map(f64::from).collect::<Vec<_>>());
    assert!(pairs.with_reference(vec![0.0; 3]).is_none());
}
