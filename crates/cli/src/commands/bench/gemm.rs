//! `fascicle bench gemm`: the GEMMs of the benchmark's model.

use super::{random, timing};
use crate::{
    device,
    failure::Outcome,
    machine,
    numbers::{MOST_SIZE, MOST_THREADS, count, fixed, rounded},
    output,
    overrides::precisions,
    ranks::Team,
};
use clap::Args;
use hal::{DeviceSettings, Driver};
use serde::Serialize;
use std::path::PathBuf;
use tensor::{
    DType, Device, Tensor,
    ops::{Transpose, matmul_into, matmul_variant},
};
use train::config::Precision;

/// Batches of calls that are timed for a shape.
const REPETITIONS: usize = 15;

/// Arguments of `fascicle bench gemm`.
#[derive(Args, Debug)]
pub(crate) struct Gemm {
    /// Threads; defaults to all cores
    #[arg(long, value_name = "N", value_parser = count::<MOST_THREADS>)]
    threads: Option<usize>,
    /// Tokens per batch: rows of the activations
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = count::<MOST_SIZE>)]
    tokens: usize,
    /// Width of the model
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = count::<MOST_SIZE>)]
    hidden: usize,
    /// Vocabulary size: rows of the head's table
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = count::<MOST_SIZE>)]
    vocabulary: usize,
    /// Type of the matrices
    #[arg(long, default_value = "f32", value_parser = precisions())]
    precision: Precision,
    /// Measure each matmul as its fastest variant in this file too; it is timed and written if it does not exist
    #[arg(long, value_name = "FILE")]
    matmul_choices: Option<PathBuf>,
    /// Print one line of JSON per shape
    #[arg(long)]
    json: bool,
}

/// A GEMM as a layer requests it: `m x k` times `k x n`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GemmShape {
    pub(crate) what: &'static str,
    pub(crate) transpose: Transpose,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

/// A GEMM with its matrices.
#[derive(Debug)]
pub(crate) struct Ready {
    matmul: GemmShape,
    operands: [Tensor; 3],
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    what: &'static str,
    form: &'static str,
    m: usize,
    n: usize,
    k: usize,
    dtype: &'static str,
    threads: usize,
    #[serde(flatten)]
    speed: Speed,
    #[serde(skip_serializing_if = "Option::is_none")]
    fastest: Option<Fastest>,
}

#[derive(Clone, Debug, Serialize)]
struct Speed {
    us: f64,
    min_us: f64,
    max_us: f64,
    gflops: f64,
}

// The variant of a file of choices.
#[derive(Clone, Debug, Serialize)]
struct Fastest {
    variant: String,
    #[serde(flatten)]
    speed: Speed,
}

impl Gemm {
    /// Prints a line per shape.
    pub(crate) fn run(&self, drivers: &[Driver]) -> Outcome {
        let driver = device::preferred(drivers)?;
        let threads = self.threads.unwrap_or_else(machine::cores);
        output::note(&device::described(
            driver,
            threads,
            DeviceSettings::default(),
        )?);
        let (matmuls, dtype) = (self.matmuls(), self.precision.dtype());
        let lines = Team::new(1, threads).run(driver, move |_, device| {
            matmuls
                .iter()
                .map(|&matmul| line(device, matmul, dtype, threads))
                .collect::<train::Result<Vec<_>>>()
        });
        let mut lines = lines?.swap_remove(0);
        if let Some(path) = &self.matmul_choices {
            let fastest = self.fastest(driver, threads, path.clone())?;
            for (line, fastest) in lines.iter_mut().zip(fastest) {
                line.fastest = fastest;
            }
        }
        lines.iter().try_for_each(|line| {
            if self.json {
                output::json(line)
            } else {
                output::result(&line.text())
            }
        })
    }

    // Each matmul as its fastest variant, where it has several.
    fn fastest(
        &self,
        driver: Driver,
        threads: usize,
        path: PathBuf,
    ) -> Outcome<Vec<Option<Fastest>>> {
        let settings = DeviceSettings {
            matmul_choices: Some(path),
            ..DeviceSettings::default()
        };
        let (matmuls, dtype) = (self.matmuls(), self.precision.dtype());
        let team = Team::new(1, threads).with_device(settings);
        let fastest = team.run(driver, move |world, device| {
            // The first call of each times its variants.
            for matmul in &matmuls {
                matmul.ready_as(device, dtype)?;
            }
            device.agree_on_matmuls(&*world.everyone())?;
            let measured = matmuls.iter().map(|matmul| {
                let ready = matmul.ready_as(device, dtype)?;
                let variant = ready.variant()?;
                let speed = ready.speed(device)?;
                Ok(variant.map(|variant| Fastest { variant, speed }))
            });
            measured.collect::<train::Result<Vec<_>>>()
        });
        Ok(fastest?.swap_remove(0))
    }

    // Forward, gradient of the input, gradient of the weights; the head's table is stored transposed.
    fn matmuls(&self) -> Vec<GemmShape> {
        let (t, h, v) = (self.tokens, self.hidden, self.vocabulary);
        let matmul = |what, transpose, m, n, k| GemmShape {
            what,
            transpose,
            m,
            n,
            k,
        };
        let (none, first, second) = (Transpose::None, Transpose::First, Transpose::Second);
        vec![
            matmul("attention forward", none, t, h, h),
            matmul("attention d_input", second, t, h, h),
            matmul("attention d_weight", first, h, h, t),
            matmul("mlp up forward", none, t, 4 * h, h),
            matmul("mlp up d_input", second, t, h, 4 * h),
            matmul("mlp up d_weight", first, h, 4 * h, t),
            matmul("mlp down forward", none, t, h, 4 * h),
            matmul("mlp down d_input", second, t, 4 * h, h),
            matmul("mlp down d_weight", first, 4 * h, h, t),
            matmul("head forward", second, t, v, h),
            matmul("head d_input", none, t, h, v),
            matmul("head d_weight", first, v, h, t),
        ]
    }
}

impl GemmShape {
    /// Floating-point operations.
    pub(crate) fn flop(self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Makes the matrices in the given type, and runs the GEMM twice to warm up.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn ready_as(self, device: &Device, dtype: DType) -> train::Result<Ready> {
        let ready = Ready {
            matmul: self,
            operands: self.operands(device, dtype)?,
        };
        ready.call()?;
        ready.call()?;
        Ok(ready)
    }

    fn operands(self, device: &Device, dtype: DType) -> train::Result<[Tensor; 3]> {
        let GemmShape { m, n, k, .. } = self;
        let (a, b) = match self.transpose {
            Transpose::None => ([m, k], [k, n]),
            Transpose::First => ([k, m], [k, n]),
            Transpose::Second => ([m, k], [n, k]),
        };
        let operand = |shape: [usize; 2], name| random::uniform(device, dtype, &shape, name);
        let out = Tensor::zeros(device, dtype, &[m, n])?;
        Ok([operand(a, "bench a")?, operand(b, "bench b")?, out])
    }

    fn form(self) -> &'static str {
        match self.transpose {
            Transpose::None => "NN",
            Transpose::First => "TN",
            Transpose::Second => "NT",
        }
    }
}

impl Ready {
    /// Queues the GEMM.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn queue(&self) -> train::Result<()> {
        let [a, b, out] = &self.operands;
        Ok(matmul_into(a, b, self.matmul.transpose, out, 1.0, 0.0)?)
    }

    // The variant that runs it.
    fn variant(&self) -> train::Result<Option<String>> {
        let [a, b, out] = &self.operands;
        Ok(matmul_variant(a, b, self.matmul.transpose, out, 1.0, 0.0)?)
    }

    fn speed(&self, device: &Device) -> train::Result<Speed> {
        let spread = timing::batches(device, REPETITIONS, || self.queue())?;
        let us = |seconds: f64| rounded(seconds * 1e6, 1);
        Ok(Speed {
            us: us(spread.median),
            min_us: us(spread.min),
            max_us: us(spread.max),
            gflops: rounded(self.matmul.flop() / spread.median / 1e9, 1),
        })
    }

    /// Runs the GEMM, and waits for it.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn call(&self) -> train::Result<()> {
        self.queue()?;
        Ok(self.operands[2].device().compute().synchronize()?)
    }
}

fn line(device: &Device, matmul: GemmShape, dtype: DType, threads: usize) -> train::Result<Line> {
    let speed = matmul.ready_as(device, dtype)?.speed(device)?;
    let GemmShape { what, m, n, k, .. } = matmul;
    Ok(Line {
        what,
        form: matmul.form(),
        m,
        n,
        k,
        dtype: dtype.name(),
        threads,
        speed,
        fastest: None,
    })
}

impl Line {
    fn text(&self) -> String {
        let Line {
            what,
            form,
            m,
            n,
            k,
            speed,
            fastest,
            ..
        } = self;
        let shape = format!("{m} x {n} x {k}");
        let line = format!("{what:<19}{form}  {shape:<20}{}", speed.text());
        match fastest {
            None => line,
            Some(Fastest { variant, speed }) => format!("{line}\n{variant:>42} {}", speed.text()),
        }
    }
}

impl Speed {
    fn text(&self) -> String {
        let Speed {
            us,
            min_us,
            max_us,
            gflops,
        } = self;
        format!(
            "{:>12} us  [{} .. {}]  {} Gflop/s",
            fixed(*us, 1),
            fixed(*min_us, 1),
            fixed(*max_us, 1),
            fixed(*gflops, 1)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steps_matmuls_are_three_times_the_forward_ones() {
        let gemm = Gemm {
            threads: None,
            tokens: 2048,
            hidden: 512,
            vocabulary: 8192,
            precision: Precision::F32,
            matmul_choices: None,
            json: false,
        };
        let flop = |word: &str| -> f64 {
            let matmuls = gemm
                .matmuls()
                .into_iter()
                .filter(|matmul| matmul.what.ends_with(word));
            matmuls.map(GemmShape::flop).sum()
        };
        assert_eq!(
            flop("forward"),
            2.0 * 2048.0 * 512.0 * (512.0 + 8.0 * 512.0 + 8192.0)
        );
        assert_eq!(
            (flop("d_input"), flop("d_weight")),
            (flop("forward"), flop("forward"))
        );
    }
}
