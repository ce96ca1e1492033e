//! The threads of one rank, and the loop that kernels run on them.

use hal::{Error, Result};
use std::ops::Range;

/// The threads of one rank: the calling one, and a pool of the others.
#[derive(Debug)]
pub(crate) struct Pool {
    threads: usize,
    workers: Option<rayon::ThreadPool>,
}

impl Pool {
    /// A pool of `threads` threads; one thread means the caller's own.
    ///
    /// # Errors
    /// [`Error::Invalid`] for zero threads, or if the system refuses to start them.
    pub(crate) fn new(threads: usize) -> Result<Pool> {
        let refuse = |reason: String| {
            Error::invalid(
                "cpu",
                format!("{threads} threads per rank ({reason})"),
                "at least 1",
            )
        };
        match threads {
            0 => Err(refuse("none to compute with".into())),
            1 => Ok(Pool {
                threads,
                workers: None,
            }),
            _ => {
                // The caller works too: to hand all of its work over would take two more wake-ups, each as long as a small kernel.
                let workers = rayon::ThreadPoolBuilder::new()
                    .num_threads(threads - 1)
                    .build();
                Ok(Pool {
                    threads,
                    workers: Some(workers.map_err(|error| refuse(error.to_string()))?),
                })
            }
        }
    }

    /// Number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Splits `0..len` into one range per thread, each of at least `grain` items (except the last), and runs
    /// `work` on each.
    ///
    /// The splits never change a result, only which thread computes it: kernels write disjoint outputs per
    /// item.
    pub(crate) fn split(&self, len: usize, grain: usize, work: impl Fn(Range<usize>) + Sync) {
        self.split_dyn(len, grain, &work);
    }

    // Compiled once: with a copy per kernel, rayon's scopes and jobs were half of the crate's code.
    fn split_dyn(&self, len: usize, grain: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
        let parts = (len / grain.max(1)).clamp(1, self.threads);
        let Some(workers) = self.workers.as_ref().filter(|_| parts > 1) else {
            return work(0..len);
        };
        let part = |index: usize| index * len / parts..(index + 1) * len / parts;
        workers.in_place_scope(|scope| {
            (1..parts).for_each(|index| scope.spawn(move |_| work(part(index))));
            work(part(0));
        });
    }
}
