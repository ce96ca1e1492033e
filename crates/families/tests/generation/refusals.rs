//! What cannot be, in one sentence.

use super::{GeneratorOptions, Keys, Request, config, on_ranks, requests};
use parallel::{Batch, MicroBatch, Pipeline, cache::NewTokens};
use tensor::Tensor;

type Case = (fn(&mut GeneratorOptions, &mut Request), &'static str);

#[test]
fn options_and_requests_that_cannot_be_are_named_on_every_rank() {
    let config = config(&["parallel.grid = \"x=2\""]);
    let refused = |edit: fn(&mut GeneratorOptions, &mut Request)| {
        let (mut options, mut requests) = (GeneratorOptions::default(), requests());
        edit(&mut options, &mut requests[0].1);
        on_ranks(&config, Keys::Kept, &options, &requests).unwrap_err()
    };
    let cases: [Case; 5] = [
        (
            |o, _| o.sequences = 0,
            "sequences: found 0, needs a number from 1 to 4096",
        ),
        (|o, _| o.prefill = 0, "prefill: found 0"),
        (
            |o, _| o.kept_tokens = 63,
            "kept_tokens: found 64 tokens to be kept for one request, needs at most 63",
        ),
        (
            |_, r| r.prompt = vec![37],
            "prompt: found token 37, needs one below the vocabulary of 37",
        ),
        (
            |_, r| r.sampling.temperature = -1.0,
            "temperature: found -1",
        ),
    ];
    for (edit, needed) in cases {
        let report = refused(edit);
        assert!(report.contains(needed), "{report}");
    }
}

#[test]
fn weights_that_are_no_numbers_are_named_and_no_rank_waits() {
    let config = config(&[
        "model.init_deviation = 1e38",
        "parallel.grid = \"pipeline=2\"",
    ]);
    let report = on_ranks(
        &config,
        Keys::Kept,
        &GeneratorOptions::default(),
        &requests(),
    )
    .unwrap_err();
    assert!(report.contains("logits: found NaN for token 0"), "{report}");
}

#[test]
fn a_model_that_does_not_declare_it_never_runs_on_new_tokens() {
    let config = config(&[]);
    let errors = bootstrap::local::run(bootstrap::local::Options::new(1), move |world| {
        let device = testkit::device(&config, 0)?;
        let context = config.context(&world, &device)?;
        let new = |pipeline: &Pipeline, ids: &[u32]| NewTokens {
            cache: pipeline.sequence(),
            ids: ids.to_vec(),
            outputs: 1,
        };
        let inputs = Tensor::from_slice(&device, &[2, 1], &[1_u32, 2])?;
        let batch = Batch {
            step: 0,
            num_rows: 2,
            micro_batches: vec![MicroBatch::new(0..2).with("inputs", inputs)?],
        };
        let other = super::pipeline(&context, &config, Keys::Kept)?;
        let refused = |keys, rows: &[&[u32]], foreign: bool| -> train::Result<String> {
            let pipeline = super::pipeline(&context, &config, keys)?;
            let mut rows: Vec<NewTokens> = rows.iter().map(|ids| new(&pipeline, ids)).collect();
            if foreign {
                rows[1].cache = other.sequence();
            }
            let error = pipeline.extend(&batch, &[rows], |_, _, _| Ok(()));
            Ok(error.unwrap_err().to_string())
        };
        Ok::<_, train::Error>([
            refused(Keys::Recomputed, &[&[1], &[2]], false)?,
            refused(Keys::Kept, &[&[1]], false)?,
            refused(Keys::Kept, &[&[1], &[2, 3]], false)?,
            refused(Keys::Kept, &[&[1, 4], &[2, 3]], false)?,
            refused(Keys::Kept, &[&[1], &[2]], true)?,
        ])
    });
    let errors = errors.unwrap_or_else(|failure| panic!("{}", failure.report()));
    let needed = [
        "needs one that declares it can run on new tokens alone",
        "needs new tokens of every row",
        "rows of [1, 2] new tokens",
        "2 rows of 1 tokens, needs 2 of 2, the new tokens",
        "sequences of another pipeline, needs those that this pipeline has made",
    ];
    for (error, needed) in errors[0].iter().zip(needed) {
        assert!(error.contains(needed), "{error}");
    }
}
