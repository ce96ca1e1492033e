//! The memory of kept keys and values.

use super::{Keys, Sampling, config, pipeline};
use bootstrap::local::{Options, run};
use parallel::{Context, Pipeline, cache::PAGE_TOKENS};
use tensor::{Device, MemoryKind};
use train::{
    Config,
    data::Tokenizer,
    generate::{Generator, GeneratorOptions, Request, text},
};

fn request(prompt: usize, tokens: usize) -> Request {
    Request {
        prompt: vec![3; prompt],
        tokens,
        sampling: Sampling::greedy(),
        ..Request::default()
    }
}

/// What a rank has.
pub struct Rank<'a> {
    device: &'a Device,
    context: &'a Context,
    pipeline: &'a Pipeline,
}

impl Rank<'_> {
    pub fn keys_and_values(&self) -> usize {
        let used = self.device.memory_use();
        used.of(MemoryKind::KeysValues).in_use
    }
}

/// What `work` returns on each rank of the configuration's grid.
pub fn on_ranks<T: Send + 'static>(
    config: Config,
    options: GeneratorOptions,
    work: impl Fn(&Rank, &mut Generator) -> train::Result<T> + Send + Sync + 'static,
) -> Vec<T> {
    let ranks = config.grid().unwrap().world_size();
    let ends = run(Options::new(ranks), move |world| {
        let device = testkit::device(&config, world.rank())?;
        let context = config.context(&world, &device)?;
        let pipeline = pipeline(&context, &config, Keys::Kept)?;
        let text = text(&config)?;
        let tokenizer = Tokenizer::ids(text.vocabulary);
        let mut generator = Generator::new(&pipeline, text, &tokenizer, options.clone())?;
        let rank = Rank {
            device: &device,
            context: &context,
            pipeline: &pipeline,
        };
        work(&rank, &mut generator)
    });
    ends.unwrap_or_else(|failure| panic!("{}", failure.report()))
}

#[test]
fn memory_grows_by_blocks_and_returns() {
    let edits = [
        "model.context = 200",
        "model.hidden = 64",
        "training.precision = \"bf16\"",
        "parallel.grid = \"x=2,pipeline=2\"",
    ];
    let options = GeneratorOptions {
        sequences: 2,
        prefill: 100,
        kept_tokens: 256,
        prefixes: 0,
    };
    let ends = on_ranks(config(&edits), options, |rank, generator| {
        let held = || rank.keys_and_values();
        let in_use = rank.device.memory_use().in_use;
        // Keys and values of half of the heads, in two bytes each, of the layers of this stage: attention is in segments 1, 3, 5.
        let stage = rank.context.index(grid::Axis::Pipeline);
        let segments = rank.pipeline.cut().segments(stage);
        let layers = segments
            .filter(|segment| [1, 3, 5].contains(segment))
            .count();
        let block = layers * 2 * PAGE_TOKENS * 64 / 2 * 2;
        let mut seen = Vec::new();
        generator.add(request(10, 57))?;
        // 150 + 90 - 1 tokens need four blocks, but the window never holds more than 200, which are as many.
        generator.add(request(150, 90))?;
        // This one has to wait, because the two others may need five blocks of four.
        generator.add(request(1, 2))?;
        while !generator.is_idle() {
            generator.step()?;
            // A block of memory that is reused may be larger by an eighth.
            seen.push(held() / block);
            assert!(held() <= seen[seen.len() - 1] * block * 9 / 8);
        }
        assert_eq!(held(), 0);
        assert_eq!(
            rank.device.memory_use().in_use,
            in_use,
            "all other memory returns too"
        );
        let id = generator.add(request(20, 5))?;
        generator.step()?;
        assert_eq!(held(), block);
        assert!(generator.cancel(id) && !generator.cancel(id));
        assert_eq!(held(), 0);
        Ok((layers, seen))
    });
    assert_eq!(ends.iter().map(|end| end.0).sum::<usize>(), 2 * 3);
    for (_, seen) in &ends {
        assert_eq!(seen, &ends[0].1);
    }
    let seen = &ends[0].1;
    // The first request runs alone: 10 + 55 tokens are kept before the last one.
    assert_eq!(seen[..57], [vec![1; 55], vec![2, 0]].concat()[..]);
    // Then the second and third: 100 tokens of the prompt, then all, then new ones, until the third has its two tokens.
    assert_eq!(seen[57..60], [2, 3, 3]);
    assert_eq!(*seen.iter().max().unwrap(), 4);
}

// Of windows of 100 tokens, at most 100 + 63 are kept before a new one. One of two layers has no window.
#[test]
fn keys_before_a_window_return_their_memory() {
    let edits = [
        "model.family = \"llama\"",
        "model.context = 400",
        "model.layers = 2",
        "model.local_blocks = 1",
        "model.sliding_window = 100",
    ];
    let block = 2 * PAGE_TOKENS * 32 * 4;
    let seen = on_ranks(config(&edits), Default::default(), |rank, generator| {
        generator.add(request(10, 391))?;
        let mut seen = Vec::new();
        while !generator.is_idle() {
            generator.step()?;
            seen.push(rank.keys_and_values());
        }
        Ok(seen)
    });
    // The layer without a window holds 7 blocks of its 400 tokens, the other one 3.
    let most = *seen[0].iter().max().unwrap();
    assert!(
        (10 * block..=10 * block * 9 / 8).contains(&most),
        "{most} bytes, {block} a block"
    );
}

// Of 130 tokens two pages are full, and the third is each text's own.
#[test]
fn texts_that_begin_alike_share_full_pages() {
    let options = GeneratorOptions {
        prefixes: 1,
        ..GeneratorOptions::default()
    };
    let edits = ["model.context = 512", "model.layers = 1"];
    let page = 2 * PAGE_TOKENS * 32 * 4;
    let seen = on_ranks(config(&edits), options, move |rank, generator| {
        for _ in 0..3 {
            generator.add(request(131, 20))?;
        }
        let mut seen = Vec::new();
        while !generator.is_idle() {
            generator.step()?;
            seen.push(rank.keys_and_values() / page);
        }
        Ok(seen)
    });
    // The others wait for the first one's beginning.
    assert_eq!(seen[0][..3], [3, 5, 5]);
    assert_eq!(seen[0].last(), Some(&0));
}

#[test]
fn keys_that_exceed_the_device_are_an_error_with_the_numbers_and_a_later_step_goes_on() {
    let mut config = config(&["model.context = 512", "model.hidden = 64"]);
    config.device.memory_limit = Some(1600 << 10);
    let mut ends = on_ranks(config, Default::default(), |_, generator| {
        let ids: Vec<_> = (0..6).map(|_| generator.add(request(60, 300))).collect();
        let error = loop {
            match generator.step() {
                Ok(_) => {}
                Err(error) => break error.to_string(),
            }
        };
        for id in ids.into_iter().skip(1) {
            generator.cancel(id?);
        }
        let mut tokens = 0;
        while !generator.is_idle() {
            tokens += generator.step()?.len();
        }
        Ok((error, tokens))
    });
    let (error, tokens) = ends.remove(0);
    assert!(
        error.contains("memory") && error.contains("keys and values"),
        "{error}"
    );
    assert!(tokens > 100, "{tokens} tokens after the error");
}
