//! Folders in which vendors and Python packages install libraries, beyond those that the loader searches.
//!
//! A pattern is a path in which each `*` stands for any part of one folder's name.

use hal::environment::table;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The folders that match any of the patterns: in the order of the patterns, and within a pattern the highest version
/// first.
pub(crate) fn matching(patterns: &[&str]) -> Vec<PathBuf> {
    patterns
        .iter()
        .flat_map(|pattern| below(Path::new("/"), pattern.trim_start_matches('/')))
        .collect()
}

/// The folders that match a pattern within the packages of the Pythons on the search path and of the user.
pub(crate) fn in_python_packages(patterns: &[&str]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for prefix in python_prefixes() {
        for pattern in patterns {
            for packages in ["site-packages", "dist-packages"] {
                found.extend(below(
                    &prefix,
                    &format!("lib/python3*/{packages}/{pattern}"),
                ));
            }
        }
    }
    let mut seen = Vec::new();
    found.retain(|folder| {
        !seen.contains(folder) && {
            seen.push(folder.clone());
            true
        }
    });
    found
}

// Python looks for its packages beside the folder of its program, and beside those that a link to it leads to.
fn python_prefixes() -> Vec<PathBuf> {
    let path = table::SEARCH_PATH.read_os().unwrap_or_default();
    let mut prefixes: Vec<PathBuf> = Vec::new();
    for folder in env::split_paths(&path) {
        prefixes.extend(folder.parent().map(Path::to_path_buf));
        let linked = fs::read_link(folder.join("python3")).map(|link| folder.join(link));
        prefixes.extend(linked.ok().as_deref().and_then(prefix_of));
    }
    prefixes.extend(
        table::HOME
            .read_os()
            .map(|home| Path::new(&home).join(".local")),
    );
    prefixes
}

// `/a` for `/a/bin/python3`.
fn prefix_of(program: &Path) -> Option<PathBuf> {
    program.parent()?.parent().map(Path::to_path_buf)
}

// The folders below `root` that match the rest of a pattern.
fn below(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let (name, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
    if name.is_empty() {
        return vec![root.to_path_buf()];
    }
    let mut folders = match name.split_once('*') {
        None => vec![root.join(name)],
        Some((start, end)) => named(root, start, end),
    };
    folders.retain(|folder| folder.is_dir());
    folders
        .iter()
        .flat_map(|folder| below(folder, rest))
        .collect()
}

// The entries of a folder whose names begin and end so, the highest version first.
fn named(folder: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| name.len() >= start.len() + end.len())
        .filter(|name| name.starts_with(start) && name.ends_with(end))
        .collect();
    names.sort_by_key(|name| std::cmp::Reverse((version(name), name.clone())));
    names.iter().map(|name| folder.join(name)).collect()
}

// The numbers of a name, so that `cuda-13.0` comes after `cuda-9.2`.
fn version(name: &str) -> Vec<u32> {
    name.split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_finds_its_folders_and_prefers_the_highest_version() {
        let root = tempfile::tempdir().unwrap();
        for folder in [
            "cuda-9.2/lib64",
            "cuda-13.0/lib64",
            "cuda-12.8/lib",
            "cuda/lib64",
        ] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("cuda-14"), "a file").unwrap();
        let found = below(root.path(), "cuda-*/lib64");
        let expected = ["cuda-13.0/lib64", "cuda-9.2/lib64"].map(|name| root.path().join(name));
        assert_eq!(found, expected);
        assert_eq!(below(root.path(), "cuda/lib64").len(), 1);
        assert_eq!(below(root.path(), "nowhere/*/lib").len(), 0);
    }

    #[test]
    fn the_program_behind_a_link_has_its_packages_beside_it() {
        assert_eq!(
            prefix_of(Path::new("/opt/torch/.venv/bin/python3")),
            Some(PathBuf::from("/opt/torch/.venv"))
        );
    }
}
