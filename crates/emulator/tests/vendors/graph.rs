//! Work that is recorded once is queued many times.

use crate::{CUDA, CUDA_STAGED, ROCM, Way};
use families::GptFamily;
use grid::Degrees;
use tensor::{DType, Device, Result, Tensor, ops};
use testkit::{config, difference, edit_gpt, train_with};
use train::config::{OptimiserKind, Precision};

const COUNT: usize = 1000;

/// The value of x after `x += y` has run once, was recorded once by `record`, and was queued three times.
fn sums(device: &Device) -> Result<Vec<f32>> {
    let (x, y) = (
        ones(device)?,
        Tensor::full(device, DType::F32, &[COUNT], 0.5)?,
    );
    // Tensors that are made and dropped in between have memory of their own in every run.
    let add = || ops::copy(&ops::add(&x, &y)?, &x);
    let (recording, ()) = device.record(add)?;
    let others = (0..8).map(|_| Tensor::full(device, DType::F32, &[COUNT], 7.0));
    let others: Vec<Tensor> = others.collect::<Result<_>>()?;
    let versions = || [x.version(), y.version()];
    let [x_before, y_before] = versions();
    (0..3).try_for_each(|_| recording.replay())?;
    // A replay writes what the work writes, and nothing else.
    assert_eq!(versions(), [x_before + 3, y_before]);
    for other in others {
        assert!(
            other.to_vec::<f32>()?.iter().all(|element| *element == 7.0),
            "a replay wrote over a tensor"
        );
    }
    x.to_vec()
}

fn ones(device: &Device) -> Result<Tensor> {
    Tensor::full(device, DType::F32, &[COUNT], 1.0)
}

fn device(way: Way) -> Device {
    (way.open)(0)
        .and_then(Device::new)
        .expect("an emulated device")
}

#[test]
fn recorded_work_runs_at_each_replay_and_not_when_recorded() {
    for way in [CUDA, ROCM] {
        if way.is_ready("recorded work") {
            assert_eq!(
                sums(&device(way)),
                Ok(vec![1.0 + 4.0 * 0.5; COUNT]),
                "{}",
                way.vendor
            );
        }
    }
}

#[test]
fn memory_of_a_recording_comes_back_with_it() {
    if !CUDA.is_ready("recorded work") {
        return;
    }
    let device = device(CUDA);
    let before = device.memory_use().in_use;
    sums(&device).unwrap();
    assert_eq!(device.memory_use().in_use, before);
}

#[test]
fn what_cannot_be_recorded_is_told_and_the_device_goes_on() {
    if !CUDA.is_ready("recorded work") {
        return;
    }
    let device = device(CUDA);
    let x = ones(&device).unwrap();
    let fails = |work: &dyn Fn() -> Result<()>| device.record(work).unwrap_err().to_string();
    let error = fails(&|| x.to_vec::<f32>().map(drop));
    assert_eq!(
        error,
        "to_vec: a copy by the host within recorded work, needs work of the device alone"
    );
    let error = fails(&|| x.upload(&[1f32; COUNT]));
    assert!(error.starts_with("upload: a copy by the host"), "{error}");
    let error = fails(&|| device.record(|| x.fill(2.0)).map(drop));
    assert!(
        error.ends_with("needs no other recording and no trace at the same time"),
        "{error}"
    );
    assert_eq!(x.to_vec::<f32>(), Ok(vec![1.0; COUNT]));
}

#[test]
fn staged_collectives_do_not_keep_compute_from_being_recorded() {
    if CUDA_STAGED.is_ready("recorded work") {
        assert!(sums(&device(CUDA_STAGED)).is_ok());
    }
}

#[test]
fn recorded_steps_train_to_the_same_bits() {
    for way in [CUDA, ROCM] {
        // All of them clip the norm of their gradients.
        for (family, precision, micro_batches, optimiser) in [
            (GptFamily::Gpt2, Precision::F32, 1, OptimiserKind::AdamW),
            (GptFamily::Gpt2, Precision::F32, 3, OptimiserKind::Sgd),
            (GptFamily::Llama, Precision::Bf16, 2, OptimiserKind::AdamW),
            (GptFamily::Gpt2, Precision::Bf16, 1, OptimiserKind::Sgd),
            (GptFamily::Gpt2, Precision::F16, 2, OptimiserKind::AdamW),
            (GptFamily::Llama, Precision::F16, 1, OptimiserKind::Sgd),
            (GptFamily::Llama, Precision::Bf16, 1, OptimiserKind::Lion),
            (GptFamily::Gpt2, Precision::F32, 1, OptimiserKind::Muon),
        ] {
            let mut config = config(precision);
            assert!(config.training.clip_norm > 0.0);
            config.training.optimiser = optimiser;
            config.training.momentum = 0.9;
            edit_gpt(&mut config, |model| model.family = family);
            config.parallel.grid = Degrees::default();
            config.training.steps = 5;
            config.training.batch = 2 * micro_batches;
            config.training.micro_batches = micro_batches;
            if !way.is_ready("recorded steps") {
                continue;
            }
            let plain = train_with(&config, way.open);
            config.training.graph = true;
            let recorded = train_with(&config, way.open);
            let difference = difference(&recorded, &plain);
            assert_eq!(
                recorded.losses, plain.losses,
                "{} {precision:?}: {difference}",
                way.vendor
            );
            assert_eq!(
                recorded.weights, plain.weights,
                "{} {precision:?}: {difference}",
                way.vendor
            );
        }
    }
}
