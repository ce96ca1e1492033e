//! Both vendors in one process: their collective libraries export the same names, and must not use each other's.

use crate::{CUDA, ROCM, on_devices};
use grid::Degrees;
use testkit::{config, difference, train, train_with};
use train::config::Precision;

#[test]
fn both_vendors_train_at_the_same_time() {
    if on_devices() {
        return eprintln!("skipped both vendors at once: no machine has devices of both");
    }
    if !CUDA.is_asked("both vendors") {
        return;
    }
    let mut config = config(Precision::F32);
    config.training.steps = 3;
    let expected = train(&config);
    config.parallel.grid = Degrees {
        x: 2,
        data: 2,
        ..Degrees::default()
    };
    std::thread::scope(|scope| {
        let config = &config;
        let runs = [CUDA, ROCM].map(|way| {
            (
                way.vendor,
                scope.spawn(move || train_with(config, way.open)),
            )
        });
        for (vendor, run) in runs {
            let difference = difference(&run.join().expect("the ranks train"), &expected);
            assert!(
                difference.largest_at_equal_weights() <= 1e-4,
                "{vendor}: {difference}"
            );
        }
    });
}
