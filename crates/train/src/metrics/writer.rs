//! `metrics.jsonl` and `digests.jsonl`: one JSON object per line.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use super::record::{parse, read_bytes, whole_lines};
use super::{Error, Result, record::Stepped};
use crate::checkpoint::replace_file;

/// Appends lines to a file; each has been passed to the system when [`write`](LineWriter::write) returns.
#[derive(Debug)]
pub struct LineWriter<T> {
    path: PathBuf,
    file: File,
    lines: PhantomData<fn(&T)>,
}

impl<T: Stepped> LineWriter<T> {
    /// Begins a new file; an existing file of that name is truncated.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be created.
    pub fn create(path: &Path) -> Result<LineWriter<T>> {
        let file = File::create(path).map_err(|error| Error::io("creating", path, error))?;
        Ok(LineWriter {
            path: path.to_path_buf(),
            file,
            lines: PhantomData,
        })
    }

    /// Continues the file of a run that is resumed after `step`.
    ///
    /// Lines of later steps, and an incomplete last line, are removed, because the run writes them again. The
    /// remaining file is as if the run had never been interrupted. If there is no file, a new one is created.
    ///
    /// Returns what was wrong beside the writer: [`Error::Line`] for a complete line that is not a record, from which on the
    /// file is cut, after a copy of it was made with the ending `.jsonl.damaged`; [`Error::Gap`] if records of earlier steps
    /// are missing, where every step has one.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, copied or opened.
    pub fn resume(path: &Path, step: u64) -> Result<(LineWriter<T>, Option<Error>)> {
        let text = match read_bytes(path) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let (kept, fault) = kept_bytes::<T>(path, &text, step);
        if let Some(Error::Line { .. }) = fault {
            let copy = path.with_extension("jsonl.damaged");
            replace_file(&copy, &text).map_err(|error| Error::io("writing", &copy, error))?;
        }
        let file =
            open_to_append(path, kept).map_err(|error| Error::io("resuming", path, error))?;
        let writer = LineWriter {
            path: path.to_path_buf(),
            file,
            lines: PhantomData,
        };
        Ok((writer, fault))
    }

    /// Appends `record` as one line, in one write.
    ///
    /// # Errors
    /// [`Error::Io`] if the line cannot be written.
    pub fn write(&mut self, record: &T) -> Result<()> {
        let wrap = |error| Error::io("writing", &self.path, error);
        let mut line = serde_json::to_vec(record).map_err(|error| wrap(error.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(wrap)
    }
}

/// The length of the part up to `step`, and what is wrong with it; step numbers only grow, so it is a prefix.
fn kept_bytes<T: Stepped>(path: &Path, text: &[u8], step: u64) -> (u64, Option<Error>) {
    let (mut kept, mut last, mut gap) = (0, 0, None);
    let missing = |first, last| Error::Gap {
        path: path.to_path_buf(),
        first,
        last,
    };
    for (index, line) in whole_lines(text).enumerate() {
        let record: T = match parse(path, index + 1, line) {
            Ok(record) => record,
            Err(fault) => return (kept, Some(fault)),
        };
        let found = record.step();
        if found > step {
            break;
        }
        if found > last + 1 && gap.is_none() {
            gap = Some(missing(last + 1, found - 1));
        }
        last = found;
        kept += line.len() as u64 + 1;
    }
    if last < step && gap.is_none() {
        gap = Some(missing(last + 1, step));
    }
    (kept, gap.filter(|_| T::IN_EVERY_STEP))
}

fn open_to_append(path: &Path, kept: u64) -> std::io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    file.set_len(kept)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::record::sample;
    use super::super::{MetricsWriter, Record, read};
    use super::*;
    use std::fs;

    fn steps(path: &Path) -> Vec<u64> {
        read::<Record>(path)
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
            let (mut writer, fault) = MetricsWriter::resume(&path, step).unwrap();
            assert!(fault.is_none(), "{fault:?}");
            writer.write(&sample(9, 1.0)).unwrap();
            assert_eq!(steps(&path), expected);
        }
    }

    #[test]
    fn resuming_without_a_file_begins_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let (mut writer, fault) = MetricsWriter::resume(&path, 7).unwrap();
        writer.write(&sample(8, 1.0)).unwrap();
        assert_eq!(steps(&path), [8]);
        assert!(matches!(
            fault,
            Some(Error::Gap {
                first: 1,
                last: 7,
                ..
            })
        ));
    }

    #[test]
    fn a_damaged_file_is_kept_beside_its_whole_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(&folder, 2);
        let damaged = [&fs::read(&path).unwrap()[..], &[0; 20], b"\n"].concat();
        fs::write(&path, &damaged).unwrap();
        let (mut writer, fault) = MetricsWriter::resume(&path, 7).unwrap();
        assert!(matches!(fault, Some(Error::Line { line: 3, .. })));
        writer.write(&sample(8, 1.0)).unwrap();
        assert_eq!(steps(&path), [1, 2, 8]);
        let copy = folder.path().join("metrics.jsonl.damaged");
        assert_eq!(fs::read(copy).unwrap(), damaged);
        let (_, fault) = MetricsWriter::resume(&path, 8).unwrap();
        assert!(matches!(
            fault,
            Some(Error::Gap {
                first: 3,
                last: 7,
                ..
            })
        ));
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
