//! Every grid and batch against one rank.

use super::{LLAMA, config, expected, scores};
use train::{architecture::Text, eval::ScoredSequence};

const TEXT: Text = Text {
    context: 8,
    vocabulary: 37,
};

/// Of several lengths, two of them alike, one that fills the context and one that loses its beginning.
fn sequences() -> Vec<ScoredSequence> {
    let pairs: [(&[u32], &[u32]); 7] = [
        (&[1, 2, 3], &[4]),
        (&[5], &[6, 7, 8, 9]),
        (&[10, 11, 12], &[13]),
        (&[36], &[0, 1, 2, 3, 4, 5, 6, 7]),
        (&[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], &[8, 9, 7]),
        (&[20], &[36]),
        (&[30, 31, 32, 33], &[34, 35]),
    ];
    let sequence = |(given, predicted)| ScoredSequence::new(given, predicted, TEXT).unwrap();
    pairs.map(sequence).to_vec()
}

const GRIDS: [&str; 9] = [
    "x=1",
    "x=2",
    "y=2",
    "z=2",
    "pipeline=2",
    "context=2",
    "data=2",
    "x=2,pipeline=2",
    "z=2,data=2",
];

/// Two questions behind examples that they share, of three choices and of two, and a sequence of another kind between them. Beginnings
/// are long enough to be computed once.
fn questions() -> Vec<ScoredSequence> {
    let text = Text {
        context: 40,
        ..TEXT
    };
    let given = |first: u32| -> Vec<u32> {
        let question = (first..first + 9).map(|token| token * 7 % 37);
        (0..16)
            .map(|token| token * 5 % 37)
            .chain(question)
            .collect()
    };
    let pairs: [(Vec<u32>, &[u32]); 7] = [
        (given(3), &[4]),
        (given(3), &[6, 7, 8, 9]),
        (given(3), &[4, 6]),
        (vec![1, 2], &[3, 4, 5]),
        (given(11), &[13]),
        (given(11), &[30, 2]),
        // Loses its beginning, which is then another.
        ([given(11), given(3)].concat(), &[5, 6]),
    ];
    let sequence = |(given, predicted): (Vec<u32>, &[u32])| {
        ScoredSequence::new(&given, predicted, text).unwrap()
    };
    pairs.map(sequence).to_vec()
}

fn on_every_grid(edits: &[&str]) {
    all_on_every_grid(edits, &sequences());
}

fn all_on_every_grid(edits: &[&str], sequences: &[ScoredSequence]) {
    let needed = expected(&config(edits), sequences);
    // A model that finds everything alike would prove nothing.
    let all = needed.concat();
    let spread = all
        .iter()
        .fold(0.0_f64, |most, one| most.max((one - all[0]).abs()));
    assert!(spread > 1.0, "{all:?}");
    for grid in GRIDS {
        let mut config = config(edits);
        config.parallel.grid = grid.parse().unwrap();
        let alone = scores(&config, sequences, 1);
        for batch in [2, 3, 64] {
            assert_eq!(scores(&config, sequences, batch), alone, "{grid}, {batch}");
        }
        for (found, needed) in alone.iter().zip(&needed) {
            assert_eq!(found.log_likelihoods.len(), needed.len());
            for (found, needed) in found.log_likelihoods.iter().zip(needed) {
                assert!(
                    (found - needed).abs() < 1e-9,
                    "{grid}: {found}, needs {needed}"
                );
            }
            let sum: f64 = needed.iter().sum();
            assert!((found.log_likelihood() - sum).abs() < 1e-9);
        }
    }
}

#[test]
fn a_gpt2_on_every_grid() {
    on_every_grid(&[]);
}

#[test]
fn a_llama_on_every_grid() {
    on_every_grid(&LLAMA);
}

#[test]
fn beginnings_that_are_shared_on_every_grid() {
    let context = "model.context = 40";
    all_on_every_grid(&[context], &questions());
    let window = "model.sliding_window = 6";
    all_on_every_grid(&[&LLAMA[..], &[context, window]].concat(), &questions());
}

#[test]
fn reproducible_sums_have_one_result_on_every_grid() {
    let edits = [
        "training.reproducible = \"grid\"",
        "training.precision = \"bf16\"",
    ];
    let edits = [&LLAMA[..], &edits].concat();
    let serial = scores(&config(&edits), &sequences(), 4);
    for grid in GRIDS {
        let mut config = config(&edits);
        config.parallel.grid = grid.parse().unwrap();
        assert_eq!(scores(&config, &sequences(), 3), serial, "{grid}");
    }
}

#[test]
fn greedy_tokens_are_those_that_a_generator_chooses() {
    use train::{
        data::Tokenizer,
        generate::{Generator, GeneratorOptions, Request, Sampling},
    };
    let config = config(&["parallel.grid = \"x=2\""]);
    let tokens = super::on_grid(&config, |pipeline, text| {
        let tokenizer = Tokenizer::ids(text.vocabulary);
        let mut generator =
            Generator::new(pipeline, text, &tokenizer, GeneratorOptions::default())?;
        generator.add(Request {
            prompt: vec![5, 6],
            tokens: 4,
            sampling: Sampling::greedy(),
            ..Request::default()
        })?;
        let mut tokens = Vec::new();
        generator.run(|token| {
            tokens.push(token.token);
            Ok(())
        })?;
        Ok(tokens)
    });
    let mut other = tokens.clone();
    other[3] = (other[3] + 1) % 37;
    let sequences =
        [&tokens, &other].map(|tokens| ScoredSequence::new(&[5, 6], tokens, TEXT).unwrap());
    let found = scores(&config, &sequences, 2);
    assert!(found[0].is_greedy && !found[1].is_greedy);
}
