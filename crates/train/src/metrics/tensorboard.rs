//! Event files of TensorBoard, which draws the records of runs beside each other.
//!
//! A file is a series of TFRecords (length, masked CRC-32C of the length, bytes, masked CRC-32C of the bytes), each of which holds
//! an `Event` in the wire format of protocol buffers. Source: TensorFlow's `record_writer.cc`, `event.proto` and `summary.proto`.

use super::{Error, Record, Result};
use crate::preference::PreferenceMetrics;
use std::{
    borrow::Cow,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// Added to a rotated checksum, so that the checksum of bytes that hold checksums stays a good one.
const MASK: u32 = 0xa282_ead8;

/// Appends scalars to an event file; each record has been passed to the system when [`write`](EventWriter::write) returns.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: File,
}

impl EventWriter {
    /// Begins a file in `folder`, which is created, for a run that starts after `first_step` steps. TensorBoard then forgets later
    /// steps of files in the folder that were begun earlier.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder or the file cannot be created or written.
    pub fn create(folder: &Path, first_step: u64) -> Result<EventWriter> {
        fs::create_dir_all(folder).map_err(|error| Error::io("creating", folder, error))?;
        let now = seconds();
        // TensorBoard reads the files of a folder in the order of their names. Two starts of a run may fall into one second.
        let name =
            |count: u32| format!("events.out.tfevents.{:010}.fascicle.{count:04}", now as u64);
        let (path, file) = (0..)
            .map(|count| folder.join(name(count)))
            .find_map(|path| match File::create_new(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => None,
                created => Some((path, created)),
            })
            .unwrap_or_else(|| {
                (
                    folder.to_owned(),
                    Err(std::io::ErrorKind::AlreadyExists.into()),
                )
            });
        let file = file.map_err(|error| Error::io("creating", &path, error))?;
        let mut writer = EventWriter { path, file };
        writer.append(&[record(&version(now)), record(&start(now, first_step + 1))].concat())?;
        Ok(writer)
    }

    /// Appends a step's numbers.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be written.
    pub fn write(&mut self, step: &Record) -> Result<()> {
        self.append(&record(&event(step)))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let wrap = |error| Error::io("writing", &self.path, error);
        self.file.write_all(bytes).map_err(wrap)
    }
}

fn seconds() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// The numbers of a step, by the names under which TensorBoard shows them: a slash makes a group.
fn scalars(step: &Record) -> Vec<(Cow<'static, str>, f64)> {
    let always = [
        ("loss/training", step.loss),
        ("gradients/norm", step.grad_norm),
        ("rate", step.lr),
        ("speed/tokens_per_s", step.tokens_per_s),
        ("speed/step_s", step.step_s),
        ("tokens", step.tokens as f64),
    ];
    let sometimes = [
        ("loss/validation", step.val_loss),
        ("gradients/loss_scale", step.loss_scale),
        ("speed/flop_per_s", step.flop_per_s),
        ("speed/mfu", step.mfu),
        ("memory/bytes", step.memory_bytes.map(|bytes| bytes as f64)),
        (
            "memory/peak_bytes",
            step.peak_memory_bytes.map(|bytes| bytes as f64),
        ),
    ];
    let sometimes = sometimes
        .into_iter()
        .filter_map(|(name, number)| Some((name, number?)));
    let named = always.into_iter().chain(sometimes);
    let named = named.map(|(name, number)| (Cow::Borrowed(name), number));
    let sets = step.val_losses.iter();
    let sets = sets.map(|(name, loss)| (Cow::Owned(format!("loss/validation/{name}")), *loss));
    let of_step = step.preferences.iter().flat_map(PreferenceMetrics::named);
    let of_step = of_step.map(|(name, number)| (Cow::Borrowed(name), number));
    let of_validation = step
        .val_preferences
        .iter()
        .flat_map(PreferenceMetrics::named);
    let of_validation =
        of_validation.map(|(name, number)| (Cow::Owned(format!("{name}/validation")), number));
    named
        .chain(sets)
        .chain(of_step)
        .chain(of_validation)
        .collect()
}

// Event { wall_time, step, summary { value { tag, simple_value } ... } }
fn event(step: &Record) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, number) in scalars(step) {
        let mut value = Vec::new();
        bytes_field(&mut value, 1, tag.as_bytes());
        value.push(2 << 3 | FIXED_32);
        value.extend((number as f32).to_le_bytes());
        bytes_field(&mut summary, 1, &value);
    }
    let mut event = stamped(step.time, step.step);
    bytes_field(&mut event, 5, &summary);
    event
}

// Event { wall_time, file_version }
fn version(now: f64) -> Vec<u8> {
    let mut event = stamped(now, 0);
    bytes_field(&mut event, 3, b"brain.Event:2");
    event
}

// Event { wall_time, step, session_log { status: START } }
fn start(now: f64, step: u64) -> Vec<u8> {
    let mut event = stamped(now, step);
    bytes_field(&mut event, 7, &[1 << 3 | VARINT, 1]);
    event
}

fn stamped(time: f64, step: u64) -> Vec<u8> {
    let mut event = vec![1 << 3 | FIXED_64];
    event.extend(time.to_le_bytes());
    event.push(2 << 3 | VARINT);
    varint(&mut event, step);
    event
}

// The kinds of fields in the wire format.
const VARINT: u8 = 0;
const FIXED_64: u8 = 1;
const BYTES: u8 = 2;
const FIXED_32: u8 = 5;

fn bytes_field(message: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    message.push(number << 3 | BYTES);
    varint(message, bytes.len() as u64);
    message.extend(bytes);
}

fn varint(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

// A TFRecord.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = length.to_vec();
    record.extend(masked(&length).to_le_bytes());
    record.extend(data);
    record.extend(masked(data).to_le_bytes());
    record
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}

#[cfg(test)]
mod tests {
    use super::super::record::sample;
    use super::*;

    // The events of a file; a record whose checksums are wrong ends the test.
    fn events(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_at(8);
            assert_eq!(rest[..4], masked(length).to_le_bytes());
            let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
            let (data, rest) = rest[4..].split_at(length);
            assert_eq!(rest[..4], masked(data).to_le_bytes());
            events.push(data.to_vec());
            bytes = &rest[4..];
        }
        events
    }

    #[test]
    fn checksums_are_those_of_the_published_example() {
        // RFC 3720, B.4: 32 bytes of zeros.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(
            masked(&[0; 32]),
            0x8a91_36aau32.rotate_right(15).wrapping_add(MASK)
        );
    }

    #[test]
    fn a_file_has_a_version_a_start_and_a_step() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("board");
        let mut writer = EventWriter::create(&folder, 300).unwrap();
        let step = Record {
            val_loss: Some(2.25),
            val_losses: [("code".to_owned(), 2.25)].into(),
            mfu: Some(2.25),
            ..sample(301, 2.5)
        };
        writer.write(&step).unwrap();
        let events = events(&fs::read(&writer.path).unwrap());
        assert_eq!(events.len(), 3);
        assert!(events[0].ends_with(b"\x1a\x0dbrain.Event:2"));
        assert_eq!(events[1][9..], [0x10, 0xad, 0x02, 0x3a, 0x02, 0x08, 0x01]);
        assert_eq!(events[2][1..9], step.time.to_le_bytes());
        let has = |part: &[u8]| events[2].windows(part.len()).any(|found| found == part);
        assert!(has(b"\x0a\x0dloss/training\x15\x00\x00\x20\x40"));
        assert!(has(b"\x0a\x0floss/validation\x15\x00\x00\x10\x40"));
        assert!(has(b"\x0a\x14loss/validation/code\x15\x00\x00\x10\x40"));
        assert!(has(b"\x0a\x09speed/mfu\x15\x00\x00\x10\x40"));
        assert!(!has(b"loss_scale") && !has(b"memory"));
        // A second start has a file of its own, after the first.
        let again = EventWriter::create(&folder, 0).unwrap();
        assert!(again.path > writer.path);
    }
}
