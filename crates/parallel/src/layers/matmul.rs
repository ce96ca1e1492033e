//! Matmuls of two activations, row by row and head by head.

use super::DTensor;
use tensor::{Error, Result, Var};

impl DTensor {
    /// For each row and head, the matmul of two matrices: weights by values.
    ///
    /// # Shapes
    /// `self`: rows x m x (heads * k). `other`: rows x k x (heads * n). The result: rows x m x (heads * n);
    /// with `heads` 1, one matmul per row. Cut features stay cut if each rank of the axis holds complete heads,
    /// and `other` is changed to the layout of `self`. Otherwise both are gathered.
    /// # Cost
    /// One batched matmul, a copy of each matrix if there is more than one head, and the changes of layout.
    /// # Errors
    /// [`Error::Invalid`] when shapes or types do not fit, and for 0 heads; those of the collectives.
    pub fn matmul(&self, other: &DTensor, heads: usize) -> Result<DTensor> {
        self.multiply(other, heads, false)
    }

    /// The same with the second matrix transposed: queries by keys.
    ///
    /// # Shapes
    /// `self`: rows x m x (heads * k). `other`: rows x n x (heads * k). The result: rows x m x (heads * n).
    /// # Cost
    /// As [`matmul`](DTensor::matmul).
    /// # Errors
    /// As there.
    pub fn matmul_transposed(&self, other: &DTensor, heads: usize) -> Result<DTensor> {
        self.multiply(other, heads, true)
    }

    fn multiply(&self, other: &DTensor, heads: usize, transposed: bool) -> Result<DTensor> {
        let refuse = |needed: String| {
            let found = format!("{self:?} by {other:?} in {heads} heads");
            Err(Error::invalid("matmul", found, needed))
        };
        let ([m], [of_other]) = (self.inner(), other.inner()) else {
            return refuse("rows x vectors x features on both sides".into());
        };
        let whole = |x: &DTensor| heads > 0 && x.features().is_multiple_of(heads);
        if !whole(self) || !whole(other) {
            return refuse(format!("features that are a multiple of {heads} heads"));
        }
        let (k, contracted, n) = match transposed {
            true => (self.features() / heads, other.features() / heads, *of_other),
            false => (self.features() / heads, *of_other, other.features() / heads),
        };
        if k != contracted || self.num_rows() != other.num_rows() {
            return refuse("as many rows, and equal sizes to contract over".into());
        }
        let a = self.in_heads(heads)?;
        let b = other.redistribute(a.cut(), "matmul")?;
        let held = heads / a.cut().map_or(1, |axis| a.context().degree(axis));
        let [left, right] = [split(&a, held)?, split(&b, held)?];
        let out = joined(&left.matmul_batched(&right, transposed)?, *m, held * n)?;
        if let Some(ledger) = self.pass().ledger() {
            ledger.activations(2.0 * (self.num_rows() * heads * m * k * n) as f64);
        }
        self.with_features(out, heads * n, a.cut())
    }

    // Gathered for a single head, because the matmul contracts its features.
    fn in_heads(&self, heads: usize) -> Result<DTensor> {
        match heads {
            1 => self.whole("matmul"),
            _ => self.in_runs(heads, "matmul"),
        }
    }
}

// rows x vectors x (heads * size) as rows x heads x vectors x size.
fn split(x: &DTensor, heads: usize) -> Result<Var> {
    let (rows, vectors) = (x.num_rows(), x.inner()[0]);
    if heads == 1 {
        return x.var().cloned();
    }
    let size = x.held().columns() / heads;
    x.var()?
        .reshape(&[rows, vectors, heads, size])?
        .permute(&[0, 2, 1, 3])
}

// And back.
fn joined(x: &Var, vectors: usize, columns: usize) -> Result<Var> {
    let rows = x.tensor().shape()[0];
    let shape = [rows, vectors, columns];
    match x.tensor().shape().len() {
        4 => x.permute(&[0, 2, 1, 3])?.reshape(&shape),
        _ => x.reshape(&shape),
    }
}
