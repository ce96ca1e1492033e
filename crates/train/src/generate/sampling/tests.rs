use super::*;
use proptest::prelude::*;

type Case = (fn(&mut Sampling), &'static str);

fn sampler(edit: impl FnOnce(&mut Sampling)) -> Sampler {
    let mut sampling = Sampling {
        temperature: 1.0,
        top_k: 0,
        ..Sampling::default()
    };
    edit(&mut sampling);
    Sampler::new(sampling, &[])
}

fn draws(mut sampler: Sampler, logits: &[f64], count: usize) -> Vec<u32> {
    let draw = |_| {
        let token = sampler.choose(logits);
        sampler.note(token);
        token
    };
    (0..count).map(draw).collect()
}

#[test]
fn temperature_0_takes_the_first_of_the_likeliest_and_top_1_leaves_no_choice() {
    let logits = [0.1, 2.0, -1.0, 2.0];
    assert_eq!(sampler(|s| s.temperature = 0.0).choose(&logits), 1);
    let top = sampler(|s| (s.top_k, s.temperature) = (1, 5.0));
    assert_eq!(draws(top, &logits, 20), [1; 20]);
}

#[test]
fn draws_follow_the_probabilities_and_the_temperature() {
    let share = |sampler, logits: &[f64]| {
        let ones = draws(sampler, logits, 4000)
            .into_iter()
            .filter(|id| *id == 1);
        ones.count() as f64 / 4000.0
    };
    let logits = [0.0, (3.0f64).ln()];
    // Of 4000 draws the standard deviation is 0.7 %.
    let [plain, flat] = [1.0, 2.0].map(|t| share(sampler(|s| s.temperature = t), &logits));
    let of_root = 3f64.sqrt() / (1.0 + 3f64.sqrt());
    assert!((plain - 0.75).abs() < 0.03, "{plain}");
    assert!((flat - of_root).abs() < 0.03, "{flat} instead of {of_root}");
}

#[test]
fn seeds_draw_differently_and_each_always_the_same() {
    let logits = [0.0; 50];
    let of = |seed| draws(sampler(|s| s.seed = seed), &logits, 30);
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
}

#[test]
fn filters_keep_the_likeliest() {
    // Probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625.
    let logits = [-2.0, -1.0, -3.0, -4.0, -4.0].map(|power: f64| (2f64.ln()) * (power + 1.0));
    let kept = |edit: &dyn Fn(&mut Sampling)| {
        let mut ids: Vec<u32> = sampler(edit)
            .candidates(&logits)
            .into_iter()
            .map(|c| c.0)
            .collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(kept(&|s| s.top_k = 2), [0, 1]);
    assert_eq!(kept(&|s| s.top_k = 9), [0, 1, 2, 3, 4]);
    assert_eq!(kept(&|s| s.top_p = 0.5), [1]);
    assert_eq!(kept(&|s| s.top_p = 0.51), [0, 1]);
    assert_eq!(kept(&|s| s.top_p = 0.9), [0, 1, 2, 3]);
    assert_eq!(kept(&|s| s.min_p = 0.25), [0, 1, 2]);
    assert_eq!(kept(&|s| s.min_p = 1.0), [1]);
    // Top-p counts what top-k has left: 0.5 of 0.75 is two thirds.
    assert_eq!(kept(&|s| (s.top_k, s.top_p) = (2, 0.66)), [1]);
    assert_eq!(kept(&|s| (s.top_k, s.top_p) = (2, 0.67)), [0, 1]);
    // The temperature comes first.
    assert_eq!(kept(&|s| (s.temperature, s.min_p) = (0.5, 0.25)), [0, 1]);
}

#[test]
fn a_token_that_was_there_becomes_less_likely_by_the_sign_of_its_logit() {
    let penalised = |prompt: &[u32]| {
        let sampling = Sampling {
            repetition_penalty: 2.0,
            ..Sampling::greedy()
        };
        Sampler::new(sampling, prompt)
    };
    assert_eq!(
        penalised(&[1]).penalised(&[1.0, 3.0, -1.0]),
        [1.0, 1.5, -1.0]
    );
    assert_eq!(
        penalised(&[2, 2]).penalised(&[1.0, 3.0, -1.0]),
        [1.0, 3.0, -2.0]
    );
    // What is chosen counts from then on.
    assert_eq!(draws(penalised(&[]), &[1.0, 1.5], 2), [1, 0]);
}

proptest! {
    #[test]
    fn candidates_are_those_of_a_full_sort(
        logits in prop::collection::vec(-6.0..6.0f64, 1..300),
        top_k in 0..40usize,
        top_p in 0.01..1.0f64,
        min_p in 0.0..0.5f64,
    ) {
        let sampler = sampler(|s| (s.top_k, s.top_p, s.min_p) = (top_k, top_p, min_p));
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
        order.truncate(if top_k == 0 { order.len() } else { top_k });
        let weight = |id: usize| (logits[id] - logits[order[0]]).exp();
        let all: f64 = order.iter().map(|id| weight(*id)).sum();
        let mut sum = 0.0;
        let mut expected = Vec::new();
        for id in order.iter().copied() {
            // The sums of the two orders differ in the last digits, which decides nothing unless they meet the border.
            prop_assume!((sum / all - top_p).abs() > 1e-9);
            if sum < top_p * all && weight(id) >= min_p {
                expected.push(id as u32);
            }
            sum += weight(id);
        }
        let found: Vec<u32> = sampler.candidates(&logits).into_iter().map(|c| c.0).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn log_probabilities_are_those_of_the_model() {
    let logits = [1000.0, 1000.0 + 3f64.ln(), f64::NEG_INFINITY];
    let (own, top) = log_probabilities(&logits, 0, 2);
    assert!((own - 0.25f64.ln()).abs() < 1e-12);
    assert_eq!(top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 0]);
    assert!((top[0].1 - 0.75f64.ln()).abs() < 1e-12);
    assert_eq!(
        log_probabilities(&logits, 2, 0),
        (f64::NEG_INFINITY, vec![])
    );
}

#[test]
fn numbers_that_cannot_be_are_named() {
    let refused = |edit: fn(&mut Sampling)| {
        let mut sampling = Sampling::default();
        edit(&mut sampling);
        sampling.check().unwrap_err().to_string()
    };
    let cases: [Case; 8] = [
        (
            |s| s.temperature = -0.5,
            "temperature: found -0.5, needs a number from 0 to 100",
        ),
        (|s| s.temperature = f64::NAN, "temperature: found NaN"),
        (|s| s.temperature = f64::INFINITY, "temperature: found inf"),
        (
            |s| s.top_p = 0.0,
            "top_p: found 0, needs a number above 0, and at most 1",
        ),
        (|s| s.top_p = 1.1, "top_p: found 1.1"),
        (
            |s| s.min_p = 1.5,
            "min_p: found 1.5, needs a number from 0 to 1",
        ),
        (
            |s| s.repetition_penalty = 0.0,
            "repetition_penalty: found 0, needs a number above 0, and at most 100",
        ),
        (
            |s| s.repetition_penalty = f64::NAN,
            "repetition_penalty: found NaN",
        ),
    ];
    for (edit, needed) in cases {
        let error = refused(edit);
        assert!(error.contains(needed), "{error}");
    }
    Sampling::greedy().check().unwrap();
    let error = check(&[0.0, f64::NAN]).unwrap_err().to_string();
    assert!(error.contains("NaN for token 1"), "{error}");
    assert!(check(&[f64::NEG_INFINITY; 2]).is_err());
    check(&[f64::NEG_INFINITY, 0.0]).unwrap();
}
