//! Models whose numbers are known: one that finds every token equally likely.

use super::{config, on_grid, scores};
use train::{
    data::Tokenizer,
    eval::{
        ChoiceSummary, Document, EncodedQuestion, Question, ScoredSequence, Scorer, perplexity,
        score_questions,
    },
};

/// All logits of such a model are 0, because its embedding is also its head.
fn uniform(grid: &str) -> train::Config {
    let grid = format!("parallel.grid = \"{grid}\"");
    config(&[
        "model.vocabulary = 256",
        "model.init_deviation = 1e-300",
        &grid,
    ])
}

fn near(found: f64, needed: f64) {
    assert!(
        (found - needed).abs() < 1e-9 * needed.abs(),
        "{found}, needs {needed}"
    );
}

#[test]
fn a_uniform_model_is_as_perplexed_as_its_vocabulary_is_large() {
    for (grid, stride) in [("x=1", 8), ("x=2", 3), ("pipeline=2", 1)] {
        let (sums, seen) = on_grid(&uniform(grid), move |pipeline, text| {
            let scorer = Scorer::new(pipeline, text, 4)?;
            let tokenizer = Tokenizer::bytes();
            let document = |text_of: &str| Document::new(text_of, &tokenizer, text);
            let documents = [document("one two three, four")?, document("é")?];
            let mut seen = 0;
            let sums = perplexity(&scorer, &documents, (10, stride), &mut |done| seen += done)?;
            Ok((sums, seen))
        });
        assert_eq!(
            (sums.documents, sums.tokens, sums.bytes, sums.words),
            (2, 21, 21, 5)
        );
        assert_eq!(seen, 21);
        near(sums.token_perplexity(), 256.0);
        near(sums.byte_perplexity(), 256.0);
        near(sums.bits_per_byte(), 8.0);
        near(sums.word_perplexity(), 256_f64.powf(21.0 / 5.0));
    }
}

#[test]
fn a_uniform_model_is_right_where_the_first_of_equal_choices_is() {
    let summary = on_grid(&uniform("x=2"), |pipeline, text| {
        let scorer = Scorer::new(pipeline, text, 3)?;
        let model = (&Tokenizer::bytes(), text);
        let questions = (0..6).map(|index| Question {
            line: index + 1,
            context: "q".into(),
            choices: ["ab", "cd", "ef"].map(str::to_owned).to_vec(),
            answer: index % 3,
        });
        let encoded = questions.map(|question| EncodedQuestion::new(&question, model, " ", None));
        let encoded: Vec<_> = encoded.collect::<train::Result<_>>()?;
        let mut seen = 0;
        let scores = score_questions(&scorer, &encoded, &mut |done| seen += done)?;
        assert_eq!(seen, 18);
        for score in &scores {
            assert_eq!((&score.tokens[..], score.chosen), (&[3; 3][..], 0));
            for found in &score.log_likelihoods {
                near(*found, -3.0 * 256_f64.ln());
            }
        }
        Ok(ChoiceSummary::of(&scores))
    });
    for mean in [
        summary.accuracy,
        summary.accuracy_per_byte,
        summary.accuracy_per_character,
    ] {
        near(mean.mean, 1.0 / 3.0);
        // Two of six are right: squares of 2/3 twice and of 1/3 four times, by 5, by 6.
        near(
            mean.standard_error.unwrap(),
            (12.0 / 9.0 / 5.0 / 6.0_f64).sqrt(),
        );
    }
    assert_eq!(summary.greedy.mean, 0.0);
}

#[test]
fn the_shortest_choice_wins_until_its_length_counts() {
    let (by_sum, by_byte) = on_grid(&uniform("x=1"), |pipeline, text| {
        let scorer = Scorer::new(pipeline, text, 8)?;
        let question = Question {
            line: 1,
            context: "q".into(),
            choices: ["abcd", "e"].map(str::to_owned).to_vec(),
            answer: 0,
        };
        let model = (&Tokenizer::bytes(), text);
        // Each choice has a token more than bytes, the space: 5 of 4 bytes are less than 2 of 1.
        let encoded = [EncodedQuestion::new(&question, model, " ", None)?];
        let score = score_questions(&scorer, &encoded, &mut |_| {})?.remove(0);
        Ok((score.chosen, score.chosen_per_byte))
    });
    assert_eq!((by_sum, by_byte), (1, 0));
}

#[test]
fn a_long_text_is_predicted_as_its_windows_are() {
    let config = config(&[]);
    let tokens: Vec<u32> = (0..21).map(|place| place * place % 37).collect();
    let document = Document {
        tokens: tokens.clone(),
        bytes: 21,
        words: 1,
    };
    let found = on_grid(&config, move |pipeline, text| {
        let scorer = Scorer::new(pipeline, text, 2)?;
        let documents = [document.clone()];
        perplexity(&scorer, &documents, (36, 5), &mut |_| {})
    });
    // By hand: 8 tokens after the first one, then 5 at a time with a context of 8.
    let text = train::architecture::Text {
        context: 8,
        vocabulary: 37,
    };
    let window = |given: &[u32], predicted: std::ops::Range<usize>| {
        ScoredSequence::new(given, &tokens[predicted], text).unwrap()
    };
    let windows = [
        window(&[36], 0..8),
        window(&tokens[..8], 8..13),
        window(&tokens[..13], 13..18),
        window(&tokens[..18], 18..21),
    ];
    let sum: f64 = scores(&config, &windows, 1)
        .iter()
        .map(|score| score.log_likelihood())
        .sum();
    assert_eq!(found.log_likelihood, sum);
    assert_eq!(found.tokens, 21);
}
