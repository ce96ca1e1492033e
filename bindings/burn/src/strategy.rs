//! A learning strategy for burn's `Learner`: this rank's part of a training that several ranks share.

use crate::{Error, GradientsReducer, ReducerOptions, Result, broadcast, shards};
use burn::{
    optim::GradientsAccumulator,
    tensor::Device,
    train::{
        EventProcessorTraining, InferenceStep, Interrupter, Learner, LearnerEvent, LearnerModel,
        SupervisedLearningStrategy, SupervisedTrainingEventProcessor, TrainLoader,
        TrainingComponents, TrainingItem, ValidLoader,
    },
};
use library::{collective::AxisGroup, hal, tensor::ReduceOp};
use std::{cell::RefCell, sync::Arc};

/// Trains on this rank's part of the data, and reduces gradients over the ranks of a group before each step of the optimiser.
///
/// Every rank makes the same learner and loaders and launches its own training. This strategy gives all models the parameters of rank
/// 0, cuts the training loader into equal parts by the number of ranks, and validates all of the data on every rank. The batch size of
/// the loader is thus that of one rank. A rank's interrupter or early stopping ends the training of all ranks after the same step.
///
/// ```no_run
/// use burn::{tensor::Device, train::{Learner, LearnerModel, SupervisedTraining, TrainingStrategy}};
/// use fascicle_burn::{AxisGroup, RankStrategy, ReducerOptions, Result, library::parallel::Context};
///
/// fn train<M: LearnerModel>(context: &Context, training: SupervisedTraining<M>, learner: Learner<M>) -> Result<()> {
///     let group = AxisGroup::named(context, "data")?;
///     let device = Device::default().autodiff();
///     let strategy = RankStrategy::new(&group, device, ReducerOptions::default());
///     let training = training.with_training_strategy(TrainingStrategy::Custom(strategy.clone()));
///     strategy.outcome(&training.launch(learner)).map(drop)
/// }
/// ```
///
/// burn's own files are each rank's: give every rank a directory of its own, and checkpointers to rank 0 alone, or with
/// [`sharded`](RankStrategy::sharded) to every rank, since each has state that no other has.
#[derive(Debug)]
pub struct RankStrategy {
    group: AxisGroup,
    device: Device,
    options: ReducerOptions,
    sharded: bool,
    failure: RefCell<Option<Error>>,
}

impl RankStrategy {
    /// A strategy in which every rank updates all parameters, on a device with automatic differentiation.
    pub fn new(group: &AxisGroup, device: Device, options: ReducerOptions) -> Arc<RankStrategy> {
        RankStrategy::of(group, device, options, false)
    }

    /// A strategy with the optimiser's state divided over the ranks (ZeRO-1).
    ///
    /// # Cost
    /// Two copies of the parameters per step beside those that ranks exchange: burn's learner takes parameters only as a record.
    /// [`GradientsReducer::gather`] in a loop of one's own makes none.
    pub fn sharded(
        group: &AxisGroup,
        device: Device,
        options: ReducerOptions,
    ) -> Arc<RankStrategy> {
        RankStrategy::of(group, device, options, true)
    }

    #[expect(
        clippy::arc_with_non_send_sync,
        reason = "burn takes a strategy in an Arc, and runs it on the caller's thread"
    )]
    fn of(
        group: &AxisGroup,
        device: Device,
        options: ReducerOptions,
        sharded: bool,
    ) -> Arc<RankStrategy> {
        Arc::new(RankStrategy {
            group: group.clone(),
            device,
            options,
            sharded,
            failure: RefCell::default(),
        })
    }

    /// The result of a launch, if it ended without an error.
    ///
    /// # Errors
    /// The error that ended this rank's training: of the collectives, or of burn's, as [`Error::Training`].
    pub fn outcome<'a, M>(
        &self,
        result: &'a burn::train::LearningResult<M>,
    ) -> Result<&'a burn::train::LearningResult<M>> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        match &result.error {
            Some(error) => Err(Error::Training(error.to_string())),
            None => Ok(result),
        }
    }

    /// The items of this rank: as many as every rank has, so that all have the same number of steps.
    fn part<M: LearnerModel>(&self, loader: &TrainLoader<M>) -> Result<TrainLoader<M>> {
        let (items, ranks) = (loader.num_items(), self.group.size());
        let each = items / ranks;
        if each == 0 {
            let found = format!("{items} items to train on");
            let needed = format!("at least one for each of {ranks} ranks");
            return Err(hal::Error::invalid("RankStrategy", found, needed).into());
        }
        let start = self.group.rank() * each;
        Ok(loader.slice(start, start + each).to_device(&self.device))
    }

    /// Whether any rank wants to stop.
    fn any_stops(&self, interrupter: &Interrupter) -> Result<bool> {
        let mut stops = [u32::from(interrupter.should_stop())];
        self.group.all_reduce(&mut stops, ReduceOp::Max)?;
        Ok(stops[0] > 0)
    }

    fn epochs<M: LearnerModel>(
        &self,
        training: &mut Training<M>,
        valid: &ValidLoader<M>,
        train: &TrainLoader<M>,
        epochs: std::ops::RangeInclusive<usize>,
    ) -> Result<()> {
        let learner = &mut training.learner;
        learner.fork(&self.device);
        let train = self.part::<M>(train)?;
        let valid = valid.to_device(&self.device.clone().inner());
        let model = broadcast(&self.group, learner.model())?;
        let mut options = self.options.clone();
        if self.sharded {
            options.shards = Some(shards(&self.group, &model)?);
        }
        learner.load_model(model.into_record());
        let mut reducer = GradientsReducer::new(&self.group, options)?;
        for epoch in epochs {
            if self.train(training, &mut reducer, &train, epoch)? {
                break;
            }
            training.validate(&valid, epoch);
            let early = training.end_epoch(epoch);
            if early {
                training.components.interrupter.stop(Some("early stopping"));
            }
            if self.any_stops(&training.components.interrupter)? {
                break;
            }
        }
        Ok(())
    }

    /// One epoch; whether it was the last because a rank stops.
    fn train<M: LearnerModel>(
        &self,
        training: &mut Training<M>,
        reducer: &mut GradientsReducer,
        loader: &TrainLoader<M>,
        epoch: usize,
    ) -> Result<bool> {
        let interrupter = training.components.interrupter.clone();
        training.report_train(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: loader.num_items(),
        });
        let accumulation = training.components.grad_accumulation.unwrap_or(1);
        let mut accumulator = GradientsAccumulator::new();
        let (mut iterator, mut iteration) = (loader.iter(), 0);
        let mut stopped = false;
        while !stopped && let Some(item) = iterator.next() {
            let progress = iterator.progress();
            iteration += 1;
            match item {
                // This rank goes on to the exchange below, where the others learn that it stops.
                Err(error) => interrupter.fail(error),
                Ok(item) => {
                    let output = training.learner.train_step(item);
                    let is_last = iteration % accumulation == 0 || progress.is_completed();
                    if accumulation == 1 {
                        self.step(&mut training.learner, reducer, output.grads)?;
                    } else {
                        accumulator.accumulate(&training.learner.model(), output.grads);
                        if is_last {
                            self.step(&mut training.learner, reducer, accumulator.grads())?;
                        }
                    }
                    let lr = Some(training.learner.lr_current());
                    let item = TrainingItem::new(output.item, progress, Some(iteration), lr);
                    training.report_train(LearnerEvent::ProcessedItem(item));
                }
            }
            stopped = self.any_stops(&interrupter)?;
        }
        drop(iterator);
        training.report_train(LearnerEvent::EndSplit(epoch));
        Ok(stopped)
    }

    fn step<M: LearnerModel>(
        &self,
        learner: &mut Learner<M>,
        reducer: &mut GradientsReducer,
        gradients: burn::optim::GradientsParams,
    ) -> Result<()> {
        let gradients = reducer.reduce(&learner.model(), gradients)?;
        learner.lr_step();
        learner.optimizer_step(gradients);
        if reducer.is_sharded() {
            learner.load_model(reducer.gather(learner.model())?.into_record());
        }
        Ok(())
    }
}

impl<M: LearnerModel> SupervisedLearningStrategy<M> for RankStrategy {
    fn fit(
        &self,
        components: TrainingComponents<M>,
        learner: Learner<M>,
        train: TrainLoader<M>,
        valid: ValidLoader<M>,
        starting_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        let epochs = starting_epoch..=components.num_epochs;
        let mut training = Training {
            components,
            learner,
        };
        if let Err(error) = self.epochs(&mut training, &valid, &train, epochs) {
            let sentence = error.to_string();
            training.components.interrupter.stop(Some(&sentence));
            self.failure.replace(Some(error));
        }
        (
            training.learner.model(),
            training.components.event_processor,
        )
    }
}

/// What burn hands to a strategy.
struct Training<M: LearnerModel> {
    components: TrainingComponents<M>,
    learner: Learner<M>,
}

impl<M: LearnerModel> Training<M> {
    fn report_train(&mut self, event: LearnerEvent<<M as burn::train::TrainStep>::Output>) {
        let outcome = self.components.event_processor.process_train(event);
        self.components.interrupter.fail_on_error(outcome);
    }

    fn report_valid(&mut self, event: LearnerEvent<<M as InferenceStep>::Output>) {
        let outcome = self.components.event_processor.process_valid(event);
        self.components.interrupter.fail_on_error(outcome);
    }

    fn validate(&mut self, loader: &ValidLoader<M>, epoch: usize) {
        self.report_valid(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: loader.num_items(),
        });
        let model = self.learner.model().valid();
        let (mut iterator, mut iteration) = (loader.iter(), 0);
        while !self.components.interrupter.should_stop()
            && let Some(item) = iterator.next()
        {
            match item {
                Err(error) => self.components.interrupter.fail(error),
                Ok(item) => {
                    iteration += 1;
                    let item = InferenceStep::step(&model, item);
                    let progress = iterator.progress();
                    let item = TrainingItem::new(item, progress, Some(iteration), None);
                    self.report_valid(LearnerEvent::ProcessedItem(item));
                }
            }
        }
        self.report_valid(LearnerEvent::EndSplit(epoch));
    }

    /// Ends an epoch; whether early stopping ends the training.
    fn end_epoch(&mut self, epoch: usize) -> bool {
        self.report_train(LearnerEvent::EndEpoch(epoch));
        let components = &mut self.components;
        if components.checkpointer.is_some() || components.early_stopping.is_some() {
            let outcome = components.event_processor.flush();
            components.interrupter.fail_on_error(outcome);
        }
        if components.interrupter.should_stop() {
            return false;
        }
        if let Some(checkpointer) = &mut components.checkpointer {
            checkpointer.checkpoint(&self.learner, epoch, &components.event_store);
        }
        match &mut components.early_stopping {
            Some(rule) => rule.should_stop(epoch, &components.event_store),
            None => false,
        }
    }
}
