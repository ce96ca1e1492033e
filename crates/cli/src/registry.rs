//! What a program is made of besides this crate: values that its `main` hands over.

use bootstrap::Processes;
use hal::Driver;
use train::Families;

/// The vendors, launchers and families of models that a program carries.
#[derive(Clone)]
pub struct Registry {
    /// The vendors, the preferred ones first.
    pub drivers: Vec<Driver>,
    /// What finds the ranks that `mpirun` or `srun` started, in a program that was built for them.
    pub processes: Option<&'static dyn Processes>,
    /// The families that a configuration can name, the default one first.
    pub families: Families,
}
