//! Custom data: rows by their number, the same on every grid.

use crate::model::FEATURES;
use fascicle::{prelude::*, train};
use std::ops::Range;

/// Waves, and a number derived from them.
pub struct Waves;

fn rows(first: u64, rows: Range<usize>) -> Rows {
    let number =
        |row: usize, feature: usize| ((first as usize + row) * FEATURES + feature) as f64 * 0.37;
    let row = |row: usize| (0..FEATURES).map(move |feature| number(row, feature).sin());
    let features: Vec<f64> = rows.clone().flat_map(row).collect();
    let wanted: Vec<f64> = features
        .chunks(FEATURES)
        .map(|row| row.iter().sum::<f64>() / 2.0)
        .collect();
    Rows::new()
        .with("features", &[FEATURES], features)
        .with("wanted", &[1], wanted)
}

impl Batches for Waves {
    fn training(&self, step: u64, range: Range<usize>) -> train::Result<Rows> {
        Ok(rows(step * 1000, range))
    }

    fn validation(&self, index: usize, range: Range<usize>) -> train::Result<Rows> {
        Ok(rows(1_000_000 + 1000 * index as u64, range))
    }

    fn num_validation_batches(&self) -> usize {
        2
    }
}
