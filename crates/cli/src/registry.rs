//! What a program adds to this crate: values that its `main` passes in.

use bootstrap::Processes;
use hal::Driver;
use train::Families;

/// The vendors, launchers and families of models that a program carries.
#[derive(Clone)]
pub struct Registry {
    /// The vendors, the preferred ones first.
    pub drivers: Vec<Driver>,
    /// What finds the ranks that `mpirun` or `srun` started, in a program built with MPI.
    pub processes: Option<&'static dyn Processes>,
    /// The families that a configuration can name, the default one first.
    pub families: Families,
}
