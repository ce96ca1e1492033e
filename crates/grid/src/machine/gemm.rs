//! The speed of a GEMM by shape.
//!
//! On an accelerator the result is cut into tiles, and a multiprocessor computes one tile at a time. The last
//! wave is partly idle, a short contracted size leaves the ends of the pipeline unfilled, and the transposed
//! variants differ. If speeds of shapes were measured (`points`), the speed comes from the nearest of them
//! instead.

use super::{device::Device, quantity::Quantity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The speed of GEMMs on a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmModel {
    /// Fraction of the advertised peak that a very large GEMM reaches, by element type; `other` applies to
    /// types not named.
    pub efficiency: BTreeMap<String, Quantity>,
    /// Number of multiprocessors (compute units) that process tiles.
    pub units: Quantity,
    /// Rows and columns of a tile, and its speed relative to the largest tile.
    pub tiles: Vec<Tile>,
    /// Contracted size at which half the time of a tile goes into filling and draining.
    pub half_depth: Quantity,
    /// Speed of each variant relative to NN.
    #[serde(default)]
    pub variants: Vec<VariantSpeed>,
    /// Measured speeds of shapes; if there are any, they replace tiles, depth and variants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
    /// Fraction of their speed that remains inside a step, where other work has used the caches; 1 if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_step: Option<Quantity>,
}

/// A tile of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tile {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Speed relative to the largest tile.
    pub speed: f64,
}

/// Which factor is transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// Neither: forward.
    Nn,
    /// The right one: the gradient of the input.
    Nt,
    /// The left one: the gradient of the weight.
    Tn,
    /// Both.
    Tt,
}

/// The speed of a variant, from some size on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariantSpeed {
    /// Which variant.
    pub variant: Variant,
    /// The size from which it applies: the larger of `m` and `n` must reach it.
    #[serde(default)]
    pub from: usize,
    /// Speed relative to NN.
    pub speed: Quantity,
}

/// A measured GEMM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Sizes.
    pub m: usize,
    /// Sizes.
    pub n: usize,
    /// Sizes.
    pub k: usize,
    /// Element type.
    pub dtype: String,
    /// Which factor is transposed.
    pub variant: Variant,
    /// Measured Tflop/s.
    pub tflops: f64,
}

/// A GEMM whose time is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmShape<'a> {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// The contracted size.
    pub k: usize,
    /// Element type of the factors.
    pub dtype: &'a str,
    /// Which factor is transposed.
    pub variant: Variant,
    /// Bytes of the three matrices.
    pub bytes: usize,
}

impl GemmShape<'_> {
    /// Floating-point operations.
    pub fn flop(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }
}

impl GemmModel {
    /// Seconds on an otherwise idle device. `tuned` takes the fastest variant and counts no cost for
    /// transposing.
    pub fn seconds(&self, shape: &GemmShape<'_>, device: &Device, tuned: bool) -> f64 {
        if let Some(rate) = self.measured(shape) {
            return shape.flop() / (rate * self.in_step.as_ref().map_or(1.0, |share| share.value));
        }
        let rate = self.modelled(shape, device, tuned);
        let memory = shape.bytes as f64 / device.kernel_bandwidth("copy", "layout");
        (shape.flop() / rate).max(memory)
    }

    fn modelled(&self, shape: &GemmShape<'_>, device: &Device, tuned: bool) -> f64 {
        let peak = device.peak(shape.dtype) * self.efficiency_of(shape.dtype);
        let k = shape.k as f64;
        let depth = k / (k + self.half_depth.value);
        let variant = if tuned {
            1.0
        } else {
            self.variant_speed(shape)
        };
        peak * depth * variant * self.tiling(shape)
    }

    fn efficiency_of(&self, dtype: &str) -> f64 {
        let efficiency = self
            .efficiency
            .get(dtype)
            .or_else(|| self.efficiency.get("other"));
        efficiency.map_or(0.8, |share| share.value)
    }

    // Fraction of the multiprocessors' time that goes into the result, with the best of the tiles.
    fn tiling(&self, shape: &GemmShape<'_>) -> f64 {
        let share = |tile: &Tile| {
            let tiles = shape.m.div_ceil(tile.rows) * shape.n.div_ceil(tile.columns);
            let waves = (tiles as f64 / self.units.value).ceil();
            let area = (tile.rows * tile.columns) as f64;
            tile.speed * (shape.m * shape.n) as f64 / (waves * self.units.value * area)
        };
        self.tiles.iter().map(share).fold(1e-3, f64::max).min(1.0)
    }

    fn variant_speed(&self, shape: &GemmShape<'_>) -> f64 {
        let size = shape.m.max(shape.n);
        let applies = |speed: &&VariantSpeed| speed.variant == shape.variant && size >= speed.from;
        self.variants
            .iter()
            .filter(applies)
            .max_by_key(|speed| speed.from)
            .map_or(1.0, |found| found.speed.value)
    }

    // Interpolated from the measured shapes; those whose three sizes are nearest in proportion have the most
    // weight.
    fn measured(&self, shape: &GemmShape<'_>) -> Option<f64> {
        let away = |a: usize, b: usize| (a.max(1) as f64 / b.max(1) as f64).ln().powi(2);
        let distance = |point: &Point| {
            let other = if point.variant == shape.variant {
                0.0
            } else {
                1.0
            };
            away(point.m, shape.m) + away(point.n, shape.n) + away(point.k, shape.k) + other
        };
        let alike = self
            .points
            .iter()
            .filter(|point| point.dtype == shape.dtype);
        let (mut weights, mut sum) = (0.0, 0.0);
        for point in alike {
            // The third power of the squared distance: at half the distance, a shape has 64 times the weight.
            let weight = 1.0 / (distance(point) + 1e-3).powi(3);
            weights += weight;
            sum += weight * point.tflops.max(1e-9).ln();
        }
        (weights > 0.0).then(|| (sum / weights).exp() * 1e12)
    }

    pub(super) fn quantities(&self) -> Vec<(String, &Quantity)> {
        let mut all = vec![
            ("product.units".into(), &self.units),
            ("product.half_depth".into(), &self.half_depth),
        ];
        all.extend(
            self.in_step
                .iter()
                .map(|share| ("product.in_step".into(), share)),
        );
        all.extend(
            self.efficiency
                .iter()
                .map(|(key, share)| (format!("product.efficiency.{key}"), share)),
        );
        all.extend(self.variants.iter().map(|found| {
            (
                format!("product.variants.{:?}", found.variant),
                &found.speed,
            )
        }));
        all
    }
}
