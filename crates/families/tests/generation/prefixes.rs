//! Texts that begin as others did: the same tokens to the bit, from what the others have computed.

use super::{
    Answer, Keys, LLAMA, Request, Sampling, answers, config,
    memory::{Rank, on_ranks},
};
use parallel::cache::PAGE_TOKENS;
use train::generate::{Generator, GeneratorOptions};

const BLOCK: usize = PAGE_TOKENS;

fn request(prompt: Vec<u32>, tokens: usize) -> Request {
    Request {
        prompt,
        tokens,
        sampling: Sampling::greedy(),
        log_probabilities: Some(2),
        ..Request::default()
    }
}

// Tokens that do not repeat soon, the same for every length.
fn text(from: u32, count: usize) -> Vec<u32> {
    let number = |place: u32| (from + place * place * 7 + place * 3) % 37;
    (0..count as u32).map(number).collect()
}

fn options(prefixes: usize) -> GeneratorOptions {
    GeneratorOptions {
        sequences: 2,
        prefill: 50,
        prefixes,
        ..GeneratorOptions::default()
    }
}

// A text; one that shares 70 tokens with it, and one that shares too few; two that share 90 and run together; one that is longer than
// the context.
fn requests(first: &[u32]) -> Vec<(usize, Request)> {
    let tail = |count: usize, tail: Vec<u32>| [&first[..count], &tail].concat();
    vec![
        (0, request(first.to_vec(), 20)),
        (30, request(tail(70, text(5, 30)), 25)),
        (31, request(tail(10, text(8, 15)), 5)),
        (62, request(tail(90, text(9, 12)), 9)),
        (66, request(tail(90, text(11, 12)), 9)),
        (90, request(tail(100, text(3, 60)), 9)),
    ]
}

#[test]
fn texts_have_the_bits_that_they_have_alone() {
    let windows = [
        "model.local_blocks = 1",
        "model.sliding_window = 20",
        "model.init_deviation = 0.2",
    ];
    for edits in [&[][..], &LLAMA, &[&LLAMA[..], &windows].concat()] {
        let edits = [edits, &["model.context = 128"]].concat();
        for grid in ["x=1", "x=2,pipeline=2", "z=2,pipeline=3"] {
            let mut config = config(&edits);
            config.parallel.grid = grid.parse().unwrap();
            let requests = requests(&text(0, 100));
            let found = |prefixes| answers(&config, Keys::Kept, &options(prefixes), &requests);
            let expected: Vec<Answer> = found(0);
            for prefixes in [BLOCK, 1000] {
                assert_eq!(found(prefixes), expected, "{edits:?} on {grid}, {prefixes}");
            }
        }
    }
}

/// Runs a request to its end, and returns its tokens and how many of its prompt were not run.
fn run(generator: &mut Generator, request: Request) -> train::Result<(Vec<u32>, usize)> {
    let before = generator.speed();
    let len = request.prompt.len();
    generator.add(request)?;
    let mut tokens = Vec::new();
    generator.run(|token| {
        tokens.push(token.token);
        Ok(())
    })?;
    let after = generator.speed();
    let reused = after.reused_tokens - before.reused_tokens;
    let run = after.prefill_tokens - before.prefill_tokens;
    assert_eq!(run + reused, len);
    Ok((tokens, reused))
}

#[test]
fn as_many_tokens_are_reused_as_are_alike() {
    let edits = ["model.context = 512", "parallel.grid = \"x=2,pipeline=2\""];
    let reused = on_ranks(config(&edits), options(1000), |_, generator| {
        let first = text(0, 100);
        let (answer, none) = run(generator, request(first.clone(), 20))?;
        let mut reused = vec![none];
        // The same again: one token has to be run.
        reused.push(run(generator, request(first.clone(), 3))?.1);
        // All but the last token, which was not run; then another turn.
        let turn = [&first[..], &answer, &text(7, 11)].concat();
        reused.push(run(generator, request(turn.clone(), 5))?.1);
        for (count, tail) in [(99, 4), (16, 4), (15, 4)] {
            let tail = vec![36 - first[count]; tail];
            let other = [&first[..count], &tail].concat();
            reused.push(run(generator, request(other, 2))?.1);
        }
        // Of one that is cancelled while it runs.
        let id = generator.add(request(text(20, 80), 50))?;
        for _ in 0..4 {
            generator.step()?;
        }
        assert!(generator.cancel(id));
        reused.push(run(generator, request(text(20, 80), 2))?.1);
        Ok(reused)
    });
    assert_eq!(reused[0], [0, 99, 119, 99, 16, 0, 79]);
}

#[test]
fn texts_that_start_together_run_their_common_beginning_once() {
    let config = config(&["model.context = 512", "parallel.grid = \"x=2\""]);
    let options = GeneratorOptions {
        sequences: 5,
        ..options(1000)
    };
    let speeds = on_ranks(config.clone(), options.clone(), |_, generator| {
        for _ in 0..4 {
            generator.add(request(text(0, 120), 8))?;
        }
        generator.add(request(text(4, 30), 8))?;
        generator.step()?;
        // Of a prompt of 120 tokens a step runs 50; the one that begins otherwise has the next place.
        assert_eq!((generator.num_running(), generator.num_waiting()), (2, 3));
        generator.run(|_| Ok(()))?;
        Ok(generator.speed())
    });
    let speed = speeds[0];
    assert_eq!(
        (speed.prefill_tokens, speed.reused_tokens),
        (120 + 30 + 3, 3 * 119)
    );
    let same = vec![(0, request(text(0, 120), 8)); 4];
    let found = answers(&config, Keys::Kept, &options, &same);
    assert_eq!(found[1..], [&found[0]; 3].map(Clone::clone));
    let alone = answers(&config, Keys::Kept, &self::options(0), &same[..1]);
    assert_eq!(found[..1], alone);
}

#[test]
fn layers_that_have_dropped_keys_begin_anew_on_all_ranks() {
    // The first two of three layers have windows, so a stage has none.
    let edits = [
        &LLAMA[..],
        &[
            "model.context = 512",
            "model.local_blocks = 2",
            "model.sliding_window = 20",
            "parallel.grid = \"pipeline=3\"",
        ],
    ]
    .concat();
    let reused = on_ranks(config(&edits), options(1000), |_, generator| {
        let first = text(0, 300);
        let (answer, _) = run(generator, request(first.clone(), 20))?;
        let early = [&first[..150], &text(7, 11)].concat();
        let early = run(generator, request(early, 2))?.1;
        let turn = [&first[..], &answer, &text(7, 11)].concat();
        Ok((early, run(generator, request(turn, 2))?.1))
    });
    assert_eq!(reused, [(0, 319); 3]);
}

#[test]
fn what_is_kept_is_bounded_and_gives_way_to_what_runs() {
    let edits = ["model.context = 512"];
    let (kept_tokens, prefixes) = (6 * BLOCK, 4 * BLOCK);
    let options = GeneratorOptions {
        kept_tokens,
        ..options(prefixes)
    };
    let block = 2 * BLOCK * 32 * 4 * 3;
    let ends = on_ranks(config(&edits), options, move |rank: &Rank, generator| {
        let blocks = || rank.keys_and_values().div_ceil(block);
        let mut seen = Vec::new();
        for from in 0..4 {
            // Each takes two pages: the newest two texts stay, and a third one's pages for the next.
            run(generator, request(text(from, 100), 10))?;
            seen.push(blocks());
        }
        let again = |generator: &mut Generator, from| {
            Ok::<_, train::Error>(run(generator, request(text(from, 100), 10))?.1)
        };
        let reused = [3, 0, 3].map(|from| again(generator, from));
        let reused = reused.into_iter().collect::<train::Result<Vec<_>>>()?;
        // One that needs five blocks leaves room for one, and takes all the others' place.
        generator.add(request(text(30, 300), 10))?;
        let mut most = 0;
        while !generator.is_idle() {
            generator.step()?;
            most = most.max(blocks());
        }
        seen.push(blocks());
        Ok((seen, reused, most))
    });
    let (seen, reused, most) = &ends[0];
    assert_eq!(seen[..4], [2, 4, 6, 6]);
    assert_eq!(reused, &[99, 0, 99]);
    // It exceeds what may stay.
    assert_eq!(seen[4], 0);
    assert!(*most * BLOCK <= kept_tokens, "{most} blocks");
}
