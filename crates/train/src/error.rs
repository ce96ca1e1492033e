//! Errors that end a run.

use crate::config::ConfigLocation;
use bootstrap::{Failure, FailureKind};
use grid::machine::no_such_key;
use hal::error::Grouped;
use parallel::pipeline::schedule::ScheduleError;
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};
use tensor::DType;

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any failure of this library, so that `?` works on all of its calls in one function: `fascicle::Error`.
///
/// Every crate below keeps an error of its own kinds, and each becomes a variant here; so do those of the planner and of
/// `testing`, which stand above. An error that wraps another becomes the one inside, so that a program finds a failure under
/// one variant, however deep it arose. Variants carry what a program may match on, and display as one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key of the configuration, or an option, has a value that it does not take.
    #[error("{key}: found {found}, needs {needed}")]
    Setting {
        /// The key, as in `training.steps`, or the option.
        key: String,
        /// Its value.
        found: String,
        /// What it takes.
        needed: String,
    },
    /// A configuration has a key that does not exist there.
    #[error("{location}{}{}", prefix(table), unknown_key(found, meant, known))]
    UnknownKey {
        /// Where it stands.
        location: ConfigLocation,
        /// The table in which it stands, as in `training`; empty above all tables.
        table: Box<str>,
        /// The key.
        found: String,
        /// The key that was probably meant.
        meant: Option<Meant>,
        /// The keys that exist there.
        known: Box<[String]>,
    },
    /// A configuration names a family of models that the program does not have.
    #[error("model.family: found `{found}`, needs one of {}", known.join(", "))]
    UnknownFamily {
        /// The name.
        found: String,
        /// The names of the program's families.
        known: Vec<String>,
    },
    /// A configuration's file cannot be read.
    #[error("{}", unreadable(path, source))]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// The system's error, or that it is no regular file.
        source: std::io::Error,
    },
    /// A text is no configuration: it is not TOML, or a value has another type than its key.
    #[error("{location}{}{reason}", prefix(key))]
    Syntax {
        /// Where the mistake is.
        location: ConfigLocation,
        /// The key with the mistake, as in `training.steps`; empty if it is not known.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A machine's description cannot be found or read.
    #[error(transparent)]
    Machine(#[from] grid::machine::MachineError),
    /// A folder holds the checkpoints of another run.
    #[error("{}: holds a run already; needs another --out, or --resume {}", path.display(), path.display())]
    RunExists {
        /// The folder.
        path: PathBuf,
    },
    /// A folder holds the records of a run that ended before its first checkpoint.
    #[error(
        "{}: holds a run that ended before its first checkpoint; needs another --out, or --auto-resume to begin it again",
        path.display()
    )]
    RunUnfinished {
        /// The folder.
        path: PathBuf,
    },
    /// The nodes of a run may have kept local checkpoints, which a resumption would lose.
    #[error(
        "{}: its nodes may have kept local checkpoints; needs `fascicle checkpoint recover`, or run::recover_local, first",
        path.display()
    )]
    NotRecovered {
        /// The folder.
        path: PathBuf,
    },
    /// Another program writes into the folder of a run.
    #[error("{}: another program is training this run; needs another --out, or its end", path.display())]
    RunInUse {
        /// The folder.
        path: PathBuf,
    },
    /// A run would replace a file that no run wrote.
    #[error("{}: not the configuration of a run; needs another --out, where nothing is replaced", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// A checkpoint or a file of weights does not fit the model or its optimiser.
    #[error("{}: {mismatch}", path.display())]
    Mismatch {
        /// The checkpoint or the file.
        path: PathBuf,
        /// In what they differ.
        mismatch: Mismatch,
    },
    /// A folder of another program is not a model that this one can be.
    #[error("{}: {reason}", path.display())]
    Foreign {
        /// The folder or file.
        path: PathBuf,
        /// What was found and needed.
        reason: String,
    },
    /// The model computes something else than the other program's tensors.
    #[error(
        "{}: not proved: segment {segment} ({kind}) differs by {found:.1e} of its own size, needs at most {needed:.0e}; its tensors are {}",
        path.display(), tensors.join(", ")
    )]
    Unproved {
        /// The folder.
        path: PathBuf,
        /// The first segment that differs.
        segment: usize,
        /// Its kind.
        kind: String,
        /// The largest difference, as a share of the root mean square of the output.
        found: f64,
        /// The largest that is accepted.
        needed: f64,
        /// The other program's tensors in it.
        tensors: Vec<String>,
    },
    /// The name of a schedule, or a schedule, cannot be.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A client of training failed: the planner found no plan, or `testing` a grid that differs. `downcast_ref` gives its
    /// own error, `plan::Error` or `testing::Error`.
    #[error(transparent)]
    Client(Box<dyn std::error::Error + Send + Sync>),
    /// A device, a collective or a layer failed: out of memory, timeout, aborted, or arguments that do not fit.
    #[error(transparent)]
    Parallel(#[from] hal::Error),
    /// A grid, an order or a layout cannot be, or does not fit the model.
    #[error(transparent)]
    Grid(#[from] grid::Error),
    /// The data is faulty: missing, too short, or outside the vocabulary.
    #[error(transparent)]
    Data(#[from] crate::data::Error),
    /// A checkpoint is faulty: missing, damaged, or without a tensor.
    #[error(transparent)]
    Checkpoint(crate::checkpoint::Error),
    /// Records could not be written or read.
    #[error(transparent)]
    Metrics(#[from] crate::metrics::Error),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system refused a call that names no file, such as one of a program's own batches.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A rank, this one or another, could not do its part of a checkpoint that is being written.
    #[error("on rank {rank}: {reason}")]
    Peer {
        /// World rank that failed.
        rank: usize,
        /// Its failure.
        reason: String,
    },
    /// Two ranks were started with different settings or data.
    #[error(
        "{key}: found {found} on rank {rank} and {needed} on rank 0, needs the same on every rank"
    )]
    Unequal {
        /// The first rank that differs from rank 0.
        rank: usize,
        /// The first key of the configuration that differs, as in `training.batch`; `data.content` is the data itself,
        /// `data.tokenizer_table` how text becomes tokens, `checkpoint` from where the run resumes.
        key: String,
        /// Its value on that rank.
        found: String,
        /// Its value on rank 0.
        needed: String,
    },
    /// A checkpoint was not saved, because it would hold a number that is not finite. Earlier ones stay.
    #[error(
        "checkpoint of step {}: {name} holds a number that is not finite; it is not saved, and the earlier checkpoints stay",
        Grouped(*step)
    )]
    NotFinite {
        /// How many steps were done.
        step: u64,
        /// The first weight or optimiser state that holds such a number.
        name: String,
    },
    /// Ranks that should hold the same numbers do not: a fault of memory, of a processor or of the network, or a bug.
    #[error("step {}, {phase}: {tensor}: {}", Grouped(*step), wrong_copies(holders, wrong.as_deref()))]
    Replicas {
        /// Number of the step, from 1 as in the records.
        step: u64,
        /// The phase of the step.
        phase: String,
        /// The tensor that the step reaches first of those whose copies differ.
        tensor: String,
        /// The ranks that hold it.
        holders: Vec<usize>,
        /// Those that hold something else than more than half of them; `None` if no value has more than half.
        wrong: Option<Vec<usize>>,
    },
    /// The loss or the gradients are not finite.
    #[error(
        "step {}: {what} is {value}, first in micro-batch {micro_batch}; first bad tensor: {tensor}",
        Grouped(*step)
    )]
    Diverged {
        /// Number of the step, from 1 as in the records.
        step: u64,
        /// Which is not finite: the loss or the norm of the gradients.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The first micro-batch whose loss is not finite, or `none`.
        micro_batch: String,
        /// The first tensor, in the order of layers, that holds a number that is not finite.
        tensor: String,
    },
}

/// In what a checkpoint or a file of weights differs from the model or its optimiser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// A tensor of the model is not there.
    #[error("found no {name}, which the model has")]
    Missing {
        /// The tensor.
        name: String,
    },
    /// It holds a tensor that the model or its optimiser does not have.
    #[error("found {name}{}, which the model or its optimiser does not have", more(*others))]
    Extra {
        /// The first of them.
        name: String,
        /// How many more there are.
        others: usize,
    },
    /// A tensor has another shape.
    #[error("{name} has shape {found:?}, the model needs {needed:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape in the checkpoint.
        found: Vec<usize>,
        /// Its shape in the model.
        needed: Vec<usize>,
    },
    /// A tensor holds numbers where codes are needed, or codes where numbers are.
    #[error("{name} holds {found}, needs {needed}")]
    Dtype {
        /// The tensor.
        name: String,
        /// Its type in the checkpoint.
        found: DType,
        /// Its type in the state of the optimiser.
        needed: DType,
    },
    /// It holds the state of another optimiser.
    #[error("found the state of optimiser {found}, needs that of {needed}")]
    Optimiser {
        /// The checkpoint's.
        found: String,
        /// The trainer's.
        needed: String,
    },
    /// It holds other versions of the weights than a schedule that delays gradients needs on these stages.
    #[error(
        "{name} has {found} earlier versions, needs {needed}; resume it with the schedule and the stages that wrote it, or begin a run \
         with its weights"
    )]
    Versions {
        /// The parameter.
        name: String,
        /// Its earlier versions in the checkpoint.
        found: usize,
        /// Those that the run needs.
        needed: usize,
    },
    /// It was made with another value of a key that a resumed run may not change.
    #[error("was made with {key} = {needed}, found {found}{}; {}", more_keys(*others), way_on(key))]
    Setting {
        /// The key, as in `model.layers`.
        key: String,
        /// Its value in this run.
        found: String,
        /// Its value in the checkpoint.
        needed: String,
        /// How many more keys differ.
        others: usize,
    },
    /// Text becomes other tokens than those with which it was made.
    #[error(
        "was made with another tokenizer than this data and configuration give; --allow-changes accepts it"
    )]
    Tokenizer,
    /// It was made with other data.
    #[error("was made with other data: {needed}; found {found}; --allow-changes accepts it")]
    Data {
        /// The fingerprint of this run's data.
        found: String,
        /// The fingerprint of the checkpoint's.
        needed: String,
    },
    /// Another program wrote it, so that what this one needs besides tensors is not there.
    #[error(
        "found no {what}{}, needs one that this program can read",
        because(reason)
    )]
    Foreign {
        /// What is not there, such as `tokenizer`.
        what: &'static str,
        /// What the reader of it reports; empty where there is nothing at all.
        reason: String,
    },
}

/// The key that a key which does not exist was probably meant to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant {
    /// The nearest key of the same table.
    Near(String),
    /// The key that holds the value in this release.
    Moved(&'static str),
}

impl Error {
    /// An [`Error::Setting`].
    pub fn setting(
        key: impl Into<String>,
        found: impl ToString,
        needed: impl Into<String>,
    ) -> Error {
        Error::Setting {
            key: key.into(),
            found: found.to_string(),
            needed: needed.into(),
        }
    }

    /// Whether the user asked for something impossible, found before anything ran.
    pub fn is_usage(&self) -> bool {
        let is_foreign = matches!(
            self,
            Error::Mismatch {
                mismatch: Mismatch::Foreign { .. },
                ..
            }
        );
        !is_foreign && self.is_wrong_use()
    }

    fn is_wrong_use(&self) -> bool {
        matches!(
            self,
            Error::Setting { .. }
                | Error::ConfigFile { .. }
                | Error::UnknownKey { .. }
                | Error::UnknownFamily { .. }
                | Error::Syntax { .. }
                | Error::Machine(_)
                | Error::RunExists { .. }
                | Error::RunUnfinished { .. }
                | Error::NotRecovered { .. }
                | Error::RunInUse { .. }
                | Error::NotOurs { .. }
                | Error::Mismatch { .. }
                | Error::Foreign { .. }
                | Error::Unequal { .. }
                | Error::Schedule(_)
                | Error::Grid(_)
        )
    }

    /// The same, with the file in which a mistake of a configuration stands.
    pub(crate) fn in_file(mut self, file: PathBuf) -> Error {
        if let Error::UnknownKey { location, .. } | Error::Syntax { location, .. } = &mut self {
            location.file = Some(file);
        }
        self
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }

    pub(crate) fn foreign(path: impl Into<PathBuf>, reason: impl Into<String>) -> Error {
        let (path, reason) = (path.into(), reason.into());
        Error::Foreign { path, reason }
    }

    pub(crate) fn mismatch(path: impl Into<PathBuf>, mismatch: Mismatch) -> Error {
        let path = path.into();
        Error::Mismatch { path, mismatch }
    }
}

impl From<crate::checkpoint::Error> for Error {
    fn from(error: crate::checkpoint::Error) -> Error {
        match error {
            crate::checkpoint::Error::Grid(error) => Error::Grid(error),
            other => Error::Checkpoint(other),
        }
    }
}

impl<E: Into<Error>> From<Failure<E>> for Error
where
    Failure<E>: ToString,
{
    /// The error of the rank that failed first; [`hal::Error::Aborted`] for one that panicked, or that never started.
    fn from(failure: Failure<E>) -> Error {
        let (rank, reason) = (failure.rank, failure.to_string());
        match failure.kind {
            FailureKind::Error(error) => error.into(),
            _ => hal::Error::Aborted { rank, reason }.into(),
        }
    }
}

fn unreadable(path: &Path, source: &std::io::Error) -> String {
    match source.kind() {
        ErrorKind::NotFound => format!("{} does not exist", path.display()),
        _ => format!("{}: {source}", path.display()),
    }
}

fn prefix(key: &str) -> String {
    match key {
        "" => String::new(),
        key => format!("{key}: "),
    }
}

/// The most keys that a sentence lists.
const MOST_LISTED: usize = 20;

fn unknown_key(found: &str, meant: &Option<Meant>, known: &[String]) -> String {
    match meant {
        Some(Meant::Moved(key)) => format!("found `{found}`, which is `{key}` now"),
        Some(Meant::Near(key)) => {
            format!("found `{found}`, which does not exist here; did you mean `{key}`?")
        }
        None if known.len() > MOST_LISTED => format!(
            "found `{found}`, which does not exist here; `fascicle config list` shows the {} keys",
            known.len()
        ),
        None => no_such_key(found, known),
    }
}

fn wrong_copies(holders: &[usize], wrong: Option<&[usize]>) -> String {
    let list = |ranks: &[usize]| {
        let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
        let of = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{of} {}", numbers.join(", "))
    };
    match wrong {
        Some(wrong) => {
            let others = holders.iter().filter(|rank| !wrong.contains(rank));
            let others: Vec<usize> = others.copied().collect();
            format!("other bits on {} than on {}", list(wrong), list(&others))
        }
        None => format!(
            "different bits on {}, and no majority to tell which are wrong",
            list(holders)
        ),
    }
}

fn more(others: usize) -> String {
    match others {
        0 => String::new(),
        others => format!(" and {others} more"),
    }
}

// Weights of other sizes are refused later, whatever is allowed.
fn way_on(key: &str) -> &'static str {
    match key.starts_with("model.") {
        true => "--allow-changes accepts what leaves all shapes as they are",
        false => "--allow-changes accepts it",
    }
}

fn more_keys(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => ", and another key differs".into(),
        others => format!(", and {others} other keys differ"),
    }
}

fn because(reason: &str) -> String {
    match reason {
        "" => String::new(),
        reason => format!(" ({reason})"),
    }
}
