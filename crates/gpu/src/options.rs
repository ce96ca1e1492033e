//! What a device is opened with, and where the environment sets it.

use hal::{Error, Result};

/// Who carries the collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collectives {
    /// NCCL or RCCL.
    #[default]
    Library,
    /// Device copies and kernels between ranks of this process: for several ranks on one device, which the libraries
    /// refuse, and for machines without them. Slow, and never chosen silently.
    Staged,
}

/// What a device is opened with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Its number among the devices that the process sees.
    pub ordinal: usize,
    /// Who carries the collectives.
    pub collectives: Collectives,
}

impl Options {
    /// `FASCICLE_COLLECTIVES` is `library` (the default) or `staged`. Staged ranks may outnumber the devices: rank i takes device i modulo
    /// their number.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a value that is none of these.
    pub fn from_environment(ordinal: usize) -> Result<Options> {
        Ok(Options {
            ordinal,
            collectives: collectives(std::env::var("FASCICLE_COLLECTIVES").ok().as_deref())?,
        })
    }
}

fn collectives(value: Option<&str>) -> Result<Collectives> {
    match value {
        None | Some("" | "library") => Ok(Collectives::Library),
        Some("staged") => Ok(Collectives::Staged),
        Some(other) => {
            Err(Error::invalid("FASCICLE_COLLECTIVES", format!("`{other}`"), "`library` or `staged`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectives_are_chosen_by_name() {
        assert_eq!(collectives(None), Ok(Collectives::Library));
        assert_eq!(collectives(Some("staged")), Ok(Collectives::Staged));
        let error = collectives(Some("stage")).unwrap_err();
        assert_eq!(error.to_string(), "FASCICLE_COLLECTIVES: `stage`, needs `library` or `staged`");
    }
}
