//! Four ranks train burn's models to the weights of one rank, in burn's learner and in a loop of one's own. As threads, and under
//! `mpirun -n 4`.

use crate::models::{Batch, Encoder, Example, Regression, batch, filled, loader, weights};
use burn::{
    optim::{AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig, momentum::MomentumConfig},
    tensor::Device,
    train::{
        InferenceStep, Interrupter, Learner, LearnerModel, SupervisedTraining, TrainStep,
        TrainingStrategy, logger::InMemoryMetricLogger,
    },
};
use fascicle_burn::{
    AxisGroup, GradientsReducer, RankStrategy, ReducerOptions, Result, broadcast,
    library::{job, parallel::Context, tensor::ReduceOp},
    shards,
};

const ROWS: usize = 32;

fn momentum() -> ModuleOptimizer {
    SgdConfig::new()
        .with_momentum(Some(MomentumConfig::new()))
        .init()
}

fn adam() -> ModuleOptimizer {
    // Some gradients vanish, such as that of a key's bias; Adam would divide their rounding errors by an epsilon that is small.
    AdamWConfig::new().with_epsilon(1e-3).init()
}

fn device() -> Device {
    Device::flex().autodiff()
}

/// The elements of each parameter.
type Weights = Vec<Vec<f32>>;

#[derive(Clone, Copy)]
struct Case {
    optimiser: fn() -> ModuleOptimizer,
    rate: f64,
    sharded: bool,
    accumulation: Option<usize>,
}

/// Rows in the order in which one rank meets those that `ranks` ranks meet at the same time.
fn rows(ranks: usize, others: usize) -> Vec<usize> {
    let (part, share) = (ROWS / others, ROWS / others / 4);
    match ranks {
        1 => (0..4)
            .flat_map(|step| {
                (0..others).flat_map(move |rank| {
                    let start = rank * part + step * share;
                    start..start + share
                })
            })
            .collect(),
        _ => (0..ROWS).collect(),
    }
}

/// Trains with burn's learner.
fn learn<M>(context: &Context, case: Case) -> Result<Weights>
where
    M: LearnerModel + Example + TrainStep<Input = Batch> + InferenceStep<Input = Batch>,
{
    let group = AxisGroup::named(context, "data")?;
    let (rank, ranks) = (group.rank(), group.size());
    let model = M::new(&device());
    // The others receive what rank 0 has.
    let model = if rank == 0 { filled(model) } else { model };
    let train = loader(rows(ranks, 4), ROWS / 4 / ranks, &device());
    let valid = loader((0..8).collect(), 8, &device());
    let options = ReducerOptions {
        bucket_bytes: 5000,
        ..ReducerOptions::default()
    };
    let strategy = match case.sharded {
        true => RankStrategy::sharded(&group, device(), options),
        false => RankStrategy::new(&group, device(), options),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let training = SupervisedTraining::new(folder.path(), train, valid)
        .num_epochs(2)
        .with_metric_logger(InMemoryMetricLogger::new())
        .with_application_logger(None)
        .with_training_strategy(TrainingStrategy::Custom(strategy.clone()));
    let training = match case.accumulation {
        Some(steps) => training.grads_accumulation(steps),
        None => training,
    };
    let result = training.launch(Learner::new(model, (case.optimiser)(), case.rate));
    Ok(weights(&strategy.outcome(&result)?.model))
}

/// Trains in a loop of one's own.
fn follow<M: LearnerModel + Example>(context: &Context, case: Case) -> Result<Weights> {
    let group = AxisGroup::named(context, "data")?;
    let (rank, ranks) = (group.rank(), group.size());
    let model = M::new(&device());
    let mut model = broadcast(&group, if rank == 0 { filled(model) } else { model })?;
    let shards = case.sharded.then(|| shards(&group, &model)).transpose()?;
    // Sums of shares of the mean.
    let options = ReducerOptions {
        average: false,
        shards,
        ..ReducerOptions::default()
    };
    let mut reducer = GradientsReducer::new(&group, options)?;
    let mut optimiser = (case.optimiser)();
    for _step in 0..5 {
        let part = ROWS / ranks * rank..ROWS / ranks * (rank + 1);
        let loss = M::loss(&model.output(batch(part, &device()))) / ranks as f32;
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        let gradients = reducer.reduce(&model, gradients)?;
        model = optimiser.step(case.rate, model, gradients);
        model = reducer.gather(model)?;
    }
    let mut states = [optimiser.to_record().into_bytes().expect("a record").len() as f64];
    group.all_reduce(&mut states, ReduceOp::Sum)?;
    let (weights, slots) = (weights(&model), if case.rate < 1e-3 { 2 } else { 1 });
    if case.sharded {
        // All ranks together hold what one would alone, with the headers of their records.
        let alone = (4 * slots * weights.iter().map(Vec::len).sum::<usize>()) as f64;
        assert!(
            states[0] < 2.0 * alone,
            "{states:?} bytes of state, {alone} alone"
        );
    }
    Ok(weights)
}

fn on(
    ranks: usize,
    body: impl Fn(&Context) -> Result<Weights> + Send + Sync + 'static,
) -> Vec<Weights> {
    let ran = job()
        .grid(&format!("data={ranks}"))
        .expect("a grid")
        .run(body);
    ran.unwrap_or_else(|error| panic!("{ranks} ranks: {error}"))
}

/// The largest difference, relative to the largest element of the parameter.
fn difference(one: &Weights, other: &Weights) -> f32 {
    assert_eq!(one.len(), other.len());
    let pairs = one.iter().zip(other);
    pairs
        .map(|(one, other)| relative(one, other))
        .fold(0.0, f32::max)
}

fn relative(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    assert!(other.iter().all(|value| value.is_finite()));
    let differences = one.iter().zip(other).map(|(a, b)| (a - b).abs());
    let size = one
        .iter()
        .fold(0.0, |size: f32, value| size.max(value.abs()));
    differences.fold(0.0, f32::max) / size
}

fn compare(body: impl Fn(&Context) -> Result<Weights> + Clone + Send + Sync + 'static) {
    let alone = &on(1, body.clone())[0];
    for (rank, other) in on(4, body).iter().enumerate() {
        let difference = difference(alone, other);
        assert!(difference < 1e-6, "rank {rank} differs by {difference}");
    }
}

const CASES: [Case; 3] = [
    Case {
        optimiser: momentum,
        rate: 0.01,
        sharded: false,
        accumulation: None,
    },
    Case {
        optimiser: momentum,
        rate: 0.01,
        sharded: true,
        accumulation: Some(2),
    },
    Case {
        optimiser: adam,
        rate: 5e-4,
        sharded: true,
        accumulation: None,
    },
];

#[test]
fn the_learner_trains_a_perceptron_on_four_ranks_as_on_one() {
    for case in CASES {
        compare(move |context| learn::<Regression>(context, case));
    }
}

#[test]
fn the_learner_trains_a_transformer_on_four_ranks_as_on_one() {
    for case in CASES {
        compare(move |context| learn::<Encoder>(context, case));
    }
}

#[test]
fn a_loop_of_ones_own_trains_on_four_ranks_as_on_one() {
    for case in CASES {
        compare(move |context| follow::<Regression>(context, case));
        compare(move |context| follow::<Encoder>(context, case));
    }
}

#[test]
fn a_training_of_one_rank_is_burns_own() {
    let ours = on(1, |context| learn::<Encoder>(context, CASES[0]));
    let train = loader(rows(1, 4), ROWS / 4, &device());
    let valid = loader((0..8).collect(), 8, &device());
    let folder = tempfile::tempdir().expect("a folder");
    let result = SupervisedTraining::new(folder.path(), train, valid)
        .num_epochs(2)
        .with_metric_logger(InMemoryMetricLogger::new())
        .with_application_logger(None)
        .launch(Learner::new(
            filled(Encoder::new(&device())),
            momentum(),
            0.01,
        ));
    assert_eq!(ours[0], weights(&result.model));
    assert_ne!(
        ours[0],
        weights(&filled(Encoder::new(&device()))),
        "it has trained"
    );
}

#[test]
fn one_ranks_interrupter_ends_all_after_the_same_step() {
    let ran = on(4, |context| {
        let group = AxisGroup::named(context, "data")?;
        let strategy = RankStrategy::new(&group, device(), ReducerOptions::default());
        let interrupter = Interrupter::new();
        if group.rank() == 2 {
            interrupter.stop(Some("a signal"));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let train = loader((0..ROWS).collect(), 4, &device());
        let result = SupervisedTraining::new(folder.path(), train.clone(), train)
            .num_epochs(1000)
            .with_metric_logger(InMemoryMetricLogger::new())
            .with_application_logger(None)
            .with_interrupter(interrupter)
            .with_training_strategy(TrainingStrategy::Custom(strategy.clone()))
            .launch(Learner::new(Regression::new(&device()), momentum(), 0.01));
        Ok(weights(&strategy.outcome(&result)?.model))
    });
    assert!(
        ran.iter().all(|weights| *weights == ran[0]),
        "the same steps"
    );
}
