//! Muon: orthogonalised momentum for the matrices of hidden layers, AdamW for everything else.

use super::{AdamW, MatrixRule, Optimiser, Rate, RuleMatmul, Update, UpdateCall};
use parallel::Result;
use tensor::{
    DType, MemoryKind, Tensor,
    ops::{self, Transpose, matmul, matmul_into, optimiser},
};

/// Coefficients of a Newton-Schulz step, a X + (b A + c A^2) X with A = X X^T, and the number of steps.
const COEFFICIENTS: [f64; 3] = [3.4445, -4.7750, 2.0315];
const STEPS: usize = 5;
/// Added to the norm of a matrix, so that zeros stay zeros.
const EPSILON: f64 = 1e-7;

/// Muon: momentum whose singular values are brought near 1.
///
/// [Hidden matrices](parallel::Parameter::is_hidden_matrix) follow the orthogonalised momentum, of which they keep one state
/// tensor. Embeddings, heads, norms and biases follow AdamW, which keeps two. Each matrix is orthogonalised whole, by one rank.
/// With out > in, a matrix of in x out moves by sqrt(out / in) times the rate.
///
/// # Source
/// Jordan et al., 2024, kellerjordan.github.io/posts/muon; decoupled decay as in Liu et al., arXiv:2502.16982.
#[derive(Clone, Debug, PartialEq)]
pub struct Muon {
    /// Learning rate of hidden matrices.
    pub rate: Rate,
    /// Decay of the momentum.
    pub momentum: f64,
    /// The rule of all other parameters; its weight decay is that of all matrices.
    pub others: AdamW,
}

impl Muon {
    /// With this rate of hidden matrices, a momentum of 0.95, and AdamW's rate for all else.
    pub fn new(rate: impl Into<Rate>, others: impl Into<Rate>) -> Muon {
        Muon {
            rate: rate.into(),
            momentum: 0.95,
            others: AdamW::new(others),
        }
    }
}

impl Optimiser for Muon {
    fn name(&self) -> &'static str {
        "muon"
    }

    fn num_states(&self) -> usize {
        self.others.num_states()
    }

    fn rate(&self, step: u64) -> f64 {
        self.others.rate(step)
    }

    fn weight_decay(&self) -> f64 {
        self.others.weight_decay
    }

    fn update(&self, call: &UpdateCall<'_>) -> Result<()> {
        self.others.update(call)
    }

    fn matrices(&self) -> Option<&dyn MatrixRule> {
        Some(self)
    }
}

impl MatrixRule for Muon {
    fn num_states(&self) -> usize {
        1
    }

    fn prepare(&self, call: &UpdateCall<'_>) -> Result<()> {
        optimiser::momentum(call.device, call.pieces, call.factor, self.momentum)
    }

    fn rate(&self, step: u64) -> f64 {
        self.rate.at(step)
    }

    // As `orthogonal` queues them.
    fn matmuls(&self, rows: usize, columns: usize) -> Vec<RuleMatmul> {
        let (short, is_tall) = (rows.min(columns), rows > columns);
        let by_itself = |k, transpose| RuleMatmul {
            m: short,
            n: short,
            k,
            transpose,
        };
        let gram = match is_tall {
            true => by_itself(rows, Transpose::First),
            false => by_itself(columns, Transpose::Second),
        };
        let next = RuleMatmul {
            m: rows,
            n: columns,
            k: short,
            transpose: Transpose::None,
        };
        [gram, by_itself(short, Transpose::None), next].repeat(STEPS)
    }

    fn transform(&self, matrix: &Tensor, dtype: DType) -> Result<()> {
        let device = matrix.device();
        let x = device.allocating(MemoryKind::Buffers, || orthogonal(matrix, dtype))?;
        let (rows, columns) = (matrix.num_rows() as f64, matrix.columns() as f64);
        let scale = (columns / rows).max(1.0).sqrt();
        ops::axpby(scale, &x, 0.0, matrix)
    }

    fn apply(&self, call: &UpdateCall<'_>) -> Result<()> {
        // The direction has no scale left: its factor is 1, or NaN where the update is skipped.
        let norm = call.factor.rows(1, 1)?;
        let factor = optimiser::clip_scale(&norm, None, 1.0)?;
        // The momentum is done: a state would be the velocity of this update.
        let pieces = call.pieces.iter().cloned().map(|piece| Update {
            state: Vec::new(),
            ..piece
        });
        let pieces: Vec<Update> = pieces.collect();
        optimiser::sgd(call.device, &pieces, &factor, call.rate, 0.0)
    }
}

/// The matrix with its singular values near 1, in this type; the GEMMs run in it too.
fn orthogonal(matrix: &Tensor, dtype: DType) -> Result<Tensor> {
    let device = matrix.device();
    let [a, b, c] = COEFFICIENTS;
    let squares = Tensor::zeros(device, DType::F64, &[1])?;
    optimiser::sum_squares(&[matrix], &squares)?;
    let mut x = Tensor::empty(device, dtype, matrix.shape())?;
    optimiser::unit_norm(matrix, &squares, EPSILON, &x)?;
    let is_tall = matrix.num_rows() > matrix.columns();
    for _ in 0..STEPS {
        let gram = match is_tall {
            true => matmul(&x, &x, Transpose::First)?,
            false => matmul(&x, &x, Transpose::Second)?,
        };
        let [polynomial, next] = [&gram, &x].map(copy);
        let (polynomial, next) = (polynomial?, next?);
        matmul_into(&gram, &gram, Transpose::None, &polynomial, c, b)?;
        match is_tall {
            true => matmul_into(&x, &polynomial, Transpose::None, &next, 1.0, a)?,
            false => matmul_into(&polynomial, &x, Transpose::None, &next, 1.0, a)?,
        }
        x = next;
    }
    Ok(x)
}

fn copy(tensor: &Tensor) -> Result<Tensor> {
    let copy = Tensor::empty(tensor.device(), tensor.dtype(), tensor.shape())?;
    ops::copy(tensor, &copy)?;
    Ok(copy)
}
