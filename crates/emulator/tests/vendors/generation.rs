//! Texts that share the steps of a model, and pages of keys, have the tokens of the CPU vendor. Where a device keeps the order of
//! sums, log-probabilities have the bits of each text alone.

use crate::{CUDA, ROCM, Way};
use std::sync::Arc;
use testkit::contract::Open;
use train::{
    Config,
    data::Tokenizer,
    generate::{Generator, GeneratorOptions, Request, Sampling, inference, text},
};

/// Query heads that share keys, rotary positions, a window in every second block, and weights that matter.
const CONFIG: &str = r#"
    [model]
    family = "llama"
    layers = 2
    hidden = 32
    heads = 4
    kv_heads = 2
    local_blocks = 1
    sliding_window = 70
    context = 640
    vocabulary = 37
    init_deviation = 0.4
    [training]
    reproducible = "run"
    [parallel]
    grid = "x=1"
"#;

/// A token and the bits of its log-probability.
type Chosen = (u32, u64);

// Of one page, of parts of the keys on several blocks, one that begins as this one does, and a short one.
fn prompts() -> Vec<Vec<u32>> {
    let long: Vec<u32> = (0..540).map(|place| place * place % 31).collect();
    let alike = [&long[..130], &[36, 35]].concat();
    vec![long[5..69].to_vec(), long, alike, vec![3, 1, 4]]
}

fn texts(config: &Config, open: Open, prompts: &[Vec<u32>]) -> Vec<Vec<Chosen>> {
    let (shared, prompts) = (config.clone(), prompts.to_vec());
    let ranks = config.grid().unwrap().world_size();
    let mut found = testkit::ranks_with(ranks, open, move |world, device| {
        let context = shared.context(&world, &device)?;
        let pipeline = inference(&context, &shared)?;
        let text = text(&shared)?;
        let tokenizer = Tokenizer::ids(text.vocabulary);
        let options = GeneratorOptions {
            prefixes: 256,
            ..GeneratorOptions::default()
        };
        let mut generator = Generator::new(&pipeline, text, &tokenizer, options)?;
        let mut ids = Vec::new();
        for prompt in &prompts {
            ids.push(generator.add(Request {
                prompt: prompt.clone(),
                tokens: 6,
                sampling: Sampling::greedy(),
                log_probabilities: Some(1),
                ..Request::default()
            })?);
        }
        let mut all = vec![Vec::new(); prompts.len()];
        generator.run(|token| {
            let place = ids.iter().position(|id| *id == token.request);
            let own = token.log_probability.map_or(0, f64::to_bits);
            all[place.expect("an id")].push((token.token, own));
            Ok(())
        })?;
        Ok(all)
    });
    found.swap_remove(0)
}

fn of_cpu(ordinal: usize) -> hal::Result<Arc<dyn hal::Device>> {
    cpu::open(cpu::Options {
        ordinal,
        ..cpu::Options::default()
    })
}

fn check(way: Way, grid: &str) {
    if !way.is_ready("generation") {
        return;
    }
    let config = |grid: &str| testkit::edited(CONFIG, &[&format!("parallel.grid = \"{grid}\"")]);
    let expected = texts(&config("x=1"), of_cpu, &prompts());
    let found = texts(&config(grid), way.open, &prompts());
    let in_order = texts(&config(grid), way.canonical, &prompts());
    for found in [&found, &in_order] {
        for (found, expected) in found.iter().zip(&expected) {
            let tokens = |all: &[Chosen]| all.iter().map(|one| one.0).collect::<Vec<_>>();
            assert_eq!(tokens(found), tokens(expected), "{}, {grid}", way.vendor);
            for (found, expected) in found.iter().zip(expected) {
                let [found, expected] = [found, expected].map(|one| f64::from_bits(one.1));
                assert!((found - expected).abs() < 1e-3, "{found} for {expected}");
            }
        }
    }
    let alone = texts(&config(grid), way.canonical, &prompts()[1..2]);
    assert_eq!(in_order[1], alone[0], "{}, {grid}", way.vendor);
}

#[test]
fn cuda_gives_the_tokens_of_the_cpu() {
    check(CUDA, "x=1");
    check(CUDA, "x=2");
}

#[test]
fn rocm_gives_the_tokens_of_the_cpu() {
    check(ROCM, "pipeline=2");
}
