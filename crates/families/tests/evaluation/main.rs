//! Log-likelihoods are those that the logits of one rank give, on every grid and in every batch; perplexity and accuracy of models
//! whose numbers are known.

mod grids;
mod known;

use bootstrap::local::{Options, run};
use parallel::{Batch, MicroBatch, Pipeline};
use tensor::Tensor;
use train::{
    Config,
    architecture::Text,
    eval::{ScoredSequence, Scorer, SequenceScore},
    generate::{inference, text},
};

/// Attention that matters, from weights that are not trained. The vocabulary does not divide by 2.
const CONFIG: &str = r#"
    [model]
    layers = 3
    hidden = 32
    heads = 8
    context = 8
    vocabulary = 37
    init_deviation = 0.4
    [training]
    reproducible = "run"
    precision = "f64"
    [parallel]
    grid = "x=1"
"#;

/// Keys of a Llama: rotary positions, and query heads that share a key.
const LLAMA: [&str; 3] = [
    "model.family = \"llama\"",
    "model.kv_heads = 4",
    "model.tied_head = false",
];

/// The configuration with these keys, each `table.key = value`.
fn config(edits: &[&str]) -> Config {
    testkit::edited(CONFIG, edits)
}

/// What `body` returns for the model on the configuration's grid, which every rank has to return alike.
fn on_grid<T: Clone + PartialEq + std::fmt::Debug + Send + 'static>(
    config: &Config,
    body: impl Fn(&Pipeline, Text) -> train::Result<T> + Send + Sync + 'static,
) -> T {
    let config = config.clone();
    let ranks = config.grid().unwrap().world_size();
    let found = run(Options::new(ranks), move |world| {
        let device = testkit::device(&config, world.rank())?;
        let context = config.context(&world, &device)?;
        let pipeline = inference(&context, &config)?;
        body(&pipeline, text(&config)?)
    });
    let found = found.unwrap_or_else(|failure| panic!("{}", failure.report()));
    for (rank, other) in found.iter().enumerate() {
        assert_eq!(other, &found[0], "rank {rank}");
    }
    found[0].clone()
}

/// The scores of the sequences, `batch` at a time.
fn scores(config: &Config, sequences: &[ScoredSequence], batch: usize) -> Vec<SequenceScore> {
    let sequences = sequences.to_vec();
    on_grid(config, move |pipeline, text| {
        let mut seen = 0;
        let scorer = Scorer::new(pipeline, text, batch)?;
        let scores = scorer.score(&sequences, &mut |done| seen += done)?;
        assert_eq!(seen, sequences.len());
        Ok(scores)
    })
}

/// The same from all logits of one rank, by the definition.
fn expected(config: &Config, sequences: &[ScoredSequence]) -> Vec<Vec<f64>> {
    let sequences = sequences.to_vec();
    on_grid(config, move |pipeline, text| {
        let scores = sequences.iter().map(|sequence| {
            let ids = sequence.inputs();
            let inputs = Tensor::from_slice(pipeline.context().device(), &[1, ids.len()], ids)?;
            let batch = Batch {
                step: 0,
                num_rows: 1,
                micro_batches: vec![MicroBatch::new(0..1).with("inputs", inputs)?],
            };
            let logits = pipeline.evaluate(&batch, |_, _, mut wires| {
                wires.take("logits")?.tensor()?.to_f64()
            })?;
            let rows = logits[0].chunks(logits[0].len() / ids.len());
            let rows = rows.skip(ids.len() - sequence.predicted().len());
            let pairs = rows.zip(sequence.predicted());
            let score = pairs.map(|(row, token)| {
                let row = &row[..text.vocabulary];
                let sum: f64 = row.iter().map(|logit| logit.exp()).sum();
                row[*token as usize] - sum.ln()
            });
            Ok(score.collect())
        });
        scores.collect()
    })
}
