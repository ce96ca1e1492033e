//! GEMMs run as the variants that were timed and agreed on, or that a file names, with the same results.

use crate::{CUDA, ROCM, on_devices};
use gpu::Options;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};
use tensor::{DType, Device, Result, Tensor, ops};
use testkit::{contract::Open, try_ranks_with};

const OPEN: [(crate::Way, Open); 2] = [
    (CUDA, |ordinal| cuda::open(options(ordinal, "cuda"))),
    (ROCM, |ordinal| rocm::open(options(ordinal, "rocm"))),
];
const TIMEOUT: Duration = Duration::from_secs(60);
const SIZE: [usize; 3] = [24, 40, 56];
const DTYPES: [DType; 3] = [DType::F64, DType::F32, DType::Bf16];
/// GEMMs of a type without an epilogue, and with one.
const PLAIN: usize = 4;
const FUSED: usize = 2;
static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a folder"));

/// A file of choices that no other test uses.
pub(crate) fn file(name: &str) -> PathBuf {
    FOLDER.path().join(name)
}

/// A device with that file of choices.
pub(crate) fn options(ordinal: usize, name: &str) -> Options {
    Options {
        ordinal,
        settings: hal::DeviceSettings {
            matmul_choices: Some(file(name)),
            ..hal::DeviceSettings::default()
        },
        ..Options::default()
    }
}

/// Numbers of which sums of products are exact.
pub(crate) fn numbers(len: usize, step: usize) -> Vec<f64> {
    (0..len)
        .map(|index| (index * step % 13) as f64 - 6.0)
        .collect()
}

/// The results of GEMMs of each type, concatenated: each transpose, one that adds to a matrix, and two with an epilogue.
fn matmuls(device: &Device) -> Result<Vec<f64>> {
    let [m, n, k] = SIZE;
    let orders = [
        (ops::Transpose::None, [m, k], [k, n]),
        (ops::Transpose::First, [k, m], [k, n]),
        (ops::Transpose::Second, [m, k], [n, k]),
    ];
    let mut all = Vec::new();
    for dtype in DTYPES {
        let tensor = |shape: &[usize], step| {
            Tensor::from_f64(
                device,
                dtype,
                shape,
                &numbers(m * n * k, step)[..shape.iter().product()],
            )
        };
        for (transpose, a, b) in orders {
            let product = ops::matmul(&tensor(&a, 7)?, &tensor(&b, 5)?, transpose)?;
            all.extend(product.to_f64()?);
        }
        let (a, b, bias, out) = (
            tensor(&[m, k], 7)?,
            tensor(&[k, n], 5)?,
            tensor(&[n], 3)?,
            tensor(&[m, n], 11)?,
        );
        ops::matmul_into(&a, &b, ops::Transpose::None, &out, 2.0, 1.0)?;
        all.extend(out.to_f64()?);
        all.extend(ops::matmul_bias(&a, &b, ops::Transpose::None, &bias)?.to_f64()?);
        // GELU itself is not exact.
        let (_, sum) = ops::matmul_gelu(&a, &b, ops::Transpose::None, Some(&bias))?;
        all.extend(sum.to_f64()?);
    }
    Ok(all)
}

/// What two ranks compute before they have agreed on variants, and after.
fn before_and_after(open: Open) -> std::result::Result<Vec<[Vec<f64>; 2]>, String> {
    try_ranks_with(TIMEOUT, 2, open, |world, device| {
        let before = matmuls(&device)?;
        device.agree_on_matmuls(&*world.everyone())?;
        Ok([before, matmuls(&device)?])
    })
}

/// The lines of a file, with this variant for all GEMMs that have it.
fn with_variant(file: &Path, variant: &str) -> String {
    let text = fs::read_to_string(file).expect("the first rank has written it");
    let is_algorithm = variant.starts_with("algorithm");
    let line = |line: &str| {
        // The libraries have no algorithms for f64, and nothing else has epilogues.
        let has = match is_algorithm {
            true => !line.starts_with("f64"),
            false => line.contains(" plain "),
        };
        let (gemm, own) = line.rsplit_once(' ').expect("a GEMM and its variant");
        format!("{gemm} {}\n", if has { variant } else { own })
    };
    let (library, lines) = text.split_once('\n').expect("a library");
    format!("{library}\n{}", lines.lines().map(line).collect::<String>())
}

/// GEMMs with an epilogue are there where the library takes them.
fn check_lines(vendor: &str, file: &Path) {
    let text = fs::read_to_string(file).expect("the first rank has written it");
    let count = |has: &dyn Fn(&&str) -> bool| text.lines().skip(1).filter(has).count();
    let plain = count(&|line| line.contains(" plain "));
    assert_eq!(plain, PLAIN * DTYPES.len(), "{vendor}: {text}");
    let fused = count(&|line| line.contains("bias"));
    let needed = FUSED * (DTYPES.len() - 1);
    let is_absent = text.starts_with("algorithms of no library") || on_devices();
    assert!(fused == needed || is_absent, "{vendor}: {text}");
}

#[test]
fn every_way_to_a_gemm_gives_its_numbers() {
    for (way, open) in OPEN
        .into_iter()
        .filter(|(way, _)| way.is_ready("ways to matmuls") && way.has_devices(2))
    {
        let timed = before_and_after(open).unwrap_or_else(|report| panic!("{report}"));
        let expected = timed[0][0].clone();
        assert!(
            timed.iter().flatten().all(|numbers| *numbers == expected),
            "{}: timed",
            way.vendor
        );
        let file = file(way.vendor);
        check_lines(way.vendor, &file);
        let algorithms = (1..=8).map(|number| format!("algorithm-{number}"));
        let variants = ["turn-a", "turn-b"].map(String::from);
        for name in variants.into_iter().chain(algorithms) {
            fs::write(&file, with_variant(&file, &name)).expect("a file");
            let all = match before_and_after(open) {
                // The libraries find different numbers of algorithms.
                Err(report) if report.contains(&format!("gemm by {}", name.replace('-', " "))) => {
                    assert_ne!(name, "algorithm-1", "{}: {report}", way.vendor);
                    break;
                }
                all => all.unwrap_or_else(|report| panic!("{report}")),
            };
            assert!(
                all.iter().flatten().all(|numbers| *numbers == expected),
                "{}: {name}",
                way.vendor
            );
        }
    }
}
