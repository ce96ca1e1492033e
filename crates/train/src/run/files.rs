//! The files that a run adds to after its steps, and can do without.

use super::{Run, SampleRecord, SpeedRecord};
use crate::{
    Error, Result,
    digest::StepDigest,
    metrics::{self, EventWriter, LineWriter, Record, Stepped},
};

/// A file that is closed by its first error.
#[derive(Debug)]
struct Dispensable<W>(Option<W>);

impl<W> Dispensable<W> {
    // Those that are not open take everything.
    fn add(&mut self, write: impl FnOnce(&mut W) -> metrics::Result<()>) -> Result<()> {
        match self.0.as_mut().map(write) {
            Some(Err(error)) => {
                self.0 = None;
                Err(error.into())
            }
            _ => Ok(()),
        }
    }
}

impl<W> Default for Dispensable<W> {
    fn default() -> Self {
        Dispensable(None)
    }
}

/// The files of rank 0; the others have none open.
#[derive(Debug, Default)]
pub(super) struct RunFiles {
    records: Dispensable<LineWriter<Record>>,
    digests: Dispensable<LineWriter<StepDigest>>,
    speeds: Dispensable<LineWriter<SpeedRecord>>,
    samples: Dispensable<LineWriter<SampleRecord>>,
    board: Dispensable<EventWriter>,
}

impl RunFiles {
    /// Opens those of a run that has done `first_step` steps, and says which could not be, or hold something else.
    pub(super) fn open(run: &Run, first_step: u64) -> (RunFiles, Vec<Error>) {
        let (training, mut faults) = (&run.config.training, Vec::new());
        let files = RunFiles {
            records: lines(run, "metrics.jsonl", true, first_step, &mut faults),
            digests: lines(
                run,
                "digests.jsonl",
                training.digest_every > 0,
                first_step,
                &mut faults,
            ),
            speeds: lines(
                run,
                "speeds.jsonl",
                training.straggler_every > 0,
                first_step,
                &mut faults,
            ),
            samples: lines(
                run,
                "samples.jsonl",
                training.sample_tokens > 0 && run.tokenizer.is_some(),
                first_step,
                &mut faults,
            ),
            board: match training.tensorboard {
                true => opened(
                    EventWriter::create(&run.dir.join("tensorboard"), first_step),
                    &mut faults,
                ),
                false => Dispensable::default(),
            },
        };
        (files, faults)
    }

    /// Adds a step to metrics.jsonl.
    ///
    /// # Errors
    /// [`Error::Metrics`] when the disk refuses it, once; so in the other methods.
    pub(super) fn record(&mut self, record: &Record) -> Result<()> {
        self.records.add(|records| records.write(record))
    }

    /// Adds a step to TensorBoard's events.
    pub(super) fn event(&mut self, record: &Record) -> Result<()> {
        self.board.add(|board| board.write(record))
    }

    /// Adds a text to samples.jsonl.
    pub(super) fn sample(&mut self, sample: &SampleRecord) -> Result<()> {
        self.samples.add(|samples| samples.write(sample))
    }

    /// Adds a digest to digests.jsonl.
    pub(super) fn digest(&mut self, digest: &StepDigest) -> Result<()> {
        self.digests.add(|digests| digests.write(digest))
    }

    /// Whether digests.jsonl is open.
    pub(super) fn has_digests(&self) -> bool {
        self.digests.0.is_some()
    }

    /// Adds a measurement to speeds.jsonl.
    pub(super) fn speeds(&mut self, record: &SpeedRecord) -> Result<()> {
        self.speeds.add(|speeds| speeds.write(record))
    }
}

// A file of lines: if it is wanted or there is one, whose later lines this run writes again.
fn lines<T: Stepped>(
    run: &Run,
    name: &str,
    is_wanted: bool,
    first_step: u64,
    faults: &mut Vec<Error>,
) -> Dispensable<LineWriter<T>> {
    let path = run.dir.join(name);
    if !is_wanted && !path.exists() {
        return Dispensable::default();
    }
    if run.resume.is_none() {
        return opened(LineWriter::create(&path), faults);
    }
    let resumed = LineWriter::resume(&path, first_step).map(|(lines, fault)| {
        faults.extend(fault.map(Error::from));
        lines
    });
    opened(resumed, faults)
}

fn opened<W>(opened: metrics::Result<W>, faults: &mut Vec<Error>) -> Dispensable<W> {
    match opened {
        Ok(file) => Dispensable(Some(file)),
        Err(error) => {
            faults.push(error.into());
            Dispensable::default()
        }
    }
}
