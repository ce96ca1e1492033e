//! The only place that names every vendor, every launcher and every family of models.

use hal::Driver;
use train::Families;

/// The vendors in this build, the preferred ones first.
pub fn drivers() -> Vec<Driver> {
    vec![
        #[cfg(feature = "cuda")]
        cuda::driver(),
        #[cfg(feature = "rocm")]
        rocm::driver(),
        cpu::driver(),
    ]
}

/// The families of models that a configuration can name; [`Families::with`] adds your own.
pub fn families() -> Families {
    families::families()
}

/// What finds the ranks that `mpirun` or `srun` started; `None` in a build without MPI.
pub fn processes() -> Option<&'static dyn bootstrap::Processes> {
    #[cfg(feature = "mpi")]
    return Some(mpi_ranks::processes());
    #[cfg(not(feature = "mpi"))]
    None
}
