//! How long a waiting thread stays awake, which only affects speed: here it looks once.

/// Counts running threads, for nobody.
#[derive(Debug)]
pub(crate) struct Running;

impl Running {
    /// Counts nothing.
    pub(crate) fn more(_threads: usize) -> Running {
        Running
    }

    /// Counts nothing.
    pub(crate) fn less() -> Running {
        Running
    }
}

/// A number of processors for which a group wakes all members that can help.
pub(crate) fn processors() -> usize {
    4
}

/// Looks once.
pub(crate) fn stay_awake(happened: impl Fn() -> bool) -> bool {
    happened()
}
