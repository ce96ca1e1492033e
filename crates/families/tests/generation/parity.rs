//! Kept keys against complete windows.

use super::{
    Answer, GeneratorOptions, Keys, LLAMA, Request, Sampling, answers, config, in_pieces, requests,
};
use grid::{Degrees, factorisations};

/// Ranks of the largest grids: 8 if this is set, otherwise 4.
const ALL_GRIDS: &str = "FASCICLE_TEST_ALL_GRIDS";

fn grids() -> Vec<Degrees> {
    let sizes: &[usize] = match std::env::var_os(ALL_GRIDS) {
        Some(_) => &[1, 2, 4, 8],
        None => &[1, 2, 4],
    };
    let all = sizes.iter().flat_map(|ranks| factorisations(*ranks));
    all.filter(|grid| grid.data == 1 && grid.context == 1)
        .collect()
}

fn kept_and_recomputed(edits: &[&str], grid: &Degrees) -> Vec<Answer> {
    let mut config = config(edits);
    config.parallel.grid = *grid;
    let kept = answers(&config, Keys::Kept, &in_pieces(), &requests());
    let recomputed = answers(
        &config,
        Keys::Recomputed,
        &GeneratorOptions::default(),
        &requests(),
    );
    assert_eq!(kept, recomputed, "{edits:?} on {grid:?}");
    for (answer, (_, request)) in kept.iter().zip(requests()) {
        assert_eq!(answer.tokens.len(), request.tokens);
        assert_eq!(answer.finish, Some("length"));
    }
    kept
}

fn tokens(answers: &[Answer]) -> Vec<Vec<u32>> {
    answers.iter().map(|answer| answer.tokens.clone()).collect()
}

fn on_every_grid(edits: &[&str]) {
    let serial = kept_and_recomputed(edits, &Degrees::default());
    // A model that answers everything alike would prove nothing.
    let distinct: std::collections::HashSet<u32> = tokens(&serial).concat().into_iter().collect();
    assert!(distinct.len() > 8, "{serial:?}");
    for grid in grids() {
        let found = kept_and_recomputed(edits, &grid);
        assert_eq!(tokens(&found), tokens(&serial), "{edits:?} on {grid:?}");
    }
}

#[test]
fn weights_beyond_the_device_give_the_same_tokens() {
    let edits = [&LLAMA[..], &["training.precision = \"bf16\""]].concat();
    for grid in ["x=1", "z=2", "x=2,pipeline=2"] {
        let grid = grid.parse().unwrap();
        let there = kept_and_recomputed(&edits, &grid);
        for place in ["host", "files"] {
            let place = format!("placement.weights = \"{place}\"");
            let mut config = config(&[&edits[..], &[&place]].concat());
            config.parallel.grid = grid;
            let found = answers(&config, Keys::Kept, &in_pieces(), &requests());
            assert_eq!(found, there, "{place} on {grid:?}");
        }
    }
}

#[test]
fn a_gpt2_on_every_grid() {
    on_every_grid(&["training.precision = \"f32\""]);
}

#[test]
fn a_llama_on_every_grid() {
    on_every_grid(&[&LLAMA[..], &["training.precision = \"f32\""]].concat());
}

#[test]
fn norms_of_heads_on_every_grid() {
    let normed = ["model.qk_norm = true", "training.precision = \"f32\""];
    on_every_grid(&[&LLAMA[..], &normed].concat());
}

#[test]
fn a_gemma_on_every_grid() {
    let edits = [
        "model.family = \"gemma\"",
        "model.kv_heads = 4",
        "training.precision = \"f32\"",
    ];
    on_every_grid(&edits);
}

#[test]
fn a_gemma_2_and_3_on_every_grid() {
    let edits = [
        "model.family = \"gemma\"",
        "model.kv_heads = 4",
        "model.qk_norm = true",
        "model.post_norms = true",
        "model.score_size = 12",
        "model.local_blocks = 1",
        "model.sliding_window = 3",
        "model.local_rope_base = 100.0",
        "model.score_cap = 0.7",
        "model.logit_cap = 1.5",
        "training.precision = \"f32\"",
    ];
    on_every_grid(&edits);
}

// Sequences of several blocks, whose first ones are dropped: in layers with windows, and with documents too.
#[test]
fn keys_before_windows_are_dropped() {
    let prompt = (0..150).map(|place| place * 7 % 37).collect();
    let request = Request {
        prompt,
        tokens: 110,
        sampling: Sampling::greedy(),
        log_probabilities: Some(2),
        ..Request::default()
    };
    let requests = [(0, request)];
    let whole = "model.document_end = \"none\"";
    for (end, grid) in [
        (whole, "x=1"),
        (whole, "x=2,pipeline=2"),
        ("model.document_end = 5", "x=1"),
    ] {
        let edits = [
            "model.context = 300",
            "model.local_blocks = 1",
            "model.sliding_window = 70",
            "model.init_deviation = 0.2",
            end,
        ];
        let mut config = config(&[&LLAMA[..], &edits].concat());
        config.parallel.grid = grid.parse().unwrap();
        let options = GeneratorOptions {
            prefill: 40,
            ..GeneratorOptions::default()
        };
        let kept = answers(&config, Keys::Kept, &options, &requests);
        let recomputed = answers(&config, Keys::Recomputed, &options, &requests);
        assert_eq!(kept, recomputed, "{end} on {grid}");
        let distinct: std::collections::HashSet<u32> = tokens(&kept).concat().into_iter().collect();
        assert!(distinct.len() > 3, "{kept:?}");
    }
}

#[test]
fn a_gpt_neox_on_every_grid() {
    let edits = [
        "model.family = \"gpt_neox\"",
        "model.parallel_residual = true",
        "model.rotary_size = 2",
        "model.tied_head = false",
        "training.precision = \"f32\"",
    ];
    on_every_grid(&edits);
}

// The bits of every grid, so that rounding to bf16 does not choose other tokens than on one rank.
const BF16: [&str; 2] = [
    "training.precision = \"bf16\"",
    "training.reproducible = \"grid\"",
];

#[test]
fn a_gpt2_in_bf16_on_every_grid() {
    on_every_grid(&BF16);
}

#[test]
fn a_llama_in_bf16_on_every_grid() {
    on_every_grid(&[&LLAMA[..], &BF16].concat());
}

#[test]
fn sums_of_one_run_in_bf16_on_some_grids() {
    for grid in ["x=1", "x=2,pipeline=2", "y=2,z=2"] {
        kept_and_recomputed(&["training.precision = \"bf16\""], &grid.parse().unwrap());
    }
}

#[test]
fn replicas_and_ranks_of_context_have_the_same_sequences() {
    for grid in [
        "data=2",
        "context=2",
        "x=2,context=2",
        "context=2,pipeline=2",
    ] {
        kept_and_recomputed(&[], &grid.parse().unwrap());
    }
}

#[test]
fn vectors_that_are_spread_over_x() {
    let spread = ["parallel.sequence_parallel = true"];
    for grid in ["x=2", "x=2,pipeline=2", "x=2,y=2"] {
        kept_and_recomputed(&spread, &grid.parse().unwrap());
    }
}

#[test]
fn documents_in_the_window() {
    let end = "model.document_end = 3";
    for edits in [&[end][..], &[&LLAMA[..], &[end]].concat()] {
        let with = kept_and_recomputed(edits, &"x=2,pipeline=2".parse().unwrap());
        let without = kept_and_recomputed(&edits[..edits.len() - 1], &Degrees::default());
        assert_ne!(
            tokens(&with),
            tokens(&without),
            "two prompts have a token 3"
        );
    }
}
