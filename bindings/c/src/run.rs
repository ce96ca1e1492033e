//! The start of a job's ranks, and a rank's place.

use crate::{
    memory::{handle, text},
    status::{INVALID, OK, Status, guarded, keep, last},
};
use library::{grid::Axis, hal::Error, job, parallel::Context};
use std::{
    ffi::{c_char, c_void},
    fmt,
};

/// `fascicle_rank`.
pub struct Rank(pub(crate) Context);

type Body = extern "C" fn(rank: *const Rank, data: *mut c_void) -> Status;

/// A program's data, which all its ranks may use: how, is the program's business.
struct Data(*mut c_void);

// SAFETY: only the program's own function reads the pointer, on threads of which the header warns.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

impl Data {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// A failure of the library's, or a status of the program's own.
enum Failure {
    Library(Error),
    Own(Status, String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Library(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Library(error) => error.fmt(f),
            Failure::Own(_, sentence) => f.write_str(sentence),
        }
    }
}

/// Runs `body` once on each rank of a grid.
///
/// # Safety
/// `grid` is a text that ends with a zero byte; `body` and `data` may be used on other threads until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_run(
    grid: *const c_char,
    body: Option<Body>,
    data: *mut c_void,
) -> Status {
    let mut outcome = OK;
    let status = guarded(|| {
        // SAFETY: the caller's guarantee.
        let grid = unsafe { text("fascicle_run", grid) }?;
        let body = body.ok_or_else(|| Error::invalid("fascicle_run", "null", "a function"))?;
        let job = match job().grid(grid) {
            Ok(job) => job,
            Err(error) => {
                keep(&error.to_string());
                outcome = INVALID;
                return Ok(());
            }
        };
        let data = Data(data);
        let ran = job.run(
            move |context| match body(&Rank(context.clone()), data.get()) {
                OK => Ok(()),
                status => Err(Failure::Own(status, said(context, status))),
            },
        );
        match ran {
            Ok(_) => Ok(()),
            Err(Failure::Library(error)) => Err(error),
            Err(Failure::Own(status, sentence)) => {
                keep(&sentence);
                outcome = status;
                Ok(())
            }
        }
    });
    if status == OK { outcome } else { status }
}

// A body's status is mostly that of a call, whose sentence is on the rank's thread.
fn said(context: &Context, status: Status) -> String {
    let rank = context.world().rank();
    match last() {
        sentence if sentence.is_empty() => format!("rank {rank} returned status {status}"),
        sentence => sentence,
    }
}

/// Index of a rank among all ranks.
///
/// # Safety
/// `rank` is the argument of the function that `fascicle_run` runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_rank_index(rank: *const Rank) -> usize {
    // SAFETY: the caller's guarantee.
    unsafe { rank.as_ref() }.map_or(0, |rank| rank.0.world().rank())
}

/// Number of ranks.
///
/// # Safety
/// As [`fascicle_rank_index`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_num_ranks(rank: *const Rank) -> usize {
    // SAFETY: the caller's guarantee.
    unsafe { rank.as_ref() }.map_or(0, |rank| rank.0.world().size())
}

/// A rank's place along an axis.
///
/// # Safety
/// As [`fascicle_rank_index`]; `axis` is a text that ends with a zero byte; `index` and `degree` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_coordinate(
    rank: *const Rank,
    axis: *const c_char,
    index: *mut usize,
    degree: *mut usize,
) -> Status {
    guarded(|| {
        // SAFETY: the caller's guarantee.
        let (rank, name) = unsafe { (handle("rank", rank)?, text("axis", axis)?) };
        let axis: Axis = name.parse().map_err(|error: library::grid::Error| {
            Error::invalid("axis", error.to_string(), "an axis of the grid")
        })?;
        for (place, value) in [(index, rank.0.index(axis)), (degree, rank.0.degree(axis))] {
            if !place.is_null() {
                // SAFETY: the caller's guarantee; not null (checked above).
                unsafe { place.write(value) };
            }
        }
        Ok(())
    })
}
