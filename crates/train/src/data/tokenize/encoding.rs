//! Pieces to tokens, on several threads and in order.
//!
//! One thread reads and cuts, others encode batches of pieces, and the caller's takes the tokens in the order of the pieces. A
//! batch carries the channel for its answer, and the receivers of the answers pass through a queue of bounded length: so few
//! batches exist at a time, however long one takes.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::documents::{self, Part, Skipped};
use super::duplicates::{DocumentHash, Seen};
use super::pieces::Cutter;
use super::{Piece, TokenizeInput, TokenizeOptions, TokenizeReport};
use crate::Stop;
use crate::data::tokenizer::{PIECE_BYTES, PieceEncoder};
use crate::data::{Result, Tokenizer};

/// The most pieces of a batch; a batch of short ones ends at [`PIECE_BYTES`].
const MOST_PIECES: usize = 4096;

/// What is read and how.
pub(super) struct Reading<'a> {
    pub(super) inputs: &'a [TokenizeInput],
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) options: &'a TokenizeOptions,
    pub(super) stop: &'a Stop,
    pub(super) progress: &'a (dyn Fn(u64) + Sync),
}

/// A piece with its tokens.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) piece: Piece,
    /// Its tokens, behind the last piece of a document with those that end it.
    pub(super) tokens: Vec<u32>,
    pub(super) ends_document: bool,
}

type Answer = Result<Vec<Encoded>>;

struct Batch {
    pieces: Vec<Piece>,
    answer: SyncSender<Answer>,
}

/// Encodes all documents and hands their pieces to `take`, in order.
pub(super) fn run(
    reading: &Reading<'_>,
    ending: &[u32],
    mut take: impl FnMut(Encoded) -> Result<()>,
) -> Result<TokenizeReport> {
    let threads = reading.options.threads.max(1);
    thread::scope(|scope| {
        let (work, batches) = sync_channel::<Batch>(threads);
        let batches = Arc::new(Mutex::new(batches));
        let (order, answers) = sync_channel::<Receiver<Answer>>(2 * threads);
        let reader = scope.spawn(move || read(reading, &Queue { work, order }));
        for _ in 0..threads {
            let batches = batches.clone();
            scope.spawn(move || {
                let mut encoder = reading.tokenizer.encoder();
                while let Some(batch) = next(&batches) {
                    let answer = encode(&mut encoder, ending, batch.pieces);
                    // Nobody waits for it after a failure.
                    batch.answer.send(answer).ok();
                }
            });
        }
        // Only workers hold it, so that the reader does not wait for a worker after the last has ended.
        drop(batches);
        let taken = answers.iter().try_for_each(|answer| match answer.recv() {
            Ok(encoded) => encoded?.into_iter().try_for_each(&mut take),
            // Its worker has panicked, which the scope reports.
            Err(_) => Ok(()),
        });
        drop(answers);
        let read = match reader.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        taken.and(read)
    })
}

fn next(batches: &Mutex<Receiver<Batch>>) -> Option<Batch> {
    let batches = batches.lock().unwrap_or_else(PoisonError::into_inner);
    batches.recv().ok()
}

fn encode(encoder: &mut PieceEncoder<'_>, ending: &[u32], pieces: Vec<Piece>) -> Answer {
    let encode = |piece: Piece| {
        let mut tokens = encoder.encode(&piece.text)?;
        if piece.ends_document {
            tokens.extend_from_slice(ending);
        }
        Ok(Encoded {
            tokens,
            ends_document: piece.ends_document,
            piece,
        })
    };
    pieces.into_iter().map(encode).collect()
}

/// Where batches go.
struct Queue {
    work: SyncSender<Batch>,
    order: SyncSender<Receiver<Answer>>,
}

impl Queue {
    // Returns whether anybody takes it.
    fn send(&self, pieces: Vec<Piece>) -> bool {
        let (answer, receiver) = sync_channel(1);
        self.order.send(receiver).is_ok() && self.work.send(Batch { pieces, answer }).is_ok()
    }
}

// Reads all inputs, leaves duplicates out, and sends batches until nobody takes them.
fn read(reading: &Reading<'_>, queue: &Queue) -> Result<TokenizeReport> {
    let options = reading.options;
    let mut report = TokenizeReport::default();
    let (mut seen, mut skipped) = (Seen::default(), Skipped::default());
    let mut cutter = Cutter::new(reading.tokenizer, options.allows_cuts);
    let (mut batch, mut batch_bytes, mut is_open) = (Vec::new(), 0, true);
    for input in reading.inputs {
        let name = input.name();
        let mut sink = |part: Part<'_>| {
            if part.begins && !is_kept(&part, options, &mut seen, &mut report) {
                // A file that is a duplicate is one document, and is not read further.
                return Ok(part.ends);
            }
            report.text_bytes += part.text.len() as u64;
            report.documents += u64::from(part.ends);
            cutter.push(&part, &name, &mut |piece: Piece| {
                batch_bytes += piece.text.len();
                batch.push(piece);
                if batch_bytes >= PIECE_BYTES || batch.len() >= MOST_PIECES {
                    is_open &= queue.send(std::mem::take(&mut batch));
                    batch_bytes = 0;
                }
                Ok(())
            })?;
            Ok(is_open && !reading.stop.asked())
        };
        documents::read(input, options, &mut skipped, reading.progress, &mut sink)?;
        if !is_open || reading.stop.asked() {
            break;
        }
    }
    if !batch.is_empty() {
        queue.send(batch);
    }
    report.hash_bytes = seen.bytes();
    report.inexact_cuts = cutter.inexact_cuts;
    report.skipped_files = skipped.files;
    report.empty += skipped.empty;
    Ok(report)
}

fn is_kept(
    part: &Part<'_>,
    options: &TokenizeOptions,
    seen: &mut Seen,
    report: &mut TokenizeReport,
) -> bool {
    if part.ends && part.text.is_empty() {
        report.empty += 1;
        return false;
    }
    let hash = || part.hash.unwrap_or_else(|| DocumentHash::of(part.text));
    let is_new = options.keeps_duplicates || seen.insert(hash());
    report.duplicates += u64::from(!is_new);
    is_new
}
