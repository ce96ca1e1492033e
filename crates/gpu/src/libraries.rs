//! Opens the libraries of a vendor and remembers where each was found.

use crate::table::Runtime;
use hal::environment::Variable;
use rccl_sys::{Library, Missing, Search};
use std::path::PathBuf;

/// The libraries of one vendor that were opened so far.
#[derive(Debug)]
pub struct Libraries {
    search: Search,
    found: Vec<(String, PathBuf)>,
}

impl Libraries {
    /// No library yet. Looks in the folders that `first` lists, then where the loader looks, then in the folders `below`
    /// each root: those that the `named` variables give, and the `usual` one.
    pub fn new(first: Variable, named: &[Variable], usual: &str, below: &[&str]) -> Libraries {
        let roots = named.iter().filter_map(Variable::read_os);
        let search = Search::of(first.read_os(), roots.chain([usual.into()]), below);
        let found = Vec::new();
        Libraries { search, found }
    }

    /// Opens the first of `names` that is found.
    ///
    /// # Errors
    /// [`Missing`] with every name and folder that was tried.
    pub fn open(&mut self, library: &'static str, names: &[&str]) -> Result<Library, Missing> {
        let opened = Library::open(library, names, &self.search)?;
        self.found
            .push((library.into(), opened.path().to_path_buf()));
        Ok(opened)
    }

    /// Initialises the vendor's driver or runtime.
    ///
    /// # Errors
    /// Why it serves no device, with the files that were opened. Either there is no device, or the library does not fit the
    /// driver in the kernel.
    pub fn initialise(&self, runtime: impl Runtime + 'static) -> Result<Box<dyn Runtime>, String> {
        runtime
            .initialise()
            .map_err(|fault| format!("{fault} (opened {})", files(&self.found)))?;
        Ok(Box::new(runtime))
    }

    /// Where each library was found.
    pub fn found(self) -> Vec<(String, PathBuf)> {
        self.found
    }
}

/// The files, separated by commas.
pub(crate) fn files(found: &[(String, PathBuf)]) -> String {
    let files: Vec<_> = found
        .iter()
        .map(|(_, path)| path.display().to_string())
        .collect();
    files.join(", ")
}
