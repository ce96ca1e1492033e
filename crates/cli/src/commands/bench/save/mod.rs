//! `fascicle bench --save`: a description of this machine, for the planner.
//!
//! Everything is measured with one rank per core at work, because that is the load of a job. The measurements
//! are GEMMs of many shapes ([`gemms`]); kernels and attention inside a training step ([`kernels`]);
//! collectives of groups of every kind with their siblings active (`links`); files ([`files`]); and the extra cost of these
//! collectives in a training step whose ranks leave no core idle (`lateness`).

mod files;
mod gemms;
mod kernels;
mod lateness;
mod links;
mod step;

use crate::{Registry, device, failure::Outcome, machine as host, output};
use grid::machine::{Attention, Device, GemmModel, Launch, Links, Machine, Quantity, gemm::Tile};
use hal::DeviceSettings;
use std::{collections::BTreeMap, path::Path};

/// The largest number of ranks in a job of one host for which groups are measured.
pub(super) const MOST_RANKS: usize = 8;

/// Measures this machine and writes its description.
///
/// # Errors
/// [`Failure::Usage`](crate::failure::Failure::Usage) for a file in no folder;
/// [`Failure::Run`](crate::failure::Failure::Run) if no device can be opened or fails, and if the file cannot be written.
pub(crate) fn save(registry: &Registry, path: &Path) -> Outcome {
    crate::files::check_output("--save", path)?;
    let name = path
        .file_stem()
        .map_or("this".into(), |stem| stem.to_string_lossy());
    super::file::write(path, &measure(registry, &name)?)?;
    output::path(path)
}

/// Measures this machine, under a name.
///
/// # Errors
/// [`Failure::Run`](crate::failure::Failure::Run) if no device can be opened or fails.
pub(crate) fn measure(registry: &Registry, name: &str) -> Outcome<Machine> {
    let driver = device::preferred(&registry.drivers)?;
    let cores = host::cores().min(MOST_RANKS);
    output::note(&format!(
        "measuring {} with {cores} ranks at a time; it takes about a minute",
        device::described(driver, 1, DeviceSettings::default())?
    ));
    let mut machine = unmeasured(name, cores);
    gemms::measure(driver, cores, &mut machine)?;
    output::note("GEMMs: done");
    links::measure(driver, &mut machine)?;
    output::note("collectives and messages: done");
    kernels::measure(registry, driver, cores, &mut machine)?;
    output::note("kernels: done");
    files::measure(cores, &mut machine)?;
    output::note("files: done");
    lateness::measure(registry, driver, cores, &mut machine)?;
    output::note("collectives in training steps: done");
    Ok(machine)
}

// The description before any measurement: every value is one, so that a simulated time is a ratio.
fn unmeasured(name: &str, cores: usize) -> Machine {
    let one = || Quantity::measured(1.0, "not measured yet");
    let (total, _) = host::memory().unwrap_or((1 << 30, 1 << 30));
    let share = total as f64 / MOST_RANKS as f64 / f64::from(1 << 30);
    let device = Device {
        name: host::processor(),
        vendor: "cpu".into(),
        memory_gib: Quantity::measured(
            share,
            format!("MemTotal of /proc/meminfo over {MOST_RANKS} ranks"),
        ),
        reserved_gib: Quantity::measured(0.0, "the program itself is not counted"),
        memory_gbps: one(),
        peak_tflops: BTreeMap::new(),
        slowest: Quantity::measured(1.0, "ranks of one host"),
        host_memory_gib: None,
        host_update_gbps: None,
        files_gbps: None,
        shared_cores: Some(Quantity::measured(
            cores as f64,
            "processors that this process may use",
        )),
        // Attention is measured by its flop, so its bytes must not count yet.
        kernel_efficiency: BTreeMap::from([
            ("other".into(), one()),
            (
                "attention".into(),
                Quantity::measured(1e6, "not measured yet"),
            ),
        ]),
        attention: Attention {
            forward: one(),
            backward: one(),
        },
        launch: Launch {
            host_us: Quantity::measured(0.01, "the host is the device"),
            device_us: one(),
        },
        collective_share: Quantity::measured(
            1.0,
            "a collective's copies use the core that would compute",
        ),
        host_gbps: one(),
    };
    let product = GemmModel {
        efficiency: BTreeMap::from([("other".into(), one())]),
        units: Quantity::measured(1.0, "one thread per rank"),
        tiles: vec![Tile {
            rows: 1,
            columns: 1,
            speed: 1.0,
        }],
        half_depth: Quantity::measured(1.0, "the points are more precise"),
        variants: Vec::new(),
        points: Vec::new(),
        in_step: None,
    };
    let links = Links {
        nics: 1,
        devices_per_nic: MOST_RANKS,
        injection_gbps: Quantity::measured(1.0, "no other host was available to measure"),
        peer_gbps: one(),
        base_us: one(),
        in_node_us: one(),
        network_us: Quantity::measured(50.0, "no other host was available to measure"),
        tree: None,
        half_nodes: None,
        table: Vec::new(),
        measured: Vec::new(),
        late: Vec::new(),
    };
    let title = format!(
        "{} with {cores} cores that up to {MOST_RANKS} ranks share",
        host::processor()
    );
    Machine {
        name: name.into(),
        title,
        nodes: 1,
        devices_per_node: MOST_RANKS,
        device,
        product,
        links,
    }
}
