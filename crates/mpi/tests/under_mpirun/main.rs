//! Tests that need several processes: `mpirun -n N under_mpirun SUBJECT`, as run by `ci/mpi.sh`,
//! `ci/mpi-parity.sh`, `ci/mpi-large.sh` and `ci/survive.sh`.
//!
//! Without a launcher there is one process, which is a job of one rank.

mod collectives;
mod failures;
mod large;
mod outlive;
mod overlap;
mod parity;

use bootstrap::Processes;
use std::process::ExitCode;

fn main() -> ExitCode {
    let processes = fascicle_mpi::processes();
    let subject = std::env::args().nth(1).unwrap_or_default();
    let outcome = match subject.as_str() {
        "parity" => parity::check(processes, false),
        "parity-quick" => parity::check(processes, true),
        "large" => large::check(processes),
        "outlive" => outlive::check(processes),
        "outlive-late" => outlive::check_late(processes),
        "outlive-job" => outlive::check_job(processes),
        "overlap" => overlap::check(processes),
        "error" | "panic" | "missing" => failures::run_failing(processes, subject),
        // Cargo passes flags of its own test harness.
        _ => collectives::check(processes),
    };
    let first = processes.join().is_ok_and(|place| place.rank == 0);
    let status = match outcome {
        Ok(said) if first => {
            println!("{said}");
            0
        }
        Ok(_) => 0,
        Err(report) => {
            eprintln!("{report}");
            1
        }
    };
    processes.end(status);
    ExitCode::from(status)
}

/// Runs `body` as this process's rank, with a CPU device.
fn run(
    processes: &'static dyn Processes,
    seconds: u64,
    body: impl FnOnce(&bootstrap::World, &tensor::Device) -> tensor::Result<()> + Send + 'static,
) -> Result<(), String> {
    let timeout = std::time::Duration::from_secs(seconds);
    let run = bootstrap::processes::run(processes, timeout, move |world| {
        let transport = Some(processes.transport()?);
        let options = cpu::Options {
            ordinal: world.local_rank(),
            transport,
            ..cpu::Options::default()
        };
        body(&world, &tensor::Device::new(cpu::open(options)?)?)
    });
    run.map_err(|failure| failure.report())
}
