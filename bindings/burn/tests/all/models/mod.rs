//! The models of burn's own examples, with rows and initial values that every rank can compute.

use burn::{
    data::dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher},
    data::dataset::InMemDataset,
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    nn::{
        Embedding, EmbeddingConfig, Linear, LinearConfig, Relu,
        loss::{CrossEntropyLossConfig, MseLoss, Reduction},
        transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput},
    },
    tensor::{Device, Int, Tensor, TensorData},
    train::{ClassificationOutput, InferenceStep, RegressionOutput, TrainOutput, TrainStep},
};
use std::sync::Arc;

const TOKENS: usize = 12;
const FEATURES: usize = 8;
const LABELS: usize = 10;

/// Rows of a step, of features or of ids, of which 0 is padding.
#[derive(Clone, Debug)]
pub struct Batch {
    pub features: Tensor<2>,
    pub ids: Tensor<2, Int>,
    pub labels: Tensor<1, Int>,
}

/// A model of an example.
pub trait Example: Sized {
    type Output;
    fn new(device: &Device) -> Self;
    fn output(&self, batch: Batch) -> Self::Output;
    /// The mean over the rows of a batch.
    fn loss(output: &Self::Output) -> Tensor<1>;
}

/// The perceptron of burn's simple-regression: 8 features, 64 hidden units, one value.
#[derive(Module, Debug)]
pub struct Regression {
    input: Linear,
    output: Linear,
    activation: Relu,
}

impl Example for Regression {
    type Output = RegressionOutput;

    fn new(device: &Device) -> Regression {
        Regression {
            input: LinearConfig::new(FEATURES, 64).init(device),
            output: LinearConfig::new(64, 1).init(device),
            activation: Relu::new(),
        }
    }

    fn output(&self, batch: Batch) -> RegressionOutput {
        let hidden = self.activation.forward(self.input.forward(batch.features));
        let found = self.output.forward(hidden);
        let wanted = batch.labels.float().unsqueeze_dim(1) / LABELS as f32;
        let loss = MseLoss::new().forward(found.clone(), wanted.clone(), Reduction::Mean);
        RegressionOutput::new(loss, found, wanted)
    }

    fn loss(output: &RegressionOutput) -> Tensor<1> {
        output.loss.clone()
    }
}

/// The encoder of burn's text-classification, small: tokens and places, norms before layers, a softmax that may ignore all, a mask
/// of padding, and the first token's class.
#[derive(Module, Debug)]
pub struct Encoder {
    tokens: Embedding,
    places: Embedding,
    layers: TransformerEncoder,
    head: Linear,
}

impl Example for Encoder {
    type Output = ClassificationOutput;

    fn new(device: &Device) -> Encoder {
        let layers = TransformerEncoderConfig::new(16, 32, 4, 2)
            .with_dropout(0.0)
            .with_norm_first(true)
            .with_quiet_softmax(true);
        Encoder {
            tokens: EmbeddingConfig::new(30, 16).init(device),
            places: EmbeddingConfig::new(TOKENS, 16).init(device),
            layers: layers.init(device),
            head: LinearConfig::new(16, LABELS).init(device),
        }
    }

    fn output(&self, batch: Batch) -> ClassificationOutput {
        let [rows, tokens] = batch.ids.dims();
        let places = Tensor::arange(0..tokens as i64, &batch.ids.device());
        let places = places.reshape([1, tokens]).repeat_dim(0, rows);
        let padding = batch.ids.clone().equal_elem(0);
        let x = (self.tokens.forward(batch.ids) + self.places.forward(places)) / 2;
        let x = TransformerEncoderInput::new(x).mask_pad(padding);
        let x = self.head.forward(self.layers.forward(x));
        let logits = x.slice([0..rows, 0..1]).reshape([rows, LABELS]);
        let loss = CrossEntropyLossConfig::new().init(&logits.device());
        let loss = loss.forward(logits.clone(), batch.labels.clone());
        ClassificationOutput::new(loss, logits, batch.labels)
    }

    fn loss(output: &ClassificationOutput) -> Tensor<1> {
        output.loss.clone()
    }
}

macro_rules! steps {
    ($($model:ty),*) => {$(
        impl TrainStep for $model {
            type Input = Batch;
            type Output = <$model as Example>::Output;
            fn step(&self, batch: Batch) -> TrainOutput<<$model as Example>::Output> {
                let output = self.output(batch);
                TrainOutput::new(self, <$model>::loss(&output).backward(), output)
            }
        }

        impl InferenceStep for $model {
            type Input = Batch;
            type Output = <$model as Example>::Output;
            fn step(&self, batch: Batch) -> <$model as Example>::Output {
                self.output(batch)
            }
        }
    )*};
}
steps!(Regression, Encoder);

#[derive(Clone)]
struct Rows;

impl Batcher<usize, Batch> for Rows {
    fn batch(&self, rows: Vec<usize>, device: &Device) -> Batch {
        let features = |row: &usize| {
            (0..FEATURES)
                .map(move |at| value(row * FEATURES + at) as f32)
                .collect::<Vec<f32>>()
        };
        let id = |row: &usize| {
            let length = TOKENS - row % 3;
            (0..TOKENS)
                .map(move |at| {
                    if at < length {
                        1 + ((row * 7 + at * at) % 29) as i64
                    } else {
                        0
                    }
                })
                .collect::<Vec<i64>>()
        };
        let features: Vec<f32> = rows.iter().flat_map(features).collect();
        let ids: Vec<i64> = rows.iter().flat_map(id).collect();
        let labels: Vec<i64> = rows.iter().map(|row| (3 * row % LABELS) as i64).collect();
        let num_rows = rows.len();
        Batch {
            features: Tensor::from_data(TensorData::new(features, [num_rows, FEATURES]), device),
            ids: Tensor::from_data(TensorData::new(ids, [num_rows, TOKENS]), device),
            labels: Tensor::from_data(TensorData::new(labels, [num_rows]), device),
        }
    }
}

/// A loader of these rows.
pub fn loader(rows: Vec<usize>, batch_size: usize, device: &Device) -> Arc<dyn DataLoader<Batch>> {
    let builder = DataLoaderBuilder::new(Rows)
        .batch_size(batch_size)
        .num_workers(0);
    builder
        .set_device(device.clone())
        .build(InMemDataset::new(rows))
}

/// A batch of these rows.
pub fn batch(rows: std::ops::Range<usize>, device: &Device) -> Batch {
    Rows.batch(rows.collect(), device)
}

/// A number between -0.5 and 0.5 (the finaliser of SplitMix64, Steele et al. 2014).
fn value(index: usize) -> f64 {
    let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64 - 0.5
}

/// A model with numbers that depend on their place alone.
pub fn filled<M: Module>(model: M) -> M {
    struct Fill(usize);
    impl ModuleMapper for Fill {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            self.0 += 1;
            let place = self.0;
            param.map(|tensor| {
                let shape = tensor.shape();
                // Scales of norms are around 1.
                let middle = if D == 1 { 1.0 } else { 0.0 };
                let spread = 3.0 / (shape[0] as f64).sqrt();
                let values: Vec<f32> = (0..shape.num_elements())
                    .map(|at| (middle + spread * value(at + 100_000 * place)) as f32)
                    .collect();
                let data = TensorData::new(values, shape);
                Tensor::from_data(data, &tensor.device()).require_grad()
            })
        }
    }
    model.map(&mut Fill(0))
}

/// The elements of each parameter, in the order of the module.
pub fn weights<M: Module>(model: &M) -> Vec<Vec<f32>> {
    struct Collect(Vec<Vec<f32>>);
    impl ModuleVisitor for Collect {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0
                .push(param.val().into_data().try_into_vec().expect("f32"));
        }
    }
    let mut collect = Collect(Vec::new());
    model.visit(&mut collect);
    collect.0
}
