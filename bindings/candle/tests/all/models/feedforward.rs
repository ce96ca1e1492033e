//! A regression, perceptrons and a convolutional network.

use super::{Model, images, value};
use candle_core::{Device, Module, Result, Tensor};
use candle_nn::{Conv2d, Linear, VarBuilder, conv2d, linear, loss};

/// The regression of candle-nn's example basic_optimizer: a plane through points, from its values there.
pub struct Regression {
    plane: Linear,
}

impl Model for Regression {
    fn new(builder: VarBuilder) -> Result<Regression> {
        let plane = linear(2, 1, builder.pp("linear"))?;
        Ok(Regression { plane })
    }

    fn loss(&self, rows: std::ops::Range<usize>) -> Result<Tensor> {
        let (count, dtype) = (rows.len(), self.plane.weight().dtype());
        let points: Vec<f64> = rows
            .flat_map(|row| [value(2 * row), value(2 * row + 1)])
            .collect();
        let heights: Vec<f64> = points
            .chunks(2)
            .map(|point| 3.0 * point[0] + point[1] - 2.0)
            .collect();
        let points = Tensor::from_vec(points, (count, 2), &Device::Cpu)?.to_dtype(dtype)?;
        let heights = Tensor::from_vec(heights, (count, 1), &Device::Cpu)?.to_dtype(dtype)?;
        (self.plane.forward(&points)? - heights)?.sqr()?.mean_all()
    }
}

/// The perceptron of candle's mnist-training: 784 pixels, 100 hidden units, 10 labels.
pub struct Mlp {
    up: Linear,
    down: Linear,
}

impl Model for Mlp {
    fn new(builder: VarBuilder) -> Result<Mlp> {
        Ok(Mlp {
            up: linear(784, 100, builder.pp("ln1"))?,
            down: linear(100, 10, builder.pp("ln2"))?,
        })
    }

    fn loss(&self, rows: std::ops::Range<usize>) -> Result<Tensor> {
        let (images, labels) = images(rows, self.up.weight().dtype())?;
        let logits = self.down.forward(&self.up.forward(&images)?.relu()?)?;
        loss::cross_entropy(&logits, &labels)
    }
}

/// A perceptron with a layer before the two that a test cuts, so that gradients leave the cut part.
pub struct Deep {
    first: Linear,
    up: Linear,
    down: Linear,
}

impl Model for Deep {
    fn new(builder: VarBuilder) -> Result<Deep> {
        Ok(Deep {
            first: linear(784, 32, builder.pp("ln0"))?,
            up: linear(32, 100, builder.pp("ln1"))?,
            down: linear(100, 10, builder.pp("ln2"))?,
        })
    }

    fn loss(&self, rows: std::ops::Range<usize>) -> Result<Tensor> {
        let (images, labels) = images(rows, self.up.weight().dtype())?;
        let x = self.first.forward(&images)?.relu()?;
        let logits = self.down.forward(&self.up.forward(&x)?.relu()?)?;
        loss::cross_entropy(&logits, &labels)
    }
}

/// The convolutional network of candle's mnist-training, with a quarter of its channels and hidden units.
pub struct ConvNet {
    convolutions: [Conv2d; 2],
    up: Linear,
    down: Linear,
}

impl Model for ConvNet {
    fn new(builder: VarBuilder) -> Result<ConvNet> {
        let convolution = |inputs, outputs, name| {
            conv2d(inputs, outputs, 5, Default::default(), builder.pp(name))
        };
        Ok(ConvNet {
            convolutions: [convolution(1, 8, "c1")?, convolution(8, 16, "c2")?],
            up: linear(256, 256, builder.pp("fc1"))?,
            down: linear(256, 10, builder.pp("fc2"))?,
        })
    }

    fn loss(&self, rows: std::ops::Range<usize>) -> Result<Tensor> {
        let (images, labels) = images(rows, self.up.weight().dtype())?;
        let mut x = images.reshape(((), 1, 28, 28))?;
        for convolution in &self.convolutions {
            x = convolution.forward(&x)?.max_pool2d(2)?;
        }
        let hidden = self.up.forward(&x.flatten_from(1)?)?.relu()?;
        loss::cross_entropy(&self.down.forward(&hidden)?, &labels)
    }
}
