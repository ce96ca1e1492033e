//! Documents packed into one row have the losses and gradients of the same documents in rows of their own, on every grid, and
//! to the bit where that is asked.

use ::train::{Config, config::Precision, data::Batch};
use families::{DocumentEnd, GptFamily};
use grid::Degrees;
use hal::random::Key;
use parallel::{ContextAttention, Reproducible};
use std::ops::Range;
use testkit::{
    Outcome, SCHEDULES, assert_near, bits, config, difference, edit_gpt, on, scaled, serial, train,
    train_rows,
};

const F64: f64 = 1e-9;

/// Tokens of a row, and the token that ends a document.
const TOKENS: usize = 16;
const END: u32 = 5;
/// Lengths of the documents of a row; every row begins with another of them.
const LENGTHS: [usize; 4] = [3, 8, 1, 4];
const ROWS: usize = 16;

fn gpt2(precision: Precision) -> Config {
    let mut config = config(precision);
    (config.training.steps, config.training.clip_norm) = (1, 0.0);
    config.training.batch = ROWS;
    edit_gpt(&mut config, |model| {
        (model.context, model.vocabulary) = (TOKENS, 8);
        model.document_end = DocumentEnd(Some(END));
    });
    config
}

fn llama(precision: Precision) -> Config {
    let mut config = gpt2(precision);
    edit_gpt(&mut config, |model| {
        (model.family, model.tied_head) = (GptFamily::Llama, false);
        (model.hidden, model.heads, model.kv_heads) = (64, 16, 8);
        model.mlp_hidden = 80;
    });
    config
}

/// The documents of a row, as the places of their tokens.
fn documents(row: usize) -> Vec<Range<usize>> {
    let lengths = (0..LENGTHS.len()).map(|index| LENGTHS[(row + index) % LENGTHS.len()]);
    let ends = lengths.scan(0, |end, length| {
        *end += length;
        Some(*end - length..*end)
    });
    ends.collect()
}

/// The token at a place of a row: each document ends with [`END`], which is nowhere else.
fn token(row: usize, place: usize) -> u32 {
    let ends = documents(row).iter().any(|tokens| tokens.end == place + 1);
    let drawn = Key::new(7, "tokens", row as u64).block(place as u64)[0] % 7;
    match (ends, drawn) {
        (true, _) => END,
        (false, END) => 7,
        (false, drawn) => drawn,
    }
}

fn packed(rows: Range<usize>) -> Batch {
    let all = |shift: usize| {
        let rows = rows.clone();
        rows.flat_map(move |row| (0..TOKENS).map(move |place| token(row, place + shift)))
    };
    Batch {
        inputs: all(0).collect(),
        targets: all(1).collect(),
    }
}

/// A document in each row. Behind it are tokens without targets, which no token of the document sees.
fn alone(rows: Range<usize>) -> Batch {
    let mut batch = Batch {
        inputs: Vec::new(),
        targets: Vec::new(),
    };
    for index in rows {
        let row = index / LENGTHS.len();
        let tokens = documents(row)[index % LENGTHS.len()].clone();
        let rest = TOKENS - tokens.len();
        let padding = |with: u32| std::iter::repeat_n(with, rest);
        let inputs = tokens.clone().map(|place| token(row, place));
        let targets = tokens.map(|place| token(row, place + 1));
        batch.inputs.extend(inputs.chain(padding(1)));
        batch.targets.extend(targets.chain(padding(u32::MAX)));
    }
    batch
}

fn trained(config: &Config, rows: fn(Range<usize>) -> Batch) -> Outcome {
    train_rows(config, move |_, range| Ok(rows(range).into_rows(TOKENS)))
}

/// What the documents of the packed rows give in rows of their own: a mean over more rows, of which only the documents'
/// tokens count.
fn expected(config: &Config) -> Outcome {
    let mut config = on(config, Degrees::default());
    config.training.batch = ROWS * LENGTHS.len();
    edit_gpt(&mut config, |model| model.document_end = DocumentEnd(None));
    scaled(trained(&config, alone), LENGTHS.len() as f64)
}

fn check_packed(config: &Config, expected: &Outcome, grids: &[&str]) {
    for grid in grids {
        let config = on(config, grid.parse().unwrap());
        assert_near(&trained(&config, packed), expected, F64, grid);
    }
}

const GRIDS: [&str; 9] = [
    "x=1",
    "context=2",
    "context=4",
    "x=2",
    "y=2",
    "pipeline=2",
    "x=2,context=2,pipeline=2",
    "z=2,context=2,data=2",
    "x=2,y=2,z=2",
];

#[test]
fn packed_documents_are_documents_alone_in_gpt2() {
    let config = gpt2(Precision::F64);
    check_packed(&config, &expected(&config), &GRIDS);
}

#[test]
fn packed_documents_are_documents_alone_in_llama() {
    let mut config = llama(Precision::F64);
    let expected = expected(&config);
    check_packed(&config, &expected, &GRIDS);
    (config.training.recompute, config.parallel.sequence_parallel) = (true.into(), true);
    check_packed(
        &config,
        &expected,
        &["x=2", "x=2,context=2", "x=2,pipeline=2"],
    );
}

#[test]
fn packed_documents_are_documents_alone_in_every_way_over_context() {
    for mut config in [gpt2(Precision::F64), llama(Precision::F64)] {
        let expected = expected(&config);
        for way in ["heads", "ring", "ring:2"] {
            config.parallel.context_attention = way.parse().unwrap();
            for spread in [false, true] {
                config.parallel.sequence_parallel = spread;
                check_packed(
                    &config,
                    &expected,
                    &["context=2", "context=4", "x=2,context=2"],
                );
            }
        }
    }
}

// A window closes within the longest document, and in the next block it begins in the middle of one.
#[test]
fn packed_documents_are_documents_alone_where_attention_has_windows() {
    for mut config in [gpt2(Precision::F64), llama(Precision::F64)] {
        edit_gpt(&mut config, |model| model.sliding_window = 3);
        let expected = expected(&config);
        check_packed(
            &config,
            &expected,
            &["x=1", "x=2,pipeline=2", "context=2", "context=4"],
        );
        for way in ["heads", "ring"] {
            config.parallel.context_attention = way.parse().unwrap();
            check_packed(&config, &expected, &["context=2", "context=4"]);
        }
    }
}

// Documents change the result at all: otherwise the tests above would compare the same thing twice.
#[test]
fn rows_that_are_one_document_have_other_losses() {
    for mut config in [gpt2(Precision::F64), llama(Precision::F64)] {
        let several = trained(&config, packed);
        edit_gpt(&mut config, |model| model.document_end = DocumentEnd(None));
        let one = trained(&config, packed);
        let difference = (one.losses[0] - several.losses[0]).abs();
        assert!(difference > 1e-6, "{difference}");
    }
}

#[test]
fn every_schedule_and_tokens_that_do_not_divide() {
    for schedule in SCHEDULES {
        let mut config = gpt2(Precision::F64);
        config.training.steps = 3;
        config.training.micro_batches = 4;
        edit_gpt(&mut config, |model| {
            (model.context, model.dropout) = (15, 0.2)
        });
        let expected = serial(&config);
        config.parallel.schedule = schedule.parse().unwrap();
        for grid in ["pipeline=2", "context=2,pipeline=2"] {
            let found = train(&on(&config, grid.parse().unwrap()));
            let difference = difference(&found, &expected);
            assert!(
                difference.largest() <= F64,
                "{schedule}, {grid}: {difference}"
            );
        }
    }
}

#[test]
fn every_grid_has_the_bits_of_one_rank() {
    for (mut config, recompute) in [
        (gpt2(Precision::F32), false),
        (llama(Precision::F32), true),
        (llama(Precision::Bf16), false),
    ] {
        config.training.steps = 3;
        config.training.recompute = recompute.into();
        config.training.reproducible = Reproducible::Grid.into();
        let expected = serial(&config);
        for grid in GRIDS {
            for way in [ContextAttention::Gather, ContextAttention::Heads] {
                config.parallel.context_attention = way;
                let found = train(&on(&config, grid.parse().unwrap()));
                bits::check(&found, &expected, grid);
            }
        }
    }
}
