//! Norms and their gradients against their formulas, in one pass over full rows and in steps.

use super::{compare, numbers, read, upload};
use tensor::{
    DType, Device, Tensor,
    ops::{
        self,
        norm::{self, Gradients, NormKind, NormShape},
    },
};

const EPSILON: f64 = 1e-5;
const SIZES: [(usize, usize); 3] = [(5, 24), (19, 33), (3, 1)];

/// Checks norms of elements of this type.
pub(super) fn check(device: &Device, dtype: DType) {
    for (rows, columns) in SIZES {
        for kind in NormKind::ALL {
            let case = Case::new(device, dtype, kind, [rows, columns]);
            case.forward();
            case.backward();
        }
    }
    for kind in NormKind::ALL {
        shards(device, dtype, kind);
    }
}

struct Case<'a> {
    device: &'a Device,
    dtype: DType,
    shape: NormShape,
    // With their numbers.
    x: (Tensor, Vec<f64>),
    gain: (Tensor, Vec<f64>),
    bias: Option<(Tensor, Vec<f64>)>,
}

impl<'a> Case<'a> {
    fn new(device: &'a Device, dtype: DType, kind: NormKind, [rows, columns]: [usize; 2]) -> Self {
        let own = |shape: &[usize], seed| {
            let numbers = numbers(shape.iter().product(), seed);
            (upload(device, dtype, shape, &numbers), numbers)
        };
        let x = own(&[rows, columns], 1);
        Case {
            device,
            dtype,
            shape: norm::shape(kind, &x.0, columns, EPSILON),
            x,
            gain: own(&[columns], 2),
            bias: (kind == NormKind::Layer).then(|| own(&[columns], 3)),
        }
    }

    // Mean and sum of squares of each row.
    fn moments(&self) -> Vec<[f64; 2]> {
        let of_row = |row: &[f64]| {
            let mean = match self.shape.kind {
                NormKind::Layer => row.iter().sum::<f64>() / row.len() as f64,
                NormKind::Rms | NormKind::RmsOffset => 0.0,
            };
            [mean, row.iter().map(|x| (x - mean).powi(2)).sum()]
        };
        self.x.1.chunks(self.shape.columns).map(of_row).collect()
    }

    // The normalised rows without gain and bias, and by what each row was divided.
    fn normalised(&self) -> Vec<(f64, Vec<f64>)> {
        let rows = self.x.1.chunks(self.shape.columns).zip(self.moments());
        rows.map(|(row, [mean, squares])| {
            let root = (squares / row.len() as f64 + EPSILON).sqrt();
            (root, row.iter().map(|x| (x - mean) / root).collect())
        })
        .collect()
    }

    fn factor(&self, column: usize) -> f64 {
        self.gain.1[column] + self.shape.kind.gain_offset()
    }

    fn forward(&self) {
        let (x, gain) = (&self.x.0, &self.gain.0);
        let bias = self.bias.as_ref();
        let element = |(column, xhat): (usize, &f64)| {
            xhat * self.factor(column) + bias.map_or(0.0, |(_, bias)| bias[column])
        };
        let rows = self.normalised();
        let expected: Vec<f64> = rows
            .iter()
            .flat_map(|(_, row)| row.iter().enumerate().map(element))
            .collect();
        let bias = bias.map(|(bias, _)| bias);
        let (out, found) = norm::forward(self.shape, x, gain, bias).unwrap();
        compare("norm", &out, &expected, 4.0);
        compare("moments of a norm", &found, &self.moments().concat(), 20.0);
        let moments = norm::moments(self.shape, x).unwrap();
        compare("moments", &moments, &self.moments().concat(), 20.0);
        let out = norm::normalize(self.shape, x, &moments, gain, bias).unwrap();
        compare("normalize", &out, &expected, 4.0);
    }

    fn backward(&self) {
        let NormShape { rows, columns, .. } = self.shape;
        let accumulator = self.dtype.accumulator();
        let d_out = numbers(rows * columns, 4);
        let before = numbers(columns, 5);
        let (mut d_x, mut d_gain, mut d_bias) = (Vec::new(), before.clone(), before.clone());
        for ((root, xhat), d_out) in self.normalised().iter().zip(d_out.chunks(columns)) {
            let g: Vec<f64> = (0..columns).map(|c| d_out[c] * self.factor(c)).collect();
            let mean = |terms: &dyn Fn(usize) -> f64| {
                (0..columns).map(terms).sum::<f64>() / columns as f64
            };
            let of_g = match self.shape.kind {
                NormKind::Layer => mean(&|c| g[c]),
                NormKind::Rms | NormKind::RmsOffset => 0.0,
            };
            let of_g_xhat = mean(&|c| g[c] * xhat[c]);
            d_x.extend((0..columns).map(|c| (g[c] - of_g - xhat[c] * of_g_xhat) / root));
            for c in 0..columns {
                d_gain[c] += d_out[c] * xhat[c];
                d_bias[c] += d_out[c];
            }
        }
        // The rows are divided by little where they have one column.
        let largest = d_x.iter().fold(1.0f64, |largest, x| largest.max(x.abs()));
        let own =
            |dtype, shape: &[usize], numbers: &[f64]| upload(self.device, dtype, shape, numbers);
        let (of_out, d_out) = (d_out.clone(), own(self.dtype, &[rows, columns], &d_out));
        let vector = || own(accumulator, &[columns], &before);
        let (x, gain) = (&self.x.0, &self.gain.0);
        let moments = norm::moments(self.shape, x).unwrap();
        let judge = |(found, added): (&Tensor, &[f64]),
                     d_gain_found: &Tensor,
                     d_bias_found: Option<&Tensor>| {
            let d_x: Vec<f64> = d_x.iter().zip(added).map(|(own, add)| own + add).collect();
            compare("gradient of a norm", found, &d_x, 4.0 * largest);
            compare("gradient of a gain", d_gain_found, &d_gain, 40.0);
            if let Some(found) = d_bias_found {
                compare("gradient of a bias", found, &d_bias, 40.0);
            }
        };

        let of_nothing = vec![0.0; rows * columns];
        for (addend, added) in [(None, &of_nothing), (Some(&d_out), &of_out)] {
            let (of_gain, of_bias) = (vector(), self.bias.as_ref().map(|_| vector()));
            let of_x = Tensor::empty(self.device, self.dtype, &[rows, columns]).unwrap();
            let gradients = Gradients {
                d_x: &of_x,
                d_gain: &of_gain,
                d_bias: of_bias.as_ref(),
                addend,
            };
            norm::backward(self.shape, x, &moments, gain, &d_out, gradients, 1.0).unwrap();
            judge((&of_x, added), &of_gain, of_bias.as_ref());
        }

        let (of_gain, of_bias) = (vector(), self.bias.as_ref().map(|_| vector()));
        let gradients = (&of_gain, of_bias.as_ref());
        let sums = norm::sums(self.shape, x, &moments, gain, &d_out, gradients, 1.0).unwrap();
        let of_x = norm::normalize_backward(self.shape, x, &moments, gain, &d_out, &sums).unwrap();
        judge((&of_x, &of_nothing), &of_gain, of_bias.as_ref());
    }
}

// The combined statistics of a row cut into two shards are those of the full row.
fn shards(device: &Device, dtype: DType, kind: NormKind) {
    let (rows, columns) = (5, 24);
    let case = Case::new(device, dtype, kind, [rows, columns]);
    let halves = [0, columns / 2].map(|start| {
        let half = ops::columns(&case.x.0, start, columns / 2).unwrap();
        let shape = norm::shape(kind, &half, columns, EPSILON);
        let moments = norm::moments(shape, &half).unwrap();
        read(&moments).unwrap_or_else(|| vec![0.0; rows * 2])
    });
    let parts = upload(device, dtype.accumulator(), &[2, rows, 2], &halves.concat());
    let combined = norm::combine(case.shape, &parts, &[columns / 2; 2]).unwrap();
    compare(
        "combined moments",
        &combined,
        &case.moments().concat(),
        20.0,
    );
}
