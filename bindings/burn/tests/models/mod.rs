//! A perceptron and a transformer for classes, as burn's examples have them, with rows and initial values that every rank can compute.

use burn::{
    data::dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher},
    data::dataset::InMemDataset,
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    nn::{
        Embedding, EmbeddingConfig, Linear, LinearConfig,
        loss::CrossEntropyLossConfig,
        transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput},
    },
    tensor::{Device, Int, Tensor, TensorData, activation::relu},
    train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep},
};
use std::sync::Arc;

const TOKENS: usize = 12;
const PIXELS: usize = 784;
const LABELS: usize = 10;

/// Rows of a step, of pixels or of ids.
#[derive(Clone, Debug)]
pub struct Batch {
    pub pixels: Tensor<2>,
    pub ids: Tensor<2, Int>,
    pub labels: Tensor<1, Int>,
}

/// A model of classes.
pub trait Classes: Sized {
    fn new(device: &Device) -> Self;
    fn logits(&self, batch: &Batch) -> Tensor<2>;

    fn classify(&self, batch: Batch) -> ClassificationOutput {
        let logits = self.logits(&batch);
        let loss = CrossEntropyLossConfig::new().init(&logits.device());
        let loss = loss.forward(logits.clone(), batch.labels.clone());
        ClassificationOutput::new(loss, logits, batch.labels)
    }
}

/// The perceptron of MNIST: 784 pixels, 100 hidden units, 10 labels.
#[derive(Module, Debug)]
pub struct Mlp {
    up: Linear,
    down: Linear,
}

impl Classes for Mlp {
    fn new(device: &Device) -> Mlp {
        Mlp {
            up: LinearConfig::new(PIXELS, 100).init(device),
            down: LinearConfig::new(100, LABELS).init(device),
        }
    }

    fn logits(&self, batch: &Batch) -> Tensor<2> {
        self.down
            .forward(relu(self.up.forward(batch.pixels.clone())))
    }
}

/// The encoder of burn's text-classification, small: tokens and places, two layers, and the first token's class.
#[derive(Module, Debug)]
pub struct Encoder {
    tokens: Embedding,
    places: Embedding,
    layers: TransformerEncoder,
    head: Linear,
}

impl Classes for Encoder {
    fn new(device: &Device) -> Encoder {
        let layers = TransformerEncoderConfig::new(16, 32, 4, 2).with_dropout(0.0);
        Encoder {
            tokens: EmbeddingConfig::new(30, 16).init(device),
            places: EmbeddingConfig::new(TOKENS, 16).init(device),
            layers: layers.with_norm_first(true).init(device),
            head: LinearConfig::new(16, LABELS).init(device),
        }
    }

    fn logits(&self, batch: &Batch) -> Tensor<2> {
        let [rows, tokens] = batch.ids.dims();
        let places = Tensor::arange(0..tokens as i64, &batch.ids.device());
        let places = places.reshape([1, tokens]).repeat_dim(0, rows);
        let x = (self.tokens.forward(batch.ids.clone()) + self.places.forward(places)) / 2;
        let x = self.layers.forward(TransformerEncoderInput::new(x));
        self.head
            .forward(x.slice([0..rows, 0..1]).reshape([rows, 16]))
    }
}

macro_rules! steps {
    ($($model:ty),*) => {$(
        impl TrainStep for $model {
            type Input = Batch;
            type Output = ClassificationOutput;
            fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
                let output = self.classify(batch);
                TrainOutput::new(self, output.loss.backward(), output)
            }
        }

        impl InferenceStep for $model {
            type Input = Batch;
            type Output = ClassificationOutput;
            fn step(&self, batch: Batch) -> ClassificationOutput {
                self.classify(batch)
            }
        }
    )*};
}
steps!(Mlp, Encoder);

#[derive(Clone)]
struct Rows;

impl Batcher<usize, Batch> for Rows {
    fn batch(&self, rows: Vec<usize>, device: &Device) -> Batch {
        let pixel = |row: &usize| {
            (0..PIXELS)
                .map(move |at| value(row * PIXELS + at) as f32)
                .collect::<Vec<f32>>()
        };
        let id = |row: &usize| {
            (0..TOKENS)
                .map(move |at| ((row * 7 + at * at) % 30) as i64)
                .collect::<Vec<i64>>()
        };
        let pixels: Vec<f32> = rows.iter().flat_map(pixel).collect();
        let ids: Vec<i64> = rows.iter().flat_map(id).collect();
        let labels: Vec<i64> = rows.iter().map(|row| (3 * row % LABELS) as i64).collect();
        let num_rows = rows.len();
        Batch {
            pixels: Tensor::from_data(TensorData::new(pixels, [num_rows, PIXELS]), device),
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

/// All weights, in the order of the module.
pub fn weights<M: Module>(model: &M) -> Vec<f32> {
    struct Collect(Vec<f32>);
    impl ModuleVisitor for Collect {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0
                .extend(param.val().into_data().try_into_vec::<f32>().expect("f32"));
        }
    }
    let mut collect = Collect(Vec::new());
    model.visit(&mut collect);
    collect.0
}
