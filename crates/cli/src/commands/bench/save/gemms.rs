//! Speeds of GEMMs of many shapes.

use super::super::gemm::GemmShape;
use crate::{failure::Outcome, numbers::Spread, ranks::Team};
use grid::machine::{
    Machine, Quantity,
    gemm::{Point, Variant},
};
use hal::Driver;
use std::time::Instant;
use tensor::{DType, ops::Transpose};

/// The lengths that each side takes.
const SIZES: [usize; 5] = [16, 64, 256, 1024, 4096];

/// Larger GEMMs add no information to these.
const MOST_FLOP: f64 = 2e9;

/// Timed calls, and the number of seconds after which no more are made.
const CALLS: usize = 7;
const SECONDS: f64 = 0.05;

/// Fills in the measured points and the peaks.
pub(super) fn measure(driver: Driver, cores: usize, machine: &mut Machine) -> Outcome {
    let points = Team::new(cores, 1).run(driver, move |world, device| {
        let mut points = Vec::new();
        for (matmul, variant, dtype) in matmuls() {
            let ready = matmul.ready_as(device, dtype)?;
            world.everyone().barrier()?;
            let mut seconds = Vec::new();
            let begun = Instant::now();
            while seconds.len() < CALLS
                && (seconds.len() < 3 || begun.elapsed().as_secs_f64() < SECONDS)
            {
                let begun = Instant::now();
                ready.call()?;
                seconds.push(begun.elapsed().as_secs_f64());
            }
            let tflops = matmul.flop() / Spread::of(&seconds).median / 1e12;
            let GemmShape { m, n, k, .. } = matmul;
            points.push(Point {
                m,
                n,
                k,
                dtype: dtype.name().into(),
                variant,
                tflops,
            });
        }
        Ok(points)
    })?;
    machine.product.points = points.into_iter().next().unwrap_or_default();
    for dtype in [DType::F32, DType::F64, DType::Bf16, DType::F16] {
        let own = machine
            .product
            .points
            .iter()
            .filter(|point| point.dtype == dtype.name());
        if let Some(best) = own.map(|point| point.tflops).reduce(f64::max) {
            let source =
                format!("fascicle bench --save, the fastest GEMM, {cores} ranks at a time");
            machine
                .device
                .peak_tflops
                .insert(dtype.name().into(), Quantity::measured(best, source));
        }
    }
    Ok(())
}

// All shapes in f32. The other types scale like f32, so a few shapes are enough for them.
fn matmuls() -> Vec<(GemmShape, Variant, DType)> {
    let variants = [
        (Transpose::None, Variant::Nn),
        (Transpose::Second, Variant::Nt),
        (Transpose::First, Variant::Tn),
    ];
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::F64, DType::Bf16, DType::F16] {
        let sizes = if dtype == DType::F32 {
            &SIZES[..]
        } else {
            &SIZES[1..4]
        };
        for &m in sizes {
            for &n in sizes {
                for &k in sizes {
                    let shapes = variants.map(|(transpose, variant)| {
                        (
                            GemmShape {
                                what: "",
                                transpose,
                                m,
                                n,
                                k,
                            },
                            variant,
                            dtype,
                        )
                    });
                    all.extend(
                        shapes
                            .into_iter()
                            .filter(|(matmul, ..)| matmul.flop() <= MOST_FLOP),
                    );
                }
            }
        }
    }
    all
}
