//! LayerNorm and RMSNorm over rows that may be cut into several shards.
//!
//! Of full rows, a norm is one kernel in each direction: [`NormForward`] and [`NormBackward`]. Of rows that are cut, it
//! runs in steps, so that the statistics of a row can be combined over ranks between them: [`Moments`] of the local
//! columns, [`CombineMoments`] of all shards, [`Normalize`]. Backward likewise: [`NormalizeSums`] locally, a sum over
//! ranks, [`NormalizeBackward`].
//!
//! Where the device keeps [canonical sums](crate::Capabilities::canonical_sums), moments and row sums are those of the
//! tree of [`sums`](crate::sums) over single columns: nodes computed apart and combined have the bits of the full row,
//! and the kernels of full rows have the bits of the steps.

use super::{Binary, BinaryOp};
use crate::{
    RawSlice,
    operand::{READ, UPDATE, WRITE, operands},
};

/// The statistics by which a norm divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// Mean and variance, with gain and bias.
    Layer,
    /// Root of the mean square, with gain only.
    Rms,
    /// The same with factors of 1 + gain, as in Gemma: a gain that decays to 0 leaves the rows normalised.
    RmsOffset,
}

impl NormKind {
    /// All of them.
    pub const ALL: [NormKind; 3] = [NormKind::Layer, NormKind::Rms, NormKind::RmsOffset];

    /// What is added to a gain, in the accumulator type.
    pub fn gain_offset(self) -> f64 {
        match self {
            NormKind::RmsOffset => 1.0,
            NormKind::Layer | NormKind::Rms => 0.0,
        }
    }
}

/// Sizes shared by the norm's kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormShape {
    /// Which norm.
    pub kind: NormKind,
    /// Rows held here.
    pub rows: usize,
    /// Columns held here.
    pub columns: usize,
    /// Columns of the full row.
    pub global_columns: usize,
    /// Added to the variance, or to the mean square.
    pub epsilon: f64,
}

/// [`Moments`] and [`Normalize`] of full rows; with addends also the sum that makes the rows, such as that of a residual.
#[derive(Clone, Debug, PartialEq)]
pub struct NormForward {
    /// Sizes; all columns of the full row are here.
    pub shape: NormShape,
    /// rows x columns each, of the type of `x`: then `x` is first set to their sum, with the bits of [`Binary`]. They do not overlap
    /// `x`.
    pub addends: Option<[RawSlice; 2]>,
    /// rows x columns, any float type.
    pub x: RawSlice,
    /// columns, of the type of `x`.
    pub gain: RawSlice,
    /// columns, of the type of `x`; for `Layer` alone.
    pub bias: Option<RawSlice>,
    /// rows x 2, of the accumulator type, as of [`Moments`].
    pub moments: RawSlice,
    /// rows x columns, of the type of `x`; overlaps nothing, but may be one of the addends.
    pub out: RawSlice,
}

/// [`NormalizeSums`] and [`NormalizeBackward`] of full rows.
#[derive(Clone, Debug, PartialEq)]
pub struct NormBackward {
    /// Sizes; all columns of the full row are here.
    pub shape: NormShape,
    /// rows x columns.
    pub x: RawSlice,
    /// rows x 2.
    pub moments: RawSlice,
    /// columns, of the type of `x`.
    pub gain: RawSlice,
    /// rows x columns, of the type of `x`.
    pub d_out: RawSlice,
    /// columns, of the accumulator type.
    pub d_gain: RawSlice,
    /// columns, of the accumulator type; for `Layer` alone.
    pub d_bias: Option<RawSlice>,
    /// Factor of what `d_gain` and `d_bias` hold; 0 does not read them.
    pub beta: f64,
    /// rows x columns, of the type of `x`: another part of the gradient of `x`, which is added to this one once it is rounded.
    pub addend: Option<RawSlice>,
    /// rows x columns, of the type of `x`; overlaps nothing.
    pub d_x: RawSlice,
}

impl NormForward {
    /// The sum that comes before the [`steps`](NormForward::steps), if there are addends.
    pub fn sum(&self) -> Option<Binary> {
        self.addends.map(|[a, b]| Binary {
            op: BinaryOp::Add,
            a,
            b,
            out: self.x,
        })
    }

    /// The same with the sum of `sum`, if that is what makes `x` and one kernel can do both.
    pub fn with_sum(&self, sum: &Binary) -> Option<NormForward> {
        let &Binary { op, a, b, out } = sum;
        let makes_x =
            op == BinaryOp::Add && out == self.x && [a, b].iter().all(|s| s.len == out.len);
        let is_apart = |addend: &RawSlice| {
            let from_result = *addend == self.out || !addend.overlaps(&self.out);
            from_result && !addend.overlaps(&self.x) && !addend.overlaps(&self.moments)
        };
        let fits = self.addends.is_none() && makes_x && [a, b].iter().all(is_apart);
        fits.then(|| NormForward {
            addends: Some([a, b]),
            ..self.clone()
        })
    }

    /// The steps that compute the same of `x`, in their order.
    pub fn steps(&self) -> (Moments, Normalize) {
        let &NormForward {
            shape,
            x,
            gain,
            bias,
            moments,
            out,
            ..
        } = self;
        let normalize = Normalize {
            shape,
            x,
            moments,
            gain,
            bias,
            out,
        };
        (Moments { shape, x, moments }, normalize)
    }
}

impl NormBackward {
    /// The steps that compute the same but for the addend, in their order, with the row sums at `sums`: rows x 2, of the accumulator
    /// type.
    pub fn steps(&self, sums: RawSlice) -> (NormalizeSums, NormalizeBackward) {
        let &NormBackward {
            shape,
            x,
            moments,
            gain,
            d_out,
            d_gain,
            d_bias,
            beta,
            d_x,
            ..
        } = self;
        let first = NormalizeSums {
            shape,
            x,
            moments,
            gain,
            d_out,
            sums,
            d_gain,
            d_bias,
            beta,
        };
        let rest = NormalizeBackward {
            shape,
            x,
            moments,
            gain,
            d_out,
            sums,
            d_x,
        };
        (first, rest)
    }
}

/// Mean and centred sum of squares of the local columns of every row.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// Sizes.
    pub shape: NormShape,
    /// rows x columns, any float type.
    pub x: RawSlice,
    /// rows x 2, of the accumulator type: `Layer` gives (mean, sum of (x - mean)^2), the others give (0, sum of x^2).
    pub moments: RawSlice,
}

/// Combines the moments of parts of the rows into those of the full rows, as Chan, Golub and LeVeque (1979) do.
#[derive(Clone, Debug, PartialEq)]
pub struct CombineMoments {
    /// Sizes; `columns` is not read.
    pub shape: NormShape,
    /// parts x rows x 2.
    pub parts: RawSlice,
    /// Columns of each part, from left to right. A device without canonical sums may need them to be equal.
    pub widths: Vec<usize>,
    /// rows x 2.
    pub moments: RawSlice,
}

/// `out = gain * (x - mean) * rstd (+ bias)`, with `rstd` from the moments of the full row. Here and below, `RmsOffset` takes 1 + gain
/// for the gain.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalize {
    /// Sizes.
    pub shape: NormShape,
    /// rows x columns.
    pub x: RawSlice,
    /// rows x 2, of the full rows.
    pub moments: RawSlice,
    /// columns, of the type of `x`.
    pub gain: RawSlice,
    /// columns, of the type of `x`; for `Layer` alone.
    pub bias: Option<RawSlice>,
    /// rows x columns, of the type of `x`; overlaps nothing.
    pub out: RawSlice,
}

/// Local sums that the gradient of a norm needs, and the gradients of gain and bias.
///
/// With xhat = (x - mean) * rstd and g = d_out * gain, row by row: `sums[r] = (sum of g, sum of g * xhat)`; and column
/// by column: `d_gain[c] = beta * d_gain[c] + sum over r of d_out * xhat`, and `d_bias[c]` likewise with the sum over r of
/// d_out.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalizeSums {
    /// Sizes.
    pub shape: NormShape,
    /// rows x columns.
    pub x: RawSlice,
    /// rows x 2, of the full rows.
    pub moments: RawSlice,
    /// columns, of the type of `x`.
    pub gain: RawSlice,
    /// rows x columns, of the type of `x`.
    pub d_out: RawSlice,
    /// rows x 2, of the accumulator type.
    pub sums: RawSlice,
    /// columns, of the accumulator type.
    pub d_gain: RawSlice,
    /// columns, of the accumulator type; for `Layer` alone.
    pub d_bias: Option<RawSlice>,
    /// Factor of what `d_gain` and `d_bias` hold; 0 does not read them.
    pub beta: f64,
}

/// `d_x = rstd * (g - (sum of g + xhat * sum of g * xhat) / global_columns)`; only `Layer` has the first sum.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalizeBackward {
    /// Sizes.
    pub shape: NormShape,
    /// rows x columns.
    pub x: RawSlice,
    /// rows x 2, of the full rows.
    pub moments: RawSlice,
    /// columns, of the type of `x`.
    pub gain: RawSlice,
    /// rows x columns, of the type of `x`.
    pub d_out: RawSlice,
    /// rows x 2, summed over the shards.
    pub sums: RawSlice,
    /// rows x columns, of the type of `x`; may be `d_out`.
    pub d_x: RawSlice,
}

operands! {
    NormForward {
        addends: READ, x: if addends.is_some() { WRITE } else { READ }, gain: READ, bias: READ, moments: WRITE,
        out: if addends.is_some() { WRITE.in_place() } else { WRITE } ; shape
    }
    NormBackward {
        x: READ, moments: READ, gain: READ, d_out: READ, d_gain: UPDATE, d_bias: UPDATE, addend: READ, d_x: WRITE
        ; shape, beta
    }
    Moments { x: READ, moments: WRITE ; shape }
    CombineMoments { parts: READ, moments: WRITE ; shape, widths }
    Normalize { x: READ, moments: READ, gain: READ, bias: READ, out: WRITE ; shape }
    NormalizeSums {
        x: READ, moments: READ, gain: READ, d_out: READ, sums: WRITE, d_gain: UPDATE, d_bias: UPDATE
        ; shape, beta
    }
    NormalizeBackward { x: READ, moments: READ, gain: READ, d_out: READ, sums: READ, d_x: WRITE ; shape }
}
