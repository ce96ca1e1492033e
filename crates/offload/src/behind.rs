//! A file of pieces that one thread writes and reads, in the order in which it is asked to.

use crate::{Disk, extents::Extents, file::PieceFile, store::zeros, walk::len};
use hal::{Error, Result};
use std::{
    ops::Range,
    path::Path,
    sync::mpsc::{Receiver, Sender, channel},
    thread::{Builder, JoinHandle},
};

/// Buffers that pass to the disk: one is filled while another is written.
const NUM_BUFFERS: usize = 2;

/// The file, as its owner sees it.
#[derive(Debug)]
pub(crate) struct Behind {
    owner: String,
    // `None` only while it is dropped.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    // Buffers whose bytes are written, or why they could not be.
    written: Receiver<Result<Vec<u8>>>,
    num_buffers: usize,
    extents: Extents,
    // Buffers of earlier reads.
    spare: Vec<Vec<u8>>,
}

/// A piece that is being read.
#[derive(Debug)]
pub(crate) struct Fetched(Receiver<Result<Vec<u8>>>);

enum Job {
    Reserve {
        bytes: u64,
        reply: Sender<Result<()>>,
    },
    Write {
        piece: usize,
        place: Range<u64>,
        bytes: Vec<u8>,
    },
    Read {
        piece: usize,
        place: Range<u64>,
        bytes: Vec<u8>,
        reply: Sender<Result<Vec<u8>>>,
    },
}

impl Behind {
    /// An empty file, which grows with its pieces.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the file or the thread cannot be made.
    pub(crate) fn create(disk: (&dyn Disk, &Path), owner: &str) -> Result<Behind> {
        let file = PieceFile::create(disk, owner, &[])?;
        let (jobs, asked) = channel();
        let (done, written) = channel();
        let thread = Builder::new()
            .name("swap".into())
            .spawn(move || work(file, &asked, &done))
            .map_err(|error| {
                let needed = "a system that starts one";
                Error::invalid(format!("thread of {owner}"), error.to_string(), needed)
            })?;
        Ok(Behind {
            owner: owner.to_owned(),
            jobs: Some(jobs),
            thread: Some(thread),
            written,
            num_buffers: 0,
            extents: Extents::default(),
            spare: Vec::new(),
        })
    }

    /// Takes the space for a file of this many bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the disk has no room for it.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<()> {
        let (reply, reserved) = channel();
        self.ask(Job::Reserve { bytes, reply })?;
        reserved.recv().map_err(|_| self.ended())?
    }

    /// Queues the write of a new piece of this many bytes, and returns its number.
    ///
    /// # Errors
    /// Those of `fill`; that of an earlier write; [`Error::Invalid`] if the host has no room for a buffer.
    pub(crate) fn write(
        &mut self,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<usize> {
        let buffer = self.filled(bytes, fill)?;
        let piece = self.extents.take(bytes);
        self.queue_write(piece, buffer)?;
        Ok(piece)
    }

    /// Queues the write of other bytes to the place of a piece.
    ///
    /// # Errors
    /// As [`write`](Behind::write).
    pub(crate) fn rewrite(
        &mut self,
        piece: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let buffer = self.filled(len(&self.extents.place(piece)), fill)?;
        self.queue_write(piece, buffer)
    }

    fn filled(
        &mut self,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Vec<u8>> {
        let mut buffer = self.buffer()?;
        let filled = sized(&self.owner, &mut buffer, bytes).and_then(|()| fill(&mut buffer));
        if let Err(error) = filled {
            self.num_buffers -= 1;
            return Err(error);
        }
        Ok(buffer)
    }

    fn queue_write(&self, piece: usize, bytes: Vec<u8>) -> Result<()> {
        let place = self.extents.place(piece);
        self.ask(Job::Write {
            piece,
            place,
            bytes,
        })
    }

    // Waits for the disk once all buffers are on their way to it.
    fn buffer(&mut self) -> Result<Vec<u8>> {
        if self.num_buffers < NUM_BUFFERS {
            self.num_buffers += 1;
            return Ok(Vec::new());
        }
        let written = self.written.recv().map_err(|_| self.ended())?;
        // The buffer of a write that failed is gone.
        self.num_buffers -= usize::from(written.is_err());
        written
    }

    /// Queues the read of a piece.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the host has no room for it, or the thread has ended.
    pub(crate) fn fetch(&mut self, piece: usize) -> Result<Fetched> {
        let place = self.extents.place(piece);
        let mut bytes = self.spare.pop().unwrap_or_default();
        sized(&self.owner, &mut bytes, len(&place))?;
        let (reply, fetched) = channel();
        self.ask(Job::Read {
            piece,
            place,
            bytes,
            reply,
        })?;
        Ok(Fetched(fetched))
    }

    /// The bytes of a piece, once they are read.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the disk fails, and for bytes that are not those written.
    pub(crate) fn fetched(&self, fetched: Fetched) -> Result<Vec<u8>> {
        fetched.0.recv().map_err(|_| self.ended())?
    }

    /// Bytes of the file.
    pub(crate) fn num_bytes(&self) -> u64 {
        self.extents.end()
    }

    /// Frees the place of a piece.
    pub(crate) fn release(&mut self, piece: usize) {
        self.extents.release(piece);
    }

    /// Keeps the buffer in which a piece was read.
    pub(crate) fn keep(&mut self, buffer: Vec<u8>) {
        self.spare.push(buffer);
    }

    fn ask(&self, job: Job) -> Result<()> {
        let asked = self.jobs.as_ref().map(|jobs| jobs.send(job));
        asked.and_then(|sent| sent.ok()).ok_or_else(|| self.ended())
    }

    fn ended(&self) -> Error {
        let operation = format!("file of {}", self.owner);
        Error::invalid(operation, "a thread that has ended", "one that runs")
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // What its panic says has been printed; a drop must not add another.
            let _ = thread.join();
        }
    }
}

// After a write that failed, every job gets its error: a read would only find bytes that are not those written.
fn work(mut file: PieceFile, asked: &Receiver<Job>, done: &Sender<Result<Vec<u8>>>) {
    let mut failed = None;
    while let Ok(job) = asked.recv() {
        match job {
            Job::Reserve { bytes, reply } => {
                let _ = reply.send(file.reserve(bytes));
            }
            Job::Write {
                piece,
                place,
                bytes,
            } => {
                let outcome = match &failed {
                    Some(error) => Err(Error::clone(error)),
                    None => write(&mut file, piece, &place, &bytes),
                };
                failed = outcome.as_ref().err().cloned();
                // An owner that is gone waits for nothing.
                let _ = done.send(outcome.map(|()| bytes));
            }
            Job::Read {
                piece,
                place,
                mut bytes,
                reply,
            } => {
                let outcome = match &failed {
                    Some(error) => Err(error.clone()),
                    None => file.read(piece, place.start, &mut bytes),
                };
                let _ = reply.send(outcome.map(|()| bytes));
            }
        }
    }
}

fn write(file: &mut PieceFile, piece: usize, place: &Range<u64>, bytes: &[u8]) -> Result<()> {
    if piece == file.num_pieces() {
        file.grow(place)?;
    }
    file.write(piece, place.start, bytes)
}

fn sized(owner: &str, buffer: &mut Vec<u8>, bytes: usize) -> Result<()> {
    if buffer.capacity() < bytes {
        *buffer = zeros(owner, bytes)?;
    }
    buffer.resize(bytes, 0);
    Ok(())
}
