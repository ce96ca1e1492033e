//! Requests that share steps do not change each other; how texts end.

use super::{
    GeneratorOptions, Keys, LLAMA, Request, Sampling, answers, config, in_pieces, requests,
};

#[test]
fn a_request_has_the_bits_that_it_has_alone() {
    for edits in [&["training.precision = \"bf16\""][..], &LLAMA] {
        for grid in ["x=1", "x=2,pipeline=2"] {
            let mut config = config(edits);
            config.parallel.grid = grid.parse().unwrap();
            let together = answers(&config, Keys::Kept, &in_pieces(), &requests());
            let at_once = answers(
                &config,
                Keys::Kept,
                &GeneratorOptions::default(),
                &requests(),
            );
            assert_eq!(together, at_once, "{edits:?} on {grid}");
            for (answer, (_, request)) in together.iter().zip(requests()) {
                let alone = answers(
                    &config,
                    Keys::Kept,
                    &GeneratorOptions::default(),
                    &[(0, request)],
                );
                assert_eq!(std::slice::from_ref(answer), alone, "{edits:?} on {grid}");
            }
        }
    }
}

#[test]
fn a_text_ends_before_a_stop_string_and_with_the_token_for_it() {
    let greedy = |stop: &[&str], end| Request {
        prompt: vec![5],
        tokens: 12,
        sampling: Sampling::greedy(),
        stop: stop.iter().map(|stop| (*stop).to_owned()).collect(),
        end,
        ..Request::default()
    };
    let of = |request| {
        let config = config(&["parallel.grid = \"x=2,pipeline=2\""]);
        answers(
            &config,
            Keys::Kept,
            &GeneratorOptions::default(),
            &[(0, request)],
        )
        .remove(0)
    };
    let all = of(greedy(&[], None));
    assert_eq!((all.tokens.len(), all.finish), (12, Some("length")));
    // Words are tokens here: a stop string over two of them, of which the second appears for the first time.
    let first = |place: usize| !all.tokens[..place].contains(&all.tokens[place]);
    let place = (3..12).find(|place| first(*place)).expect("a new token");
    let words: Vec<String> = all.tokens.iter().map(u32::to_string).collect();
    let stop = format!("{} {}", words[place - 1], words[place]);
    let stopped = of(greedy(&["no such text", &stop], None));
    assert_eq!(stopped.finish, Some("stop"));
    assert_eq!(stopped.tokens, all.tokens[..=place]);
    let expected: String = words[..place - 1]
        .iter()
        .map(|word| format!(" {word}"))
        .collect();
    assert_eq!(stopped.text.trim_end(), expected);
    let ended = of(greedy(&[], Some(all.tokens[place])));
    assert_eq!(ended.finish, Some("end"));
    assert_eq!(ended.tokens, all.tokens[..=place]);
    assert_eq!(ended.text, format!("{expected} {}", words[place - 1]));
}
