//! A walk over the pieces of a file: one thread reads ahead of the visitor, and another writes behind it.

use crate::file::PieceFile;
use hal::{Error, Result};
use std::{
    ops::Range,
    sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    thread,
};

/// What is done with each piece of a walk.
///
/// A walk loads the next piece before it asks for the last one back, so the work on a piece may go on while another is fetched.
pub trait Visit<E> {
    /// Takes the bytes of a piece, and begins the work on it.
    ///
    /// # Errors
    /// The visitor's own.
    fn load(&mut self, piece: usize, bytes: &[u8]) -> Result<(), E>;

    /// Returns the bytes of a piece that has been loaded, once the work on it is done.
    ///
    /// # Errors
    /// The visitor's own.
    fn unload(&mut self, piece: usize, bytes: &mut [u8]) -> Result<(), E>;
}

/// Buffers of a walk: one that is read, one that waits, two of the visitor, and one that is written.
pub(crate) const NUM_BUFFERS: usize = 5;

/// A piece and its bytes.
type Loaded = (usize, Vec<u8>);

/// Walks over these pieces of a file.
///
/// # Errors
/// The first of the visitor's and the file's.
pub(crate) fn walk<E: From<Error>>(
    (file, places): (&PieceFile, &[Range<u64>]),
    pieces: &[usize],
    buffers: &mut Vec<Vec<u8>>,
    visitor: &mut dyn Visit<E>,
) -> Result<(), E> {
    let (spare, free) = channel();
    for buffer in buffers.drain(..) {
        spare
            .send(buffer)
            .expect("this function holds the receiver");
    }
    let (read, ready) = sync_channel(1);
    let (done, changed) = sync_channel(1);
    let outcome = thread::scope(|scope| {
        let place = |piece: usize| (places[piece].start, len(&places[piece]));
        let reader =
            scope.spawn(move || read_all(file, pieces, place, &free, &read).map(|()| free));
        // The writer alone holds `spare`: when it ends, the reader waits for no more buffers.
        let writer = scope.spawn(move || write_all(file, place, &changed, &spare));
        let visited = visit(pieces.len(), &ready, &done, visitor);
        // Threads that wait for this one end when its sides of their channels are gone.
        drop((ready, done));
        let (reader, writer) = (joined(reader.join()), joined(writer.join()));
        // A visitor that has run dry knows nothing of the reason.
        match (reader, writer, visited) {
            (Ok(free), Ok(()), Ok(())) => Ok(free),
            (Err(error), ..) | (_, Err(error), _) => Err(E::from(error)),
            (.., Err(Some(error))) => Err(error),
            (.., Err(None)) => unreachable!("a bug: a thread of a walk has ended without an error"),
        }
    });
    buffers.extend(outcome?);
    Ok(())
}

// `Err(None)` if a thread has ended before its last piece.
fn visit<E>(
    count: usize,
    ready: &Receiver<Loaded>,
    done: &SyncSender<Loaded>,
    visitor: &mut dyn Visit<E>,
) -> Result<(), Option<E>> {
    let mut before: Option<Loaded> = None;
    let unload = |visitor: &mut dyn Visit<E>, (piece, mut bytes): Loaded| {
        visitor.unload(piece, &mut bytes).map_err(Some)?;
        done.send((piece, bytes)).map_err(|_| None)
    };
    for _ in 0..count {
        let (piece, bytes) = ready.recv().map_err(|_| None)?;
        visitor.load(piece, &bytes).map_err(Some)?;
        if let Some(before) = before.replace((piece, bytes)) {
            unload(visitor, before)?;
        }
    }
    before.map_or(Ok(()), |last| unload(visitor, last))
}

fn read_all(
    file: &PieceFile,
    pieces: &[usize],
    place: impl Fn(usize) -> (u64, usize),
    free: &Receiver<Vec<u8>>,
    read: &SyncSender<Loaded>,
) -> Result<()> {
    for &piece in pieces {
        // A side that is gone has an error to report, or has one from the other thread.
        let Ok(mut bytes) = free.recv() else {
            break;
        };
        let (offset, len) = place(piece);
        bytes.resize(len, 0);
        file.read(piece, offset, &mut bytes)?;
        if read.send((piece, bytes)).is_err() {
            break;
        }
    }
    Ok(())
}

fn write_all(
    file: &PieceFile,
    place: impl Fn(usize) -> (u64, usize),
    changed: &Receiver<Loaded>,
    spare: &Sender<Vec<u8>>,
) -> Result<()> {
    while let Ok((piece, bytes)) = changed.recv() {
        file.write(piece, place(piece).0, &bytes)?;
        // A reader that has read its last piece needs no more buffers.
        let _ = spare.send(bytes);
    }
    Ok(())
}

fn joined<T>(ended: thread::Result<Result<T>>) -> Result<T> {
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub(crate) fn len(place: &Range<u64>) -> usize {
    (place.end - place.start) as usize
}
