//! What a device is opened with, and where the environment sets it.

use hal::{Error, OpenOptions, Result};
use std::path::PathBuf;

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

/// Where a bias and GELU that follow a product are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Epilogues {
    /// In the product, where cuBLASLt or hipBLASLt is there and takes it; by kernels elsewhere.
    #[default]
    Fused,
    /// By kernels.
    Separate,
}

/// What a device is opened with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Its number among the devices that the process sees.
    pub ordinal: usize,
    /// Who carries the collectives.
    pub collectives: Collectives,
    /// Whether ordinals beyond the last device begin again with the first; staged ranks always do.
    pub wraps: bool,
    /// The file of the fastest ways to products. Where it is not there yet, the first step times them and the first rank
    /// writes it; without a name every product goes the library's own way.
    pub products: Option<PathBuf>,
    /// Where a bias and GELU are computed.
    pub epilogues: Epilogues,
}

impl Options {
    /// `FASCICLE_COLLECTIVES` is `library` (the default) or `staged`.
    ///
    /// Ranks that are threads have a device each, unless their collectives are staged or `NCCL_MULTI_RANK_GPU_ENABLE=1`
    /// lets the library serve several on one. Ranks that are processes take device i modulo the devices that theirs
    /// sees: a launcher may show each of them its own as number 0. If two of them meet on one, the library says so.
    ///
    /// `FASCICLE_PRODUCTS` names the file of the fastest ways to products. `FASCICLE_EPILOGUES` is `fused` (the default) or
    /// `separate`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a value that is none of these.
    pub fn from_environment(options: &OpenOptions) -> Result<Options> {
        let value = |name| std::env::var(name).ok();
        let are_processes = options.transport.is_some();
        Ok(Options {
            ordinal: options.ordinal,
            collectives: collectives(value("FASCICLE_COLLECTIVES").as_deref())?,
            wraps: are_processes || value("NCCL_MULTI_RANK_GPU_ENABLE").as_deref() == Some("1"),
            epilogues: epilogues(value("FASCICLE_EPILOGUES").as_deref())?,
            products: value("FASCICLE_PRODUCTS")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
        })
    }
}

fn collectives(value: Option<&str>) -> Result<Collectives> {
    match value {
        None | Some("" | "library") => Ok(Collectives::Library),
        Some("staged") => Ok(Collectives::Staged),
        Some(other) => Err(Error::invalid(
            "FASCICLE_COLLECTIVES",
            format!("`{other}`"),
            "`library` or `staged`",
        )),
    }
}

fn epilogues(value: Option<&str>) -> Result<Epilogues> {
    match value {
        None | Some("" | "fused") => Ok(Epilogues::Fused),
        Some("separate") => Ok(Epilogues::Separate),
        Some(other) => Err(Error::invalid(
            "FASCICLE_EPILOGUES",
            format!("`{other}`"),
            "`fused` or `separate`",
        )),
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
        assert_eq!(
            error.to_string(),
            "FASCICLE_COLLECTIVES: `stage`, needs `library` or `staged`"
        );
    }

    #[test]
    fn epilogues_are_chosen_by_name() {
        assert_eq!(epilogues(Some("")), Ok(Epilogues::Fused));
        assert_eq!(epilogues(Some("separate")), Ok(Epilogues::Separate));
        let error = epilogues(Some("no")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "FASCICLE_EPILOGUES: `no`, needs `fused` or `separate`"
        );
    }
}
