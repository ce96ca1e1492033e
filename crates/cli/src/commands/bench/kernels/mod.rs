//! `fascicle bench kernels`: each kernel of a training step beside the bandwidth of a copy, and launches.

mod attention;
mod case;
mod elementwise;
mod launches;
mod optimiser;
mod pages;
mod quantised;
mod rows;

use super::timing;
use crate::{
    device,
    failure::{Failure, Outcome},
    machine,
    numbers::{MOST_SIZE, MOST_THREADS, Spread, count, fixed, rounded},
    output,
    overrides::precisions,
    ranks::Team,
};
use case::{Case, Maker, Measured};
use clap::Args;
use hal::{DeviceSettings, Driver};
use serde::Serialize;
use tensor::{DType, Device, Tensor, ops};
use train::config::Precision;

/// The most repetitions of a measurement.
const MOST_REPETITIONS: usize = 1 << 16;

/// Bytes of the copy's source: more than any cache holds.
const COPY_BYTES: usize = 256 << 20;

/// Arguments of `fascicle bench kernels`.
#[derive(Args, Debug)]
pub(crate) struct Kernels {
    #[command(flatten)]
    sizes: Sizes,
    /// Threads; defaults to all cores
    #[arg(long, value_name = "N", value_parser = count::<MOST_THREADS>)]
    threads: Option<usize>,
    /// Type of weights and activations; sums and the optimiser's state are wider
    #[arg(long, default_value = "f32", value_parser = precisions())]
    precision: Precision,
    /// Timed batches of calls per kernel
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = count::<MOST_REPETITIONS>)]
    repetitions: usize,
    /// Print one line of JSON per kernel
    #[arg(long)]
    json: bool,
}

/// Sizes of the model whose kernels are timed.
#[derive(Args, Clone, Copy, Debug)]
struct Sizes {
    /// Tokens per batch: rows of the activations
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = count::<MOST_SIZE>)]
    tokens: usize,
    /// Width of the model
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = count::<MOST_SIZE>)]
    hidden: usize,
    /// Number of attention heads
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count::<MOST_SIZE>)]
    heads: usize,
    /// Tokens per sequence
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = count::<MOST_SIZE>)]
    context: usize,
    /// Tokens per document, within which attention stays; defaults to whole sequences
    #[arg(long, value_name = "N", value_parser = count::<MOST_SIZE>)]
    document: Option<usize>,
    /// Vocabulary size
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = count::<MOST_SIZE>)]
    vocabulary: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Line {
    kernel: String,
    family: &'static str,
    dtype: &'static str,
    microseconds: f64,
    low: f64,
    high: f64,
    /// Minimum number of bytes that it moves; launches move none.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gb_per_s: Option<f64>,
    /// For kernels limited by memory bandwidth.
    #[serde(skip_serializing_if = "Option::is_none")]
    share_of_copy: Option<f64>,
    /// For kernels limited by GEMMs.
    #[serde(skip_serializing_if = "Option::is_none")]
    tflop_per_s: Option<f64>,
}

impl Kernels {
    /// Prints a line per kernel.
    pub(crate) fn run(&self, drivers: &[Driver]) -> Outcome {
        let driver = device::preferred(drivers)?;
        let threads = self.threads.unwrap_or_else(machine::cores);
        self.check()?;
        output::note(&device::described(
            driver,
            threads,
            DeviceSettings::default(),
        )?);
        let (sizes, dtype, repetitions) = (self.sizes, self.precision.dtype(), self.repetitions);
        let lines = Team::new(1, threads).run(driver, move |_, device| {
            measure(device, sizes, dtype, repetitions)
        })?;
        lines.iter().flatten().try_for_each(|line| {
            if self.json {
                output::json(line)
            } else {
                output::result(&line.text())
            }
        })
    }

    fn check(&self) -> Outcome {
        let Sizes {
            tokens,
            hidden,
            heads,
            context,
            ..
        } = self.sizes;
        for (option, found, unit, of) in [
            ("--tokens", tokens, context, "--context"),
            ("--hidden", hidden, heads, "--heads"),
        ] {
            if !found.is_multiple_of(unit) {
                let sentence =
                    format!("{option}: found {found}, needs a multiple of {unit}, which is {of}");
                return Err(Failure::usage(sentence));
            }
        }
        Ok(())
    }
}

impl Sizes {
    /// Rows and columns of the residual stream.
    fn stream(self) -> [usize; 2] {
        [self.tokens, self.hidden]
    }

    /// Rows and columns within an MLP of four times the width.
    fn mlp(self) -> [usize; 2] {
        [self.tokens, 4 * self.hidden]
    }

    /// Rows and columns within a gated MLP, whose three matrices have about as many weights as the two of the
    /// plain MLP.
    fn gated_mlp(self) -> [usize; 2] {
        [
            self.tokens,
            (8 * self.hidden).div_ceil(3).next_multiple_of(8),
        ]
    }

    /// Rows and columns of the logits.
    fn logits(self) -> [usize; 2] {
        [self.tokens, self.vocabulary]
    }

    fn cases(self, dtype: DType) -> Vec<Case> {
        let mut cases = elementwise::cases(self, dtype);
        cases.extend(quantised::cases(self));
        cases.extend(rows::cases(self));
        cases.extend(optimiser::cases(self));
        cases.extend(attention::cases(self));
        cases.extend(pages::cases(self, dtype));
        cases
    }
}

// The copy comes first, because the others are compared with it.
fn measure(
    device: &Device,
    sizes: Sizes,
    dtype: DType,
    repetitions: usize,
) -> train::Result<Vec<Line>> {
    let copy = copy(device, repetitions)?;
    let copy_gbps = gb_per_s(copy);
    let mut lines = vec![Line::of("copy", "copy", "f32", copy, copy_gbps)];
    let maker = Maker { device, dtype };
    for case in sizes.cases(dtype) {
        let measured = case.measure(&maker, repetitions)?;
        let line = Line::of(&case.name, case.family, dtype.name(), measured, copy_gbps);
        lines.push(match case.flop {
            None => line,
            Some(flop) => line.of_matmuls(flop / measured.seconds.median / 1e12),
        });
    }
    let [queued, finished] = launches::measure(device, repetitions)?;
    lines.extend([
        Line::timed("launch queued", queued),
        Line::timed("launch finished", finished),
    ]);
    Ok(lines)
}

fn copy(device: &Device, repetitions: usize) -> train::Result<Measured> {
    let bytes = |value| Tensor::full(device, DType::F32, &[COPY_BYTES / 4], value);
    let (from, to) = (bytes(1.0)?, bytes(0.0)?);
    let seconds = timing::batches(device, repetitions, || Ok(ops::copy(&from, &to)?))?;
    Ok(Measured {
        seconds,
        bytes: 2 * COPY_BYTES,
    })
}

fn gb_per_s(measured: Measured) -> f64 {
    measured.bytes as f64 / measured.seconds.median / 1e9
}

impl Line {
    fn timed(kernel: &str, seconds: Spread) -> Line {
        let us = |seconds: f64| rounded(seconds * 1e6, 3);
        Line {
            kernel: kernel.into(),
            family: "launch",
            dtype: "f32",
            microseconds: us(seconds.median),
            low: us(seconds.min),
            high: us(seconds.max),
            bytes: None,
            gb_per_s: None,
            share_of_copy: None,
            tflop_per_s: None,
        }
    }

    fn of(
        kernel: &str,
        family: &'static str,
        dtype: &'static str,
        measured: Measured,
        copy_gbps: f64,
    ) -> Line {
        Line {
            family,
            dtype,
            bytes: Some(measured.bytes),
            gb_per_s: Some(rounded(gb_per_s(measured), 3)),
            share_of_copy: Some(rounded(gb_per_s(measured) / copy_gbps, 4)),
            ..Line::timed(kernel, measured.seconds)
        }
    }

    // For operations that memory bandwidth does not limit.
    fn of_matmuls(self, tflop_per_s: f64) -> Line {
        Line {
            tflop_per_s: Some(rounded(tflop_per_s, 5)),
            share_of_copy: None,
            ..self
        }
    }

    fn text(&self) -> String {
        let Line {
            kernel,
            microseconds,
            low,
            high,
            ..
        } = self;
        let digits = if *microseconds < 10.0 { 3 } else { 1 };
        let time = format!(
            "{kernel:<25}{:>12} us  [{} .. {}]",
            fixed(*microseconds, digits),
            fixed(*low, digits),
            fixed(*high, digits)
        );
        match (self.gb_per_s, self.share_of_copy, self.tflop_per_s) {
            (_, _, Some(tflop)) => format!("{time}  {} Tflop/s", fixed(tflop, 3)),
            (Some(rate), Some(share), _) => {
                format!(
                    "{time}  {} GB/s = {:.0} % of a copy",
                    fixed(rate, 1),
                    100.0 * share
                )
            }
            _ => time,
        }
    }
}

#[cfg(test)]
mod tests;
