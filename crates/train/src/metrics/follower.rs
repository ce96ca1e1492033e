//! The lines of a file that another process appends to.

use super::{Error, Result, Stepped, record::parse};
use hal::files;
use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// Reads a file of lines, such as `metrics.jsonl`, while a run writes it.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    position: u64,
    lines: usize,
}

impl Follower {
    /// From the first line on. The file need not exist yet.
    pub fn new(path: &Path) -> Follower {
        Follower {
            path: path.to_path_buf(),
            position: 0,
            lines: 0,
        }
    }

    /// The complete lines that have been added since the last call. A run that is resumed removes lines, which it then writes
    /// again: they are returned twice.
    ///
    /// # Errors
    /// As [`for_new_lines`](Follower::for_new_lines).
    pub fn new_lines<T: Stepped>(&mut self) -> Result<Vec<T>> {
        let mut lines = Vec::new();
        self.for_new_lines(|line| lines.push(line))?;
        Ok(lines)
    }

    /// Passes on each of the [`new_lines`](Follower::new_lines), and holds no more than one at a time.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read; [`Error::Line`] for a complete line that is not a record.
    pub fn for_new_lines<T: Stepped>(&mut self, mut each: impl FnMut(T)) -> Result<()> {
        let wrap = |error| Error::io("reading", &self.path, error);
        let mut file = match files::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(wrap)?,
        };
        let length = file.metadata().map_err(wrap)?.len();
        self.position = self.position.min(length);
        file.seek(SeekFrom::Start(self.position)).map_err(wrap)?;
        let mut added = BufReader::new(file.take(length - self.position));
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = added.read_until(b'\n', &mut line).map_err(wrap)?;
            let Some(text) = line.strip_suffix(b"\n") else {
                return Ok(());
            };
            self.lines += 1;
            self.position += read as u64;
            each(parse(&self.path, self.lines, text)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Record, record::sample};
    use super::*;
    use std::{
        fs::{self, File},
        io::Write,
    };

    #[test]
    fn whole_lines_are_returned_once_and_again_after_a_resumption() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut follower = Follower::new(&path);
        let mut steps = || {
            let new: Vec<Record> = follower.new_lines().unwrap();
            new.iter().map(|record| record.step).collect::<Vec<_>>()
        };
        assert_eq!(steps(), [0; 0]);
        let line = |step| serde_json::to_string(&sample(step, 2.0)).unwrap() + "\n";
        let all: String = (1..=3).map(line).collect();
        let (begun, rest) = all.split_at(all.len() - 5);
        fs::write(&path, begun).unwrap();
        assert_eq!(steps(), [1, 2]);
        let append = |text: &str| {
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        append(rest);
        assert_eq!(steps(), [3]);
        assert_eq!(steps(), [0; 0]);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(line(1).len() as u64)
            .unwrap();
        assert_eq!(steps(), [0; 0]);
        append(&line(2));
        assert_eq!(steps(), [2]);
        append("no record\n");
        let error = follower.new_lines::<Record>().unwrap_err().to_string();
        assert!(error.contains("metrics.jsonl line 5: "), "{error}");
    }

    #[test]
    fn a_device_is_refused_before_it_is_opened() {
        let lines = Follower::new(Path::new("/dev/zero")).new_lines::<Record>();
        let error = lines.unwrap_err().to_string();
        assert!(error.contains("needs a regular file"), "{error}");
    }
}
