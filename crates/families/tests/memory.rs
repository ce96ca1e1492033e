//! The peak memory of a run, by purpose.

use bootstrap::local::{Options, run};
use fascicle_families::families;
use parallel::Context;
use tensor::{DType, Device, Tensor};
use train::{Config, PeakMemory};

const CONFIG: &str = r#"
    [model]
    layers = 2
    hidden = 64
    heads = 4
    context = 32
    vocabulary = 512
    [training]
    precision = "bf16"
    [parallel]
    grid = "data=2"
    sharding = "optimiser"
"#;

#[test]
fn a_trainer_tells_weights_gradients_and_optimiser_apart_and_all_ranks_the_largest_peak() {
    let peaks = run(Options::new(2), |world| {
        let device = Device::new(cpu::open(cpu::Options::default())?)?;
        let config = Config::parse(CONFIG, &families())?;
        let context = Context::new(
            world.clone(),
            config.grid()?,
            device.clone(),
            config.settings(),
        )?;
        let trainer = config.trainer(&context)?;
        if world.rank() == 1 {
            drop(Tensor::zeros(&device, DType::F32, &[1 << 20])?);
        }
        let peak = PeakMemory::of_all(&world, &device, 0)?;
        let num_parameters = trainer.num_parameters();
        drop(trainer);
        Ok::<_, train::Error>((num_parameters, peak))
    });
    let peaks = peaks.unwrap_or_else(|failure| panic!("{}", failure.report()));
    let (num_parameters, peak) = peaks[0];
    assert_eq!(peaks[1].1, peak);
    assert_eq!((peak.rank, peak.bytes), (1, peak.by_kind.iter().sum()));
    // Two bytes per weight, four per gradient, and twelve per weight over both replicas for the master copy and
    // two moments. Blocks are rounded up by an eighth at most, and buffers are padded a little.
    for (kind, bytes_each) in [(0, 2), (1, 4), (2, 6)] {
        let exact = num_parameters * bytes_each;
        assert!(
            (exact..exact * 5 / 4).contains(&peak.by_kind[kind]),
            "{peak:?}, needs about {exact}"
        );
    }
    assert_eq!(
        peak.by_kind[3],
        4 << 20,
        "the tensor of rank 1 is the only activation"
    );
    let names: Vec<_> = peak.kinds().map(|(name, _)| name).collect();
    assert_eq!(names, ["weights", "gradients", "optimiser", "activations"]);
}
