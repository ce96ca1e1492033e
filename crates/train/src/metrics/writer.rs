//! `metrics.jsonl`: one JSON object per line.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::record::{parse, whole_lines};
use super::{Error, Record, Result};

/// Appends records to a file; each has been passed to the system when [`MetricsWriter::write`] returns.
#[derive(Debug)]
pub struct MetricsWriter {
    path: PathBuf,
    file: File,
}

impl MetricsWriter {
    /// Begins a new file; an existing file of that name is truncated.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: &Path) -> Result<MetricsWriter> {
        let file = File::create(path).map_err(|error| Error::io("creating", path, error))?;
        Ok(MetricsWriter {
            path: path.to_path_buf(),
            file,
        })
    }

    /// Continues the file of a run that is resumed after `step`.
    ///
    /// Lines of later steps, and an incomplete last line, are removed, because the run writes them again. The
    /// remaining file is as if the run had never been interrupted. If there is no file, a new one is created.
    ///
    /// # Errors
    /// [`Error::Line`] for a complete line that is not a record, in which case the file is left unchanged.
    /// [`Error::Io`].
    pub fn resume(path: &Path, step: u64) -> Result<MetricsWriter> {
        let kept = match fs::read(path) {
            Ok(text) => kept_bytes(path, &text, step)?,
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(Error::io("reading", path, error)),
        };
        let file =
            open_to_append(path, kept).map_err(|error| Error::io("resuming", path, error))?;
        Ok(MetricsWriter {
            path: path.to_path_buf(),
            file,
        })
    }

    /// Appends `record` as one line, in one write.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&mut self, record: &Record) -> Result<()> {
        let wrap = |error| Error::io("writing", &self.path, error);
        let mut line = serde_json::to_vec(record).map_err(|error| wrap(error.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(wrap)
    }
}

/// The length of the part up to `step`; step numbers only grow, so it is a prefix.
fn kept_bytes(path: &Path, text: &[u8], step: u64) -> Result<u64> {
    let mut kept = 0;
    for (index, line) in whole_lines(text).enumerate() {
        if parse(path, index + 1, line)?.step > step {
            break;
        }
        kept += line.len() as u64 + 1;
    }
    Ok(kept)
}

fn open_to_append(path: &Path, kept: u64) -> std::io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    file.set_len(kept)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::super::record::sample;
    use super::*;

    fn steps(path: &Path) -> Vec<u64> {
        read(path)
            .unwrap()
            .iter()
            .map(|record| record.step)
            .collect()
    }

    fn written(folder: &tempfile::TempDir, steps: u64) -> PathBuf {
        let path = folder.path().join("metrics.jsonl");
        let mut writer = MetricsWriter::create(&path).unwrap();
        (1..=steps).for_each(|step| writer.write(&sample(step, 1.0)).unwrap());
        path
    }

    #[test]
    fn lines_are_there_while_the_run_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut writer = MetricsWriter::create(&path).unwrap();
        writer.write(&sample(1, 2.0)).unwrap();
        assert_eq!(steps(&path), [1]);
        writer.write(&sample(2, 2.0)).unwrap();
        assert_eq!(steps(&path), [1, 2]);
    }

    #[test]
    fn resuming_cuts_later_and_torn_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(&folder, 5);
        let whole = fs::read(&path).unwrap();
        for (torn, step, expected) in [
            (&b""[..], 3, vec![1, 2, 3, 9]),
            (b"{\"step\":6,\"lo", 5, vec![1, 2, 3, 4, 5, 9]),
            (b"{", 0, vec![9]),
        ] {
            fs::write(&path, [&whole, torn].concat()).unwrap();
            MetricsWriter::resume(&path, step)
                .unwrap()
                .write(&sample(9, 1.0))
                .unwrap();
            assert_eq!(steps(&path), expected);
        }
    }

    #[test]
    fn resuming_without_a_file_begins_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        MetricsWriter::resume(&path, 7)
            .unwrap()
            .write(&sample(8, 1.0))
            .unwrap();
        assert_eq!(steps(&path), [8]);
    }

    #[test]
    fn a_spoilt_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        fs::write(&path, "not a record\n").unwrap();
        assert!(matches!(
            MetricsWriter::resume(&path, 7),
            Err(Error::Line { line: 1, .. })
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), "not a record\n");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = MetricsWriter::create(Path::new("/nowhere/metrics.jsonl"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("metrics: creating /nowhere/metrics.jsonl: "),
            "{error}"
        );
    }
}
