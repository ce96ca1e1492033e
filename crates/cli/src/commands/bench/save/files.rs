//! The speed of files that hold what devices have no room for.

use crate::failure::{Failure, Outcome};
use grid::machine::{Machine, Quantity};
use std::{
    env,
    io::{self, Read, Seek, Write},
    thread,
    time::Instant,
};

/// Bytes of each rank's file, and of a piece.
const FILE_BYTES: usize = 128 << 20;
const PIECE_BYTES: usize = 16 << 20;

/// Measures files of the folder for temporary ones, with this number of ranks at work.
///
/// What is written counts when it is on the disk. What is read may come from the system's cache, as in a run that reads what it has
/// just written.
///
/// # Errors
/// [`Failure::Run`] if a file cannot be made, written or read.
pub(super) fn measure(ranks: usize, machine: &mut Machine) -> Outcome {
    let all = thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks).map(|_| scope.spawn(slower_gbps)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<io::Result<Vec<f64>>>()
    });
    let folder = env::temp_dir();
    let failed = |error| Failure::run(format!("a file in {}: {error}", folder.display()));
    let slowest = all
        .map_err(failed)?
        .into_iter()
        .fold(f64::INFINITY, f64::min);
    let source = format!(
        "{} MiB in {}, written to the disk and read again by {ranks} ranks at a time, the slower of both",
        FILE_BYTES >> 20,
        folder.display()
    );
    machine.device.files_gbps = Some(Quantity::measured(slowest, source));
    Ok(())
}

// GB/s of one rank's file.
fn slower_gbps() -> io::Result<f64> {
    let mut file = tempfile::tempfile()?;
    let mut piece = vec![1_u8; PIECE_BYTES];
    let rate = |begun: Instant| FILE_BYTES as f64 / begun.elapsed().as_secs_f64() / 1e9;
    let begun = Instant::now();
    for _ in 0..FILE_BYTES / PIECE_BYTES {
        file.write_all(&piece)?;
    }
    file.sync_data()?;
    let written = rate(begun);
    file.rewind()?;
    let begun = Instant::now();
    for _ in 0..FILE_BYTES / PIECE_BYTES {
        file.read_exact(&mut piece)?;
    }
    Ok(rate(begun).min(written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_a_speed() {
        let mut machine = Machine::find("laptop").unwrap();
        measure(1, &mut machine).unwrap();
        assert!(machine.device.files_gbps.unwrap().value > 0.0);
    }
}
