//! GEMMs run as the variants that were timed and agreed on, or that a file names, with the same results.

use crate::{CUDA, ROCM};
use gpu::Options;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};
use tensor::{DType, Device, Result, Tensor, ops};
use testkit::{contract::Open, ranks_with};

const OPEN: [(crate::Way, Open); 2] = [
    (CUDA, |ordinal| cuda::open(options(ordinal, "cuda"))),
    (ROCM, |ordinal| rocm::open(options(ordinal, "rocm"))),
];
const SIZE: [usize; 3] = [24, 40, 56];
const DTYPES: [DType; 3] = [DType::F64, DType::F32, DType::Bf16];
static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fn file(vendor: &str) -> PathBuf {
    FOLDER.path().join(vendor)
}

fn options(ordinal: usize, vendor: &str) -> Options {
    Options {
        ordinal,
        settings: hal::DeviceSettings {
            matmul_choices: Some(file(vendor)),
            ..hal::DeviceSettings::default()
        },
        ..Options::default()
    }
}

fn numbers(len: usize, step: usize) -> Vec<f64> {
    (0..len)
        .map(|index| (index * step % 13) as f64 - 6.0)
        .collect()
}

/// The results of a GEMM of each transpose and type, concatenated. Sums of these numbers are exact.
fn matmuls(device: &Device) -> Result<Vec<f64>> {
    let [m, n, k] = SIZE;
    let orders = [
        (ops::Transpose::None, [m, k], [k, n]),
        (ops::Transpose::First, [k, m], [k, n]),
        (ops::Transpose::Second, [m, k], [n, k]),
    ];
    let mut all = Vec::new();
    for (dtype, (transpose, a, b)) in DTYPES
        .into_iter()
        .flat_map(|dtype| orders.map(|order| (dtype, order)))
    {
        let a = Tensor::from_f64(device, dtype, &a, &numbers(m * k, 7))?;
        let b = Tensor::from_f64(device, dtype, &b, &numbers(k * n, 5))?;
        all.extend(ops::matmul(&a, &b, transpose)?.to_f64()?);
    }
    Ok(all)
}

/// What two ranks compute before they have agreed on variants, and after.
fn before_and_after(open: Open) -> Vec<[Vec<f64>; 2]> {
    ranks_with(2, open, |world, device| {
        let before = matmuls(&device)?;
        device.agree_on_matmuls(&*world.everyone())?;
        Ok([before, matmuls(&device)?])
    })
}

/// The lines of a file, all with this variant.
fn with_way(file: &Path, way: &str) -> String {
    let text = fs::read_to_string(file).expect("the first rank has written it");
    text.lines()
        .map(|line| {
            format!(
                "{} {way}\n",
                line.rsplit_once(' ').expect("a GEMM and its way").0
            )
        })
        .collect()
}

#[test]
fn every_way_to_a_gemm_gives_its_numbers() {
    for (way, open) in OPEN
        .into_iter()
        .filter(|(way, _)| way.is_ready("ways to matmuls") && way.has_devices(2))
    {
        let timed = before_and_after(open);
        let expected = timed[0][0].clone();
        assert!(
            timed.iter().flatten().all(|numbers| *numbers == expected),
            "{}: timed",
            way.vendor
        );
        let file = file(way.vendor);
        assert_eq!(
            with_way(&file, "").lines().count(),
            3 * DTYPES.len(),
            "{}",
            way.vendor
        );
        for name in ["turn-a", "turn-b"] {
            fs::write(&file, with_way(&file, name)).expect("a file");
            let all = before_and_after(open);
            assert!(
                all.iter().flatten().all(|numbers| *numbers == expected),
                "{}: {name}",
                way.vendor
            );
        }
    }
}
