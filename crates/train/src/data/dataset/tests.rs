use proptest::prelude::*;

use super::*;
use crate::data::{Content, TokenType, Tokens};

/// Tokens equal to their positions, so a batch shows where it was read.
fn positions(length: usize) -> Corpus {
    let tokens = Tokens::from_ids((0..length as u32).collect());
    Corpus::new(
        Content::Tokens {
            name: "positions".into(),
            tokens,
        },
        &Tokenizer::ids(length),
    )
    .unwrap()
}

fn settings(context: usize, global_batch: usize, order: OrderMode) -> Settings {
    Settings {
        context,
        global_batch,
        order,
        seed: 7,
        validation_batches: 3,
        validation_fraction: 0.25,
    }
}

fn modes() -> impl Strategy<Value = OrderMode> {
    prop_oneof![Just(OrderMode::Random), Just(OrderMode::Epoch)]
}

proptest! {
    #[test]
    fn cuts_of_the_range_do_not_matter(
        context in 1usize..9, global_batch in 1usize..13, cut in 0usize..13, step: u64, mode in modes(),
    ) {
        let data = Dataset::split(positions(200), &settings(context, global_batch, mode)).unwrap();
        let cut = cut.min(global_batch);
        let whole = data.batch(step, 0..global_batch).unwrap();
        let (mut left, right) = (data.batch(step, 0..cut).unwrap(), data.batch(step, cut..global_batch).unwrap());
        left.inputs.extend(right.inputs);
        left.targets.extend(right.targets);
        prop_assert_eq!(left, whole);
    }

    #[test]
    fn parts_never_overlap(length in 60usize..400, context in 1usize..9, step in 0u64..50, mode in modes()) {
        let data = Dataset::split(positions(length), &settings(context, 8, mode)).unwrap();
        let (training, validation) = (data.batch(step, 0..8).unwrap(), data.validation_batch(step as usize, 0..8).unwrap());
        let border = data.num_training_tokens() as u32;
        prop_assert!(training.inputs.iter().chain(&training.targets).all(|&token| token < border));
        prop_assert!(validation.inputs.iter().chain(&validation.targets).all(|&token| token >= border));
        prop_assert_eq!(data.num_training_tokens() + data.num_validation_tokens(), length);
    }

    #[test]
    fn targets_are_the_next_tokens(context in 1usize..9, step: u64, mode in modes()) {
        let data = Dataset::split(positions(100), &settings(context, 4, mode)).unwrap();
        for batch in [data.batch(step, 1..4).unwrap(), data.validation_batch(1, 1..4).unwrap()] {
            prop_assert_eq!(batch.inputs.len(), 3 * context);
            prop_assert!(batch.inputs.iter().zip(&batch.targets).all(|(input, target)| input + 1 == *target));
            for row in batch.inputs.chunks(context) {
                prop_assert!(row.windows(2).all(|pair| pair[0] + 1 == pair[1]));
            }
        }
    }
}

#[test]
fn seeds_and_steps_differ() {
    let of = |seed, step| {
        let settings = Settings {
            seed,
            ..settings(4, 8, OrderMode::Random)
        };
        Dataset::split(positions(500), &settings)
            .unwrap()
            .batch(step, 0..8)
            .unwrap()
    };
    assert_eq!(of(1, 1), of(1, 1));
    assert_ne!(of(1, 1), of(2, 1));
    assert_ne!(of(1, 1), of(1, 2));
}

#[test]
fn an_epoch_reads_every_training_token_once() {
    let data = Dataset::split(positions(108), &settings(4, 5, OrderMode::Epoch)).unwrap();
    // 81 of 108 tokens are for training: 20 windows of 4, 4 steps of 5.
    let mut inputs: Vec<u32> = (0..4)
        .flat_map(|step| data.batch(step, 0..5).unwrap().inputs)
        .collect();
    inputs.sort_unstable();
    assert_eq!(inputs, (0..80).collect::<Vec<u32>>());
    assert_eq!(data.epochs(4), 1.0);
}

#[test]
fn validation_repeats_and_reaches_both_ends() {
    let data = Dataset::split(positions(400), &settings(4, 2, OrderMode::Random)).unwrap();
    assert_eq!(
        data.validation_batch(0, 0..2).unwrap(),
        data.validation_batch(3, 0..2).unwrap()
    );
    assert_eq!(data.validation_batch(0, 0..1).unwrap().inputs[0], 300);
    assert_eq!(data.validation_batch(2, 1..2).unwrap().targets[3], 399);
}

#[test]
fn short_parts_and_odd_settings_are_refused() {
    let sentence = |settings: &Settings| {
        Dataset::split(positions(80), settings)
            .unwrap_err()
            .to_string()
    };
    let good = settings(64, 2, OrderMode::Random);
    assert_eq!(
        sentence(&good),
        "data: positions holds 80 tokens (60 training, 20 validation), needs at least 65 (context 64 + 1) in each \
         of the training and validation parts"
    );
    let fraction = |validation_fraction| Settings {
        validation_fraction,
        ..good.clone()
    };
    assert!(sentence(&fraction(1.0)).starts_with("data: validation fraction is 1, needs"));
    assert!(sentence(&fraction(f64::NAN)).starts_with("data: validation fraction is NaN, needs"));
    let error = sentence(&Settings {
        context: 0,
        ..good.clone()
    });
    assert_eq!(error, "data: context is 0, needs at least 1");
    assert!(
        sentence(&Settings {
            context: usize::MAX,
            ..good
        })
        .contains("holds 80 tokens")
    );
}

#[test]
fn a_range_outside_the_batch_is_refused() {
    let data = Dataset::split(positions(100), &settings(4, 8, OrderMode::Random)).unwrap();
    let error = data.batch(0, 4..9).unwrap_err().to_string();
    assert_eq!(
        error,
        "data: batch: found sequences 4..9, the global batch holds 8"
    );
    assert!(data.validation_batch(0, 9..9).is_err());
    assert!(data.batch(0, 8..8).unwrap().inputs.is_empty());
}

#[test]
fn two_files_make_a_pair() {
    let data = Dataset::pair(
        positions(50),
        positions(50),
        &settings(4, 2, OrderMode::Random),
    )
    .unwrap();
    assert_eq!(
        (data.num_training_tokens(), data.num_validation_tokens()),
        (50, 50)
    );
    let error = Dataset::pair(
        positions(50),
        positions(60),
        &settings(4, 2, OrderMode::Random),
    )
    .unwrap_err();
    assert!(error.to_string().contains("is 50 and 60"), "{error}");
}

#[test]
fn a_token_file_is_opened_whole() {
    let file = tempfile::Builder::new().suffix(".u16").tempfile().unwrap();
    let bytes: Vec<u8> = (0..200u16).flat_map(u16::to_le_bytes).collect();
    std::fs::write(file.path(), bytes).unwrap();
    let source = Source::detect(file.path(), &[], None).unwrap();
    assert_eq!(
        source,
        Source::TokenFile {
            path: file.path().to_path_buf(),
            dtype: TokenType::U16
        }
    );
    let settings = settings(4, 2, OrderMode::Epoch);
    let (data, tokenizer) = Dataset::open(&source, &TokenizerChoice::Ids(200), &settings).unwrap();
    assert_eq!((data.vocabulary_size(), tokenizer.name()), (200, "ids"));
    let batch = data.batch(0, 0..1).unwrap();
    assert_eq!(batch.inputs[0] + 1, batch.targets[0]);
    let error = Dataset::open(&source, &TokenizerChoice::Ids(150), &settings)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("token 150 at position 150 is outside the vocabulary of 150"),
        "{error}"
    );
}
