//! The disk operations needed to write a checkpoint.
//!
//! They go through a trait, so that a program can write elsewhere, and tests can end the process between any two of them, or
//! within a write, or make the disk slow.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// Gives a file this content at once: whoever reads it, and a power cut, finds the old content or the new one, whole. A
/// refused write leaves the old one.
///
/// # Errors
/// The system's.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = Path::new(&aside);
    let write = || {
        let mut file = File::create(aside)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(aside, path)
    };
    let written = write();
    if written.is_err() {
        // What refused the file may refuse this too; the next one replaces it.
        let _ = fs::remove_file(aside);
    }
    written?;
    sync_name(path)
}

/// Makes the name of a file or folder survive a power cut.
///
/// # Errors
/// The system's.
pub fn sync_name(path: &Path) -> io::Result<()> {
    sync_dir(hal::files::folder(path))
}

/// Creates a folder and its parents, where they do not exist, so that their names survive a power cut.
///
/// # Errors
/// The system's.
pub fn create_folder(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let is_there = |folder: &&Path| folder.as_os_str().is_empty() || folder.exists();
    let num_missing = path
        .ancestors()
        .take_while(|folder| !is_there(folder))
        .count();
    let to_sync: Vec<&Path> = path.ancestors().take(num_missing + 1).collect();
    // Outermost first. The first exists, but perhaps since a process that was killed before it synced the name.
    to_sync.iter().rev().try_for_each(|folder| {
        if !is_there(folder) {
            disk.create_dir(folder)?;
        }
        match disk.sync_dir(hal::files::folder(folder)) {
            // A folder that this user may not open, such as the one of all users' folders, is not one that a run made.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        }
    })
}

fn sync_dir(path: &Path) -> io::Result<()> {
    // Other systems cannot open a folder as a file, and persist renames themselves.
    match cfg!(unix) {
        true => File::open(path)?.sync_all(),
        false => Ok(()),
    }
}

/// Where a checkpoint is written. Reading finds it at the same paths of the file system.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Creates a folder and its parents, where they do not exist.
    ///
    /// # Errors
    /// The system's.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Creates a file that must not exist yet.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Stored>>;

    /// Gives a file a second name on the same disk, which must not exist yet. Neither name is the first from then on.
    ///
    /// # Errors
    /// The system's, such as that the disk has no such names.
    fn link(&self, file: &Path, name: &Path) -> io::Result<()>;

    /// Renames a file or folder on the same disk; replaces an empty folder or a file of that name.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file, or a folder with its contents; succeeds if there is nothing to remove.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names within a folder survive a power cut.
    ///
    /// # Errors
    /// The system's.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// A file being written.
pub trait Stored: Write + Send {
    /// Makes the written bytes survive a power cut.
    ///
    /// # Errors
    /// The system's.
    fn sync(&mut self) -> io::Result<()>;
}

impl Stored for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// The file system.
#[derive(Debug)]
pub struct FileSystem;

impl Disk for FileSystem {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Stored>> {
        Ok(Box::new(File::create_new(path)?))
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        fs::hard_link(file, name)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
        removed.or_else(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                Ok(())
            } else {
                Err(error)
            }
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        sync_dir(path)
    }
}
