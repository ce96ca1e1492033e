//! Opens the libraries of a vendor and remembers where each was found.

use crate::{places, table::Runtime};
use hal::environment::Variable;
use rccl_sys::{Library, Missing, Search};
use std::path::PathBuf;

/// The libraries of one vendor that were opened so far.
#[derive(Debug)]
pub struct Libraries {
    search: Search,
    found: Vec<(String, PathBuf)>,
}

/// Where a vendor's libraries may lie. Folders are patterns, in which a `*` stands for any part of one folder's name.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// Lists the folders to search first.
    pub first: Variable,
    /// Variables that name a root of the vendor's software.
    pub roots: &'a [Variable],
    /// Folders below a root.
    pub below: &'a [&'a str],
    /// Where the vendor and its containers install.
    pub usual: &'a [&'a str],
    /// Folders within Python's packages.
    pub packages: &'a [&'a str],
}

impl Libraries {
    /// No library yet. Looks in the folders that the user lists, then where the loader looks, then below the roots, in the
    /// usual folders and in those of Python's packages.
    pub fn new(places: &Places<'_>) -> Libraries {
        let roots = places.roots.iter().filter_map(Variable::read_os);
        let mut search = Search::of(places.first.read_os(), roots, places.below);
        search.last.extend(places::matching(places.usual));
        search
            .last
            .extend(places::in_python_packages(places.packages));
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
