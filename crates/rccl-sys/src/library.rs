//! Finding and opening a vendor's shared library.
//!
//! Folders that the user names come first, then the loader's own search (`LD_LIBRARY_PATH`, the system's cache), then
//! the places where the vendors install. The error for a missing library lists everything that was tried.

use std::{
    error::Error as _,
    ffi::{CStr, OsStr, OsString, c_char, c_void},
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Where to look for libraries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Folders to search before the loader's own search.
    pub first: Vec<PathBuf>,
    /// Folders to search after it.
    pub last: Vec<PathBuf>,
}

impl Search {
    /// The folders in the list `first`, separated by colons, and those folders `below` each root that exist.
    pub fn of(
        first: Option<OsString>,
        roots: impl IntoIterator<Item = OsString>,
        below: &[&str],
    ) -> Search {
        let listed = |value| {
            std::env::split_paths(&value)
                .filter(|path| path != Path::new(""))
                .collect()
        };
        let folders = roots.into_iter().flat_map(|root| {
            below
                .iter()
                .map(move |part| PathBuf::from(&root).join(part))
        });
        Search {
            first: first.map(listed).unwrap_or_default(),
            last: folders.filter(|folder| folder.is_dir()).collect(),
        }
    }

    // Every file or name to try, in order. The loader finds a bare name.
    fn candidates(&self, names: &[&str]) -> Vec<PathBuf> {
        let within = |folders: &[PathBuf]| {
            let paths = folders
                .iter()
                .flat_map(|folder| names.iter().map(move |name| folder.join(name)));
            paths.collect::<Vec<_>>()
        };
        let bare = names.iter().map(PathBuf::from).collect();
        [within(&self.first), bare, within(&self.last)].concat()
    }
}

/// A library that could not be opened, with everything that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The library's usual name, as in `cuBLAS`.
    pub library: String,
    /// The file names that were tried.
    pub names: Vec<String>,
    /// The folders that were searched, besides the loader's own.
    pub folders: Vec<PathBuf>,
    /// The loader's errors for files that exist but do not open, and functions that are missing.
    pub reasons: Vec<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} not found: tried {}",
            self.library,
            self.names.join(", ")
        )?;
        write!(f, " in the loader's search path")?;
        self.folders
            .iter()
            .try_for_each(|folder| write!(f, ", {}", folder.display()))?;
        self.reasons
            .iter()
            .try_for_each(|reason| write!(f, "; {reason}"))
    }
}

impl std::error::Error for Missing {}

/// An open library. It is never closed: vendors' libraries start threads and register exit handlers of their own.
#[derive(Debug)]
pub struct Library {
    name: &'static str,
    path: PathBuf,
    handle: &'static libloading::os::unix::Library,
}

impl Library {
    /// Opens the first of `names` that is found, with local symbol scope.
    ///
    /// # Errors
    /// [`Missing`] with every name and folder that was tried.
    pub fn open(
        library: &'static str,
        names: &[&str],
        search: &Search,
    ) -> Result<Library, Missing> {
        let mut reasons = Vec::new();
        for path in search.candidates(names) {
            // A file in a folder must exist; the loader finds a bare name.
            if path.is_absolute() && !path.exists() {
                continue;
            }
            match open_local(&path) {
                Ok(handle) => {
                    let raw = handle.into_raw();
                    // SAFETY: the handle was given up just above.
                    let handle = unsafe { libloading::os::unix::Library::from_raw(raw) };
                    return Ok(Library {
                        name: library,
                        path: file_of(raw).unwrap_or(path),
                        handle: Box::leak(Box::new(handle)),
                    });
                }
                Err(reason) if path.is_absolute() => reasons.push(reason),
                Err(_) => {}
            }
        }
        let names = names.iter().map(|name| (*name).to_string()).collect();
        let folders = search.first.iter().chain(&search.last).cloned().collect();
        Err(Missing {
            library: library.into(),
            names,
            folders,
            reasons,
        })
    }

    /// The file that was opened, or the name under which the loader found it where the loader does not report the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The address of a function, or `None` if this version lacks it.
    pub fn symbol(&self, name: &str) -> Option<*mut c_void> {
        // SAFETY: this only looks the symbol up; whoever calls it states its type and vouches for it.
        let symbol = unsafe { self.handle.get::<*mut c_void>(name.as_bytes()) };
        symbol
            .ok()
            .map(|symbol| symbol.into_raw())
            .filter(|address| !address.is_null())
    }

    /// The error for a function that this version should have.
    pub fn lacks(&self, symbol: &str) -> Missing {
        let reason = format!("{} has no function `{symbol}`", self.path.display());
        Missing {
            library: self.name.into(),
            names: vec![],
            folders: vec![],
            reasons: vec![reason],
        }
    }
}

fn open_local(path: &Path) -> Result<libloading::os::unix::Library, String> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: opening runs the library's initialisers. The names are those of the vendors' own libraries, in folders
    // that the user or the system vouches for.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        match error.source() {
            Some(source) => source.to_string(),
            None => error.to_string(),
        }
    })
}

// The file that the loader opened; it reports one for a library that it found under a bare name too.
fn file_of(handle: *mut c_void) -> Option<PathBuf> {
    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: the handle is that of an open library, and this request stores one pointer.
    let failed = unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) };
    if failed != 0 || map.is_null() {
        return None;
    }
    // SAFETY: the loader's record of a library that is never closed; its name ends with a zero.
    let name = unsafe { CStr::from_ptr((*map).name) };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    path.is_absolute().then_some(path)
}

/// The beginning of `struct link_map` in `<link.h>`.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_lists_every_name_and_folder() {
        let search = Search {
            first: vec!["/nowhere/one".into()],
            last: vec!["/nowhere/two".into()],
        };
        let missing =
            Library::open("cuBLAS", &["libnone.so.13", "libnone.so.12"], &search).unwrap_err();
        let text = "cuBLAS not found: tried libnone.so.13, libnone.so.12 in the loader's search path, \
                    /nowhere/one, /nowhere/two";
        assert_eq!(missing.to_string(), text);
    }

    #[test]
    fn folders_named_by_the_user_come_first() {
        let search = Search {
            first: vec!["/a".into()],
            last: vec!["/b".into()],
        };
        let candidates = search.candidates(&["x.so"]);
        assert_eq!(
            candidates,
            ["/a/x.so", "x.so", "/b/x.so"].map(PathBuf::from)
        );
    }

    #[test]
    fn a_file_that_is_no_library_says_why() {
        let folder = std::env::temp_dir().join(format!("fascicle-library-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("libbroken.so"), "no library").unwrap();
        let search = Search {
            first: vec![folder.clone()],
            last: vec![],
        };
        let missing = Library::open("NCCL", &["libbroken.so"], &search).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(missing.reasons[0].contains("libbroken.so"), "{missing}");
    }

    #[test]
    fn symbols_are_found_or_not() {
        let libc = Library::open("libc", &["libc.so.6"], &Search::default()).unwrap();
        assert!(libc.symbol("getpid").is_some());
        assert!(libc.symbol("no_such_function").is_none());
    }

    #[test]
    fn a_library_that_the_loader_finds_has_its_file() {
        let libc = Library::open("libc", &["libc.so.6"], &Search::default()).unwrap();
        assert!(libc.path().is_absolute(), "{}", libc.path().display());
        assert!(libc.path().ends_with("libc.so.6"));
    }
}
