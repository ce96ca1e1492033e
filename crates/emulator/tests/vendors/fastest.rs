//! The fastest algorithm of each GEMM is found, agreed on, saved and read again: on the emulator, whose algorithms take as
//! long as a test asks for.

use crate::{
    CUDA, ROCM,
    common::{c, open},
    on_devices,
    tuning::{file, numbers, options},
};
use fascicle_emulator as emulator;
use libloading::Library;
use std::{fs, path::Path};
use tensor::{DType, Device, Result, Tensor, ops};
use testkit::{contract::Open, ranks_with};

/// A vendor's devices with two files of choices.
const OPEN: [(crate::Way, &str, [Open; 2]); 2] = [
    (
        CUDA,
        "libfascicle_emulator_cuda.so",
        [
            |ordinal| cuda::open(options(ordinal, "fastest-cuda-0")),
            |ordinal| cuda::open(options(ordinal, "fastest-cuda-1")),
        ],
    ),
    (
        ROCM,
        "libfascicle_emulator_hip.so",
        [
            |ordinal| rocm::open(options(ordinal, "fastest-rocm-0")),
            |ordinal| rocm::open(options(ordinal, "fastest-rocm-1")),
        ],
    ),
];
/// What cuBLAS or hipBLAS and every algorithm but the fastest take more: far above what other tests make them wait.
const PAUSE_US: i64 = 20_000;
const NUM_ALGORITHMS: u64 = 4;
const SIZE: usize = 16;

/// Lets one algorithm be the fastest variant of every GEMM, or none.
struct Paces {
    emulator: Library,
}

impl Paces {
    fn new(library: &str) -> Paces {
        let folder = emulator::for_test("paces").expect("ready");
        let emulator = open(&folder, library);
        Paces { emulator }
    }

    fn pace(&self, algorithm: u64, pause: i64) {
        c!(self.emulator, fascicle_emulator_pace(algorithm => u64, pause => i64) -> ());
    }

    fn make_fastest(&self, fastest: u64) {
        let pause = |algorithm| if algorithm == fastest { 0 } else { PAUSE_US };
        (0..=NUM_ALGORITHMS).for_each(|algorithm| self.pace(algorithm, pause(algorithm)));
    }
}

impl Drop for Paces {
    fn drop(&mut self) {
        (0..=NUM_ALGORITHMS).for_each(|algorithm| self.pace(algorithm, 0));
    }
}

/// A GEMM, and one with an epilogue.
fn matmuls(device: &Device) -> Result<Vec<f64>> {
    let tensor = |shape: &[usize], step| {
        let len = shape.iter().product();
        Tensor::from_f64(device, DType::F32, shape, &numbers(len, step))
    };
    let (a, bias) = (tensor(&[SIZE, SIZE], 7)?, tensor(&[SIZE], 3)?);
    let product = ops::matmul(&a, &a, ops::Transpose::None)?;
    let sum = ops::matmul_bias(&a, &a, ops::Transpose::None, &bias)?;
    Ok([product.to_f64()?, sum.to_f64()?].concat())
}

/// How two ranks run a GEMM after a step, when they have agreed.
fn agreed(open: Open) -> Vec<String> {
    ranks_with(2, open, |world, device| {
        let before = matmuls(&device)?;
        device.agree_on_matmuls(&*world.everyone())?;
        assert_eq!(matmuls(&device)?, before);
        let a = Tensor::zeros(&device, DType::F32, &[SIZE, SIZE])?;
        let variant = ops::matmul_variant(&a, &a, ops::Transpose::None, &a, 1.0, 0.0)?;
        Ok(variant.expect("there are several"))
    })
}

#[test]
fn the_fastest_algorithm_is_chosen_saved_and_read_again() {
    'vendors: for (way, library, opens) in OPEN {
        if on_devices() || !way.is_ready("the fastest algorithm") {
            continue;
        }
        let paces = Paces::new(library);
        let files = [0, 1].map(|index| file(&format!("fastest-{}-{index}", way.vendor)));
        for ((open, file), fastest) in opens.into_iter().zip(&files).zip([3, 2]) {
            paces.make_fastest(fastest);
            let chosen = agreed(open);
            let text = fs::read_to_string(file).expect("the first rank has written it");
            if text.starts_with("algorithms of no library") {
                continue 'vendors;
            }
            let end = format!(" algorithm-{fastest}");
            assert_eq!(text.lines().count(), 3, "{}: {text}", way.vendor);
            assert!(
                text.lines().skip(1).all(|line| line.ends_with(&end)),
                "{}: {text}",
                way.vendor
            );
            assert_eq!(chosen, [end.trim(); 2], "{}", way.vendor);
        }
        // Now the second algorithm is the fastest, and the first file still names the third.
        assert_eq!(agreed(opens[0]), ["algorithm-3"; 2], "{}", way.vendor);
        refuses_other_versions(way.vendor, opens[0], &files[0]);
    }
}

/// A file of another version of the library is refused when a device is opened.
fn refuses_other_versions(vendor: &str, open: Open, file: &Path) {
    let text = fs::read_to_string(file).expect("it was read before");
    let (library, lines) = text.split_once('\n').expect("a library");
    let (version, device) = library.split_once(" on ").expect("a device");
    fs::write(file, format!("{version}.9 on {device}\n{lines}")).expect("a file");
    let error = open(0).and_then(Device::new).unwrap_err().to_string();
    let library = library.trim_start_matches("algorithms of ");
    let needed = format!(", needs {library}; without the file");
    assert!(error.contains(&needed), "{vendor}: {error}");
}
