//! burn's learner on four ranks: the lines marked `//+` are what data parallelism adds or changes.
//!
//! `cargo run --release --example learner`, or with `--features mpi` under `mpirun -n 4`.

use burn::train::TrainingStrategy; //+
use burn::{
    data::{
        dataloader::{DataLoaderBuilder, batcher::Batcher},
        dataset::InMemDataset,
    },
    module::Module,
    nn::{Linear, LinearConfig, loss::CrossEntropyLossConfig},
    optim::AdamWConfig,
    tensor::{Device, Int, Tensor, TensorData, activation::relu},
    train::{
        ClassificationOutput, InferenceStep, Learner, SupervisedTraining, TrainOutput, TrainStep,
        logger::InMemoryMetricLogger,
    },
};
use fascicle_burn::library::{job, parallel::Context}; //+
use fascicle_burn::{AxisGroup, RankStrategy, ReducerOptions, Result}; //+

#[derive(Module, Debug)]
struct Mlp {
    up: Linear,
    down: Linear,
}

type Batch = (Tensor<2>, Tensor<1, Int>);

impl Mlp {
    fn classify(&self, (pixels, labels): Batch) -> ClassificationOutput {
        let logits = self.down.forward(relu(self.up.forward(pixels)));
        let loss = CrossEntropyLossConfig::new().init(&logits.device());
        let loss = loss.forward(logits.clone(), labels.clone());
        ClassificationOutput::new(loss, logits, labels)
    }
}

impl TrainStep for Mlp {
    type Input = Batch;
    type Output = ClassificationOutput;
    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Mlp {
    type Input = Batch;
    type Output = ClassificationOutput;
    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.classify(batch)
    }
}

/// Images of bars whose place is the label.
#[derive(Clone)]
struct Bars;

impl Batcher<usize, Batch> for Bars {
    fn batch(&self, rows: Vec<usize>, device: &Device) -> Batch {
        let pixel = |row: &usize| {
            let label = row % 10;
            (0..784).map(move |at| if at / 78 == label { 1f32 } else { 0.0 })
        };
        let pixels: Vec<f32> = rows.iter().flat_map(pixel).collect();
        let labels: Vec<i64> = rows.iter().map(|row| (row % 10) as i64).collect();
        (
            Tensor::from_data(TensorData::new(pixels, [rows.len(), 784]), device),
            Tensor::from_data(TensorData::new(labels, [rows.len()]), device),
        )
    }
}

fn train(context: &Context) -> Result<f32> {
    let device = Device::flex().autodiff();
    let model = Mlp {
        up: LinearConfig::new(784, 100).init(&device),
        down: LinearConfig::new(100, 10).init(&device),
    };
    let learner = Learner::new(model, AdamWConfig::new().init(), 1e-3);

    let loader = |rows: std::ops::Range<usize>| {
        let builder = DataLoaderBuilder::new(Bars)
            .batch_size(8)
            .set_device(device.clone());
        builder.build(InMemDataset::new(rows.collect()))
    };
    let group = AxisGroup::named(context, "data")?; //+
    let strategy = RankStrategy::new(&group, device.clone(), ReducerOptions::default()); //+
    let folder = std::env::temp_dir().join(format!("learner-{}", group.rank())); //+
    let training = SupervisedTraining::new(folder, loader(0..320), loader(0..40))
        .num_epochs(3)
        .with_metric_logger(InMemoryMetricLogger::new())
        .with_application_logger(None)
        .with_training_strategy(TrainingStrategy::Custom(strategy.clone())); //+
    let result = training.launch(learner);
    strategy.outcome(&result)?; //+
    let output = result
        .model
        .classify(Bars.batch((0..10).collect(), &device.inner()));
    Ok(output.loss.into_scalar())
}

fn main() -> Result<()> {
    let losses = job().grid("data=4").expect("a grid").run(train)?; //+
    println!("losses of the ranks at the end: {losses:?}");
    assert!(losses.iter().all(|loss| *loss < 0.5 && *loss == losses[0]));
    Ok(())
}
