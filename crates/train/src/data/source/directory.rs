//! The text files of a folder.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use super::{MOST_TEXT_BYTES, Text};
use crate::data::{Error, Result};
use hal::files;

/// Reads every file below `folder` that has a listed extension, sorted by name within each folder.
///
/// Leaves out hidden files and folders, folders whose name begins with `target`, links (they may form cycles),
/// and files that are not UTF-8, which are counted.
pub(super) fn read(folder: &Path, extensions: &[String]) -> Result<Text> {
    let mut text = Text {
        name: folder.display().to_string(),
        documents: Vec::new(),
        num_skipped: 0,
    };
    for path in files(folder, &|path| has_extension(path, extensions))? {
        match String::from_utf8(
            files::read(&path, MOST_TEXT_BYTES)
                .map_err(|error| Error::io("reading", &path, error))?,
        ) {
            Ok(document) if document.is_empty() => {}
            Ok(document) => text.documents.push(document),
            Err(_) => text.num_skipped += 1,
        }
    }
    match text.documents.is_empty() {
        true => Err(no_files(folder, extensions, text.num_skipped)),
        false => Ok(text),
    }
}

/// The paths of the wanted files in a folder, in the order in which they are read.
pub(in crate::data) fn files(
    folder: &Path,
    is_wanted: &dyn Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in sorted_entries(folder)? {
        let path = entry.path();
        let kind = entry
            .file_type()
            .map_err(|error| Error::io("reading", &path, error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() && !skips_folder(&name) {
            found.extend(files(&path, is_wanted)?);
        } else if kind.is_file() && !name.starts_with('.') && is_wanted(&path) {
            found.push(path);
        }
    }
    Ok(found)
}

/// A folder's entries by name, because the system lists them in any order, which would make runs differ.
fn sorted_entries(folder: &Path) -> Result<Vec<DirEntry>> {
    let wrap = |error| Error::io("listing", folder, error);
    let mut entries: Vec<DirEntry> = fs::read_dir(folder)
        .map_err(wrap)?
        .collect::<Result<_, _>>()
        .map_err(wrap)?;
    entries.sort_by_key(DirEntry::file_name);
    Ok(entries)
}

/// Build output and hidden folders contain nothing written by a person.
fn skips_folder(name: &str) -> bool {
    name.starts_with('.') || name.starts_with("target")
}

pub(in crate::data) fn has_extension(path: &Path, extensions: &[String]) -> bool {
    path.extension().is_some_and(|found| {
        extensions
            .iter()
            .any(|wanted| found == wanted.trim_start_matches('.'))
    })
}

pub(in crate::data) fn no_files(folder: &Path, extensions: &[String], skipped: usize) -> Error {
    let extensions = match extensions {
        [] => "(none listed)".to_owned(),
        some => some.join(", "),
    };
    Error::NoFiles {
        folder: folder.to_path_buf(),
        extensions,
        skipped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        folder
    }

    fn rust() -> Vec<String> {
        vec!["rs".into()]
    }

    #[test]
    fn order_is_sorted_and_the_rest_is_left_out() {
        let folder = tree(&[
            ("z.rs", b"z"),
            ("b/two.rs", b"b2"),
            ("b/one.rs", b"b1"),
            ("a.rs", b"a"),
            ("a.txt", b"no"),
            (".git/x.rs", b"no"),
            (".hidden.rs", b"no"),
            ("target/y.rs", b"no"),
            ("target-debug/y.rs", b"no"),
            ("b/bad.rs", &[0xff, 0xfe]),
            ("b/empty.rs", b""),
        ]);
        let text = read(folder.path(), &rust()).unwrap();
        assert_eq!(text.documents, ["a", "b1", "b2", "z"]);
        assert_eq!(text.num_skipped, 1);
        let both = read(folder.path(), &[".rs".into(), "txt".into()]).unwrap();
        assert_eq!(both.documents, ["a", "no", "b1", "b2", "z"]);
    }

    #[test]
    fn a_folder_without_text_says_what_was_looked_for() {
        let folder = tree(&[("bad.rs", &[0xff])]);
        let error = read(folder.path(), &rust()).unwrap_err().to_string();
        assert!(
            error.ends_with("no text file with extension rs (1 skipped as invalid UTF-8)"),
            "{error}"
        );
        let error = read(folder.path(), &[]).unwrap_err().to_string();
        assert!(error.contains("(none listed)"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_in_circles_do_no_harm() {
        let folder = tree(&[("a.rs", b"a")]);
        std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
        assert_eq!(read(folder.path(), &rust()).unwrap().documents, ["a"]);
    }
}
