//! The file that holds what a rank received.
//!
//! It begins with 8 bytes, and frames follow, each with the number of its channel, its length and its bytes. A channel belongs
//! to a group, an exchange, or a source of rows; its frames are in the order of its calls. Channel 0 holds the names of the
//! others, in the order in which they were opened, and first the header. A file that ends within a frame, as one of a rank that
//! was killed, is complete up to there.

use crate::Error;
use hal::sync::Mutex;
use serde_json::Value;
use std::{
    collections::VecDeque,
    fs::File,
    io::{BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 8] = b"fasctap1";
const NAMES: u32 = 0;

/// Writes a tape.
#[derive(Debug)]
pub struct TapeWriter {
    path: PathBuf,
    file: Mutex<Writing>,
}

#[derive(Debug)]
struct Writing {
    file: BufWriter<File>,
    channels: u32,
}

impl TapeWriter {
    /// Begins a tape; an existing file is replaced. `header` is what the program needs to run the rank again.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, header: &Value) -> Result<TapeWriter, Error> {
        let fail = |error: std::io::Error| Error {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let mut file = BufWriter::new(File::create(path).map_err(fail)?);
        file.write_all(MAGIC).map_err(fail)?;
        let tape = TapeWriter {
            path: path.to_owned(),
            file: Mutex::new(Writing { file, channels: 0 }),
        };
        tape.write(NAMES, &[header.to_string().as_bytes()])?;
        Ok(tape)
    }

    /// Opens the next channel.
    ///
    /// # Errors
    /// As [`write`](TapeWriter::write).
    pub fn open(&self, name: &str) -> Result<u32, Error> {
        let mut writing = hal::lock(&self.file);
        let named = writing.frame(NAMES, &[name.as_bytes()]);
        named.map_err(|error| self.fail(&error))?;
        writing.channels += 1;
        Ok(writing.channels)
    }

    /// Appends a frame, whose bytes are these parts. It has been passed to the system when this returns.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, channel: u32, parts: &[&[u8]]) -> Result<(), Error> {
        let written = hal::lock(&self.file).frame(channel, parts);
        written.map_err(|error| self.fail(&error))
    }

    fn fail(&self, error: &std::io::Error) -> Error {
        Error {
            path: self.path.clone(),
            reason: error.to_string(),
        }
    }
}

impl Writing {
    fn frame(&mut self, channel: u32, parts: &[&[u8]]) -> std::io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.file.write_all(&channel.to_le_bytes())?;
        self.file.write_all(&(len as u64).to_le_bytes())?;
        parts
            .iter()
            .try_for_each(|part| self.file.write_all(part))?;
        // A rank that is killed then leaves whole frames.
        self.file.flush()
    }
}

/// A tape that is read.
#[derive(Debug)]
pub struct Tape {
    path: PathBuf,
    header: Value,
    file: Mutex<BufReader<File>>,
    channels: Mutex<Channels>,
}

#[derive(Debug, Default)]
struct Channels {
    names: Vec<String>,
    // Position and length of the frames that are left.
    frames: Vec<VecDeque<(u64, usize)>>,
    opened: usize,
}

impl Tape {
    /// Reads the places of all frames.
    ///
    /// # Errors
    /// If the file cannot be read, and if it is no tape.
    pub fn open(path: &Path) -> Result<Tape, Error> {
        let fail = |reason: String| Error {
            path: path.to_owned(),
            reason,
        };
        let io = |error: std::io::Error| fail(error.to_string());
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(fail("not a regular file".into()));
        }
        let (end, mut file) = (metadata.len(), BufReader::new(file));
        let mut magic = [0; 8];
        let is_tape = file.read_exact(&mut magic).is_ok() && magic == *MAGIC;
        if !is_tape {
            return Err(fail("not a recording of this version".into()));
        }
        let (mut channels, mut header) = (Channels::default(), None);
        let mut position = MAGIC.len() as u64;
        while let Some((channel, len)) = frame(&mut file).map_err(io)? {
            let begin = position + 12;
            let Some(next) = begin.checked_add(len).filter(|next| *next <= end) else {
                break;
            };
            if channel == NAMES {
                let mut bytes = vec![0; len as usize];
                file.read_exact(&mut bytes).map_err(io)?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                match header {
                    None => header = Some(text),
                    Some(_) => {
                        channels.names.push(text);
                        channels.frames.push(VecDeque::new());
                    }
                }
            } else {
                let frames = channels.frames.get_mut(channel as usize - 1);
                let frames = frames.ok_or_else(|| fail(format!("no channel {channel}")))?;
                frames.push_back((begin, len as usize));
                file.seek_relative(len as i64).map_err(io)?;
            }
            position = next;
        }
        let header = header.and_then(|text| serde_json::from_str(&text).ok());
        Ok(Tape {
            path: path.to_owned(),
            header: header.ok_or_else(|| fail("a recording without a header".into()))?,
            file: Mutex::new(file),
            channels: Mutex::new(channels),
        })
    }

    /// What the recording program stored.
    pub fn header(&self) -> &Value {
        &self.header
    }

    /// Opens the next channel, which must have this name.
    ///
    /// # Errors
    /// If the recorded rank opened another one, or none.
    pub fn channel(&self, name: &str) -> Result<u32, Error> {
        let mut channels = hal::lock(&self.channels);
        let recorded = channels.names.get(channels.opened);
        if recorded.is_none_or(|recorded| recorded != name) {
            let recorded = recorded.map_or("nothing", String::as_str);
            return Err(self.fail(format!("the replay opens {name}, the recording {recorded}")));
        }
        channels.opened += 1;
        Ok(channels.opened as u32)
    }

    /// The next frame of a channel.
    ///
    /// # Errors
    /// If there is none, or the file cannot be read.
    pub fn next(&self, channel: u32) -> Result<Vec<u8>, Error> {
        let mut channels = hal::lock(&self.channels);
        let index = channel as usize - 1;
        let Some((begin, len)) = channels.frames[index].pop_front() else {
            let name = &channels.names[index];
            return Err(self.fail(format!("the recording of {name} ends here")));
        };
        drop(channels);
        let (mut file, mut bytes) = (hal::lock(&self.file), vec![0; len]);
        let read = file.seek(SeekFrom::Start(begin));
        read.and_then(|_| file.read_exact(&mut bytes))
            .map_err(|error| self.fail(error.to_string()))?;
        Ok(bytes)
    }

    pub(crate) fn fail(&self, reason: String) -> Error {
        Error {
            path: self.path.clone(),
            reason,
        }
    }
}

// Channel and length of the next frame; `None` at the end of the file, even within them.
fn frame(file: &mut BufReader<File>) -> std::io::Result<Option<(u32, u64)>> {
    let (mut channel, mut len) = ([0; 4], [0; 8]);
    let read = file.read_exact(&mut channel);
    match read.and_then(|()| file.read_exact(&mut len)) {
        Ok(()) => Ok(Some((u32::from_le_bytes(channel), u64::from_le_bytes(len)))),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}
