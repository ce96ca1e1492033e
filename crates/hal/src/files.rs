//! Files from outside: only regular files are read, and no more of them than a bound.
//!
//! Opening a pipe waits for a writer, and reading a device may never end. A program that is given either by mistake
//! therefore refuses it before it is opened.

use std::{
    fmt::Display,
    fs::{self, File, FileType, Metadata},
    io::{self, Read},
    path::Path,
};

/// The most bytes of a text that people write or a bench saves, such as a configuration.
pub const MOST_TEXT_BYTES: u64 = 16 << 20;

/// Opens a regular file.
///
/// # Errors
/// The system's; [`io::ErrorKind::InvalidInput`] for a folder, a pipe, a device or a socket.
pub fn open(path: &Path) -> io::Result<File> {
    check(&fs::metadata(path)?)?;
    File::open(path)
}

/// The bytes of a regular file.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::FileTooLarge`] for a file of more than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_bounded(open(path)?, most)
}

/// The text of a regular file, or of what the caller of the program has opened for it, such as `/dev/stdin`.
///
/// # Errors
/// As [`read`], for more than [`MOST_TEXT_BYTES`]; [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let file = match is_open_pipe(path)? {
        true => File::open(path),
        false => open(path),
    };
    String::from_utf8(read_bounded(file?, MOST_TEXT_BYTES)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("not UTF-8 text at byte {at}"),
        )
    })
}

/// The folder in which a file of that name is.
pub fn folder(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// That metadata is a regular file's.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] with what it is instead.
pub fn check(metadata: &Metadata) -> io::Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("found {}, needs a regular file", kind(metadata.file_type())),
        )),
    }
}

// A shell passes the output of a command as a pipe that is open already.
fn is_open_pipe(path: &Path) -> io::Result<bool> {
    let is_open = ["/dev/stdin", "/dev/fd", "/proc/self/fd"]
        .iter()
        .any(|open| path.starts_with(open));
    Ok(is_open && kind(fs::metadata(path)?.file_type()) == "a pipe")
}

/// That a length is within a bound.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] with both.
pub fn check_length(found: u64, most: u64) -> io::Result<()> {
    match found > most {
        false => Ok(()),
        true => Err(too_large(found, most)),
    }
}

fn too_large(found: impl Display, most: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("found {found} bytes, needs at most {most}"),
    )
}

fn read_bounded(file: File, most: u64) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len();
    check_length(len, most)?;
    // A pipe has no length, and a file may grow.
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(len as usize)
        .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(too_large(format_args!("more than {most}"), most)),
        false => Ok(bytes),
    }
}

#[cfg(unix)]
fn kind(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_symlink() => "a link",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(not(unix))]
fn kind(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_symlink() => "a link",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn sentence<T: std::fmt::Debug>(read: io::Result<T>) -> String {
        read.unwrap_err().to_string()
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = std::env::temp_dir().join(format!("fascicle-files-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (file, pipe) = (dir.join("file"), dir.join("pipe"));
        fs::write(&file, "text").unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(read(&file, 4).unwrap(), b"text");
        assert_eq!(read_text(&file).unwrap(), "text");
        assert_eq!(sentence(read(&file, 3)), "found 4 bytes, needs at most 3");
        for (path, found) in [
            (pipe.as_path(), "a pipe"),
            (dir.as_path(), "a folder"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            let refused = format!("found {found}, needs a regular file");
            assert_eq!(sentence(open(path)), refused);
            assert_eq!(sentence(read_text(path)), refused);
        }
        fs::write(&file, [b'a', 0xff]).unwrap();
        assert_eq!(sentence(read_text(&file)), "not UTF-8 text at byte 1");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_pipe_is_read_up_to_the_bound() {
        let (reader, mut writer) = io::pipe().unwrap();
        let writing = std::thread::spawn(move || {
            let _ = io::Write::write_all(&mut writer, &[b' '; 100]);
        });
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        assert_eq!(
            sentence(read_bounded(file, 10)),
            "found more than 10 bytes, needs at most 10"
        );
        writing.join().unwrap();
    }
}
