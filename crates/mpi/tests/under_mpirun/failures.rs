//! Failing jobs: `ci/mpi.sh` checks how they end and what they report.

use crate::run;
use bootstrap::Processes;
use std::time::Duration;
use tensor::Error;

/// Fails in the given way, on the last rank, while the others wait for it.
pub(crate) fn run_failing(
    processes: &'static dyn Processes,
    how: String,
) -> Result<String, String> {
    run(processes, 3, move |world, _| {
        let everyone = world.everyone();
        everyone.barrier()?;
        world.beat("waiting for the last rank");
        let is_last = world.rank() + 1 == world.size();
        match how.as_str() {
            "error" if is_last => return Err(Error::invalid("test", "an error", "none")),
            "panic" if is_last => panic!("a panic of the test"),
            "missing" if is_last => std::thread::sleep(Duration::from_secs(600)),
            _ => {}
        }
        everyone.barrier()
    })?;
    Ok("no failure".into())
}
