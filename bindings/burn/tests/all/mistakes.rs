//! Mistakes end in a sentence, on every rank where ranks differ; none waits for ever.

use crate::models::{Example, Regression, loader};
use burn::{
    nn::LinearConfig,
    optim::{GradientsParams, SgdConfig},
    tensor::{Device, Distribution, Tensor},
    train::{Learner, SupervisedTraining, TrainingStrategy, logger::InMemoryMetricLogger},
};
use fascicle_burn::{
    AxisGroup, Error, GradientsReducer, RankStrategy, ReducerOptions,
    library::{hal, job},
    shards,
};

fn device() -> Device {
    Device::flex().autodiff()
}

#[test]
fn ranks_with_other_models_are_told_so() {
    let ran = job().grid("data=4").expect("a grid").run(|context| {
        let group = AxisGroup::named(context, "data")?;
        let outputs = if group.rank() == 3 { 3 } else { 2 };
        let model = LinearConfig::new(4, outputs).init(&device());
        let mut reducer = GradientsReducer::new(&group, ReducerOptions::default())?;
        let input = Tensor::<2>::random([2, 4], Distribution::Default, &device());
        let gradients = GradientsParams::from_grads(model.forward(input).sum().backward(), &model);
        reducer.reduce(&model, gradients).map(drop)
    });
    let sentence = ran.unwrap_err().to_string();
    // Whichever rank reports first names itself before the other.
    let by_another = sentence.contains("gradient 1 of a step: weight (8 of f32) on rank")
        && sentence.contains("weight (12 of f32) on rank 3 of the group");
    let by_the_last = sentence.contains(
        "gradient 1 of a step: weight (12 of f32) on rank 3 and weight (8 of f32) on rank 0 of the group",
    );
    assert!(by_another || by_the_last, "{sentence}");
}

#[test]
fn a_model_that_was_not_divided_is_refused() {
    let ran = job().grid("data=1").expect("a grid").run(|context| {
        let group = AxisGroup::named(context, "data")?;
        let divided = LinearConfig::new(4, 2).with_bias(false).init(&device());
        let shards = Some(shards(&group, &divided)?);
        let options = ReducerOptions {
            shards,
            ..ReducerOptions::default()
        };
        let mut reducer = GradientsReducer::new(&group, options)?;
        let model = LinearConfig::new(4, 2).init(&device());
        let input = Tensor::<2>::ones([2, 4], &device());
        let gradients = GradientsParams::from_grads(model.forward(input).sum().backward(), &model);
        reducer.reduce(&model, gradients).map(drop)
    });
    assert_eq!(
        ran.unwrap_err().to_string(),
        "ParameterShards: parameter bias, needs one of those that were divided"
    );
}

/// Launches a training of this many items on four ranks, of which rank 2 may fail before.
fn launch(items: usize, fails: bool) -> Result<Vec<()>, Error> {
    job().grid("data=4").expect("a grid").run(move |context| {
        let group = AxisGroup::named(context, "data")?;
        if fails && group.rank() == 2 {
            return Err(hal::Error::invalid("rank 2", "no rows", "some").into());
        }
        let strategy = RankStrategy::new(&group, device(), ReducerOptions::default());
        let folder = tempfile::tempdir().expect("a folder");
        let train = loader((0..items).collect(), 4, &device());
        let result = SupervisedTraining::new(folder.path(), train.clone(), train)
            .num_epochs(2)
            .with_metric_logger(InMemoryMetricLogger::new())
            .with_application_logger(None)
            .with_training_strategy(TrainingStrategy::Custom(strategy.clone()))
            .launch(Learner::new(
                Regression::new(&device()),
                SgdConfig::new().init(),
                0.01,
            ));
        strategy.outcome(&result).map(drop)
    })
}

#[test]
fn fewer_items_than_ranks_are_refused() {
    assert_eq!(
        launch(3, false).unwrap_err().to_string(),
        "RankStrategy: 3 items to train on, needs at least one for each of 4 ranks"
    );
    // 7 items: one for each rank, and 3 that nobody has.
    assert!(launch(7, false).is_ok());
}

#[test]
fn a_rank_that_fails_ends_the_others() {
    assert_eq!(
        launch(16, true).unwrap_err().to_string(),
        "rank 2: no rows, needs some"
    );
}
