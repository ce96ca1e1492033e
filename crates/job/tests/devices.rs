//! Every rank's device is opened with what the job was given.

use fascicle_job::Job;
use hal::{
    CollectiveBackend, DeviceSettings, Driver, EpiloguePlacement, Error, OpenOptions, SumOrder,
    VendorId,
};
use parallel::{Reproducible, Settings};
use std::sync::{Arc, Mutex};

static OPENED: Mutex<Vec<(usize, usize, DeviceSettings)>> = Mutex::new(Vec::new());

fn open(options: OpenOptions) -> hal::Result<Arc<dyn hal::Device>> {
    let seen = (options.ordinal, options.threads, options.settings.clone());
    OPENED.lock().unwrap().push(seen);
    (cpu::driver().open)(options)
}

#[test]
fn settings_reach_every_device() {
    let driver = Driver {
        open,
        ..cpu::driver()
    };
    let settings = DeviceSettings {
        collectives: CollectiveBackend::Staged,
        epilogues: EpiloguePlacement::Separate,
        matmul_choices: Some("matmuls.txt".into()),
        sums: SumOrder::Device,
        memory_limit: Some(1 << 20),
    };
    let job = Job::new([driver]).ranks(2).grid("x=2").unwrap();
    let job = job.threads(1).device_settings(settings.clone());
    let ranks = job.run(|context| Ok::<_, Error>(context.world().rank()));
    assert_eq!(ranks, Ok(vec![0, 1]));
    let mut opened = OPENED.lock().unwrap().clone();
    opened.sort_by_key(|(ordinal, ..)| *ordinal);
    assert_eq!(opened, [(0, 1, settings.clone()), (1, 1, settings.clone())]);

    OPENED.lock().unwrap().clear();
    let on_any_grid = Settings {
        reproducible: Reproducible::Grid,
        ..Settings::default()
    };
    let ranks = job
        .settings(on_any_grid)
        .run(|context| Ok::<_, Error>(context.world().rank()));
    assert_eq!(ranks, Ok(vec![0, 1]));
    let canonical = DeviceSettings {
        sums: SumOrder::Canonical,
        ..settings
    };
    for (.., settings) in OPENED.lock().unwrap().iter() {
        assert_eq!(*settings, canonical);
    }
}

#[test]
fn a_vendor_that_the_program_lacks_is_the_caller_s_mistake() {
    let job = Job::new([cpu::driver()]).vendor(VendorId::new("abacus"));
    let found = job.run(|_| Ok::<_, Error>(()));
    assert!(matches!(found, Err(Error::Invalid { .. })), "{found:?}");
}
