//! Copies of a run's checkpoints in a store, made by a thread of rank 0 beside the steps.
//!
//! After each checkpoint the thread copies what the retention rules name and the store lacks, the newest first. So a store that was away
//! gets what it has missed, and one that is slower than the run gets the newest. The checkpoint that is being copied is held: the run's
//! own rules do not remove it.

use crate::{
    Error, Result,
    checkpoint::{
        self, CheckpointStore, HeldSteps, Limit, Retention, kept_checkpoints, prune_store,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::Builder,
    time::{Duration, Instant},
};

/// The time that a cancelled thread has to end.
const LEAVE: Duration = Duration::from_secs(2);

/// What a run has copied to its store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreReport {
    /// The store's URL.
    pub url: String,
    /// The newest step that was copied.
    pub step: Option<u64>,
    /// The number of checkpoints that were copied.
    pub num_copied: usize,
    /// Their bytes.
    pub num_bytes: u64,
    /// How often copying failed.
    pub num_failures: usize,
    /// The last failure, if no copy has succeeded since.
    pub failure: Option<String>,
}

/// A checkpoint that was copied to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreCopy {
    /// The store's URL.
    pub url: String,
    /// Its step.
    pub step: u64,
    /// Its bytes.
    pub num_bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// What the thread needs.
pub(super) struct CopyJob {
    pub(super) store: Arc<dyn CheckpointStore>,
    pub(super) dir: PathBuf,
    pub(super) retention: Retention,
    pub(super) held: HeldSteps,
    /// The step with which the run begins: the store holds no later one, unless it is of another run.
    pub(super) first_step: u64,
    pub(super) timeout: Duration,
}

/// Copies the checkpoints of a run, on rank 0.
#[derive(Debug)]
pub(super) struct StoreCopies {
    wakes: Option<Sender<()>>,
    ends: Receiver<Result<StoreCopy>>,
    is_cancelled: Arc<AtomicBool>,
    timeout: Duration,
    report: StoreReport,
}

impl StoreCopies {
    /// Starts the thread, which first copies what an earlier part of the run could not.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be started.
    pub(super) fn start(job: CopyJob) -> Result<StoreCopies> {
        let ((wakes, woken), (sender, ends)) = (channel(), channel());
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (timeout, url) = (job.timeout, job.store.url().to_owned());
        let cancelled = is_cancelled.clone();
        Builder::new()
            .name("copies".into())
            .spawn(move || job.run(&woken, &sender, &cancelled))?;
        let copies = StoreCopies {
            wakes: Some(wakes),
            ends,
            is_cancelled,
            timeout,
            report: StoreReport {
                url,
                ..StoreReport::default()
            },
        };
        copies.wake();
        Ok(copies)
    }

    /// Says that there is a new checkpoint. Does not wait.
    pub(super) fn wake(&self) {
        if let Some(wakes) = &self.wakes {
            // A thread that has ended has said why.
            let _ = wakes.send(());
        }
    }

    /// What has been copied or has failed since the last call. Of several failures in a row, only the first. Does not wait.
    pub(super) fn news(&mut self) -> Vec<Result<StoreCopy>> {
        let ends: Vec<_> = self.ends.try_iter().collect();
        let ends = ends.into_iter();
        ends.filter_map(|end| self.counted(end)).collect()
    }

    fn counted(&mut self, end: Result<StoreCopy>) -> Option<Result<StoreCopy>> {
        let report = &mut self.report;
        match &end {
            Ok(copy) => {
                report.step = report.step.max(Some(copy.step));
                report.num_copied += 1;
                report.num_bytes += copy.num_bytes;
                report.failure = None;
                Some(end)
            }
            Err(error) => {
                report.num_failures += 1;
                let before = report.failure.replace(error.to_string());
                before.is_none().then_some(end)
            }
        }
    }

    /// Waits for the copies that are left, not longer than one may take. Returns what has been copied or has failed, and all in all.
    pub(super) fn finish(mut self) -> (Vec<Result<StoreCopy>>, StoreReport) {
        drop(self.wakes.take());
        let (mut news, mut end) = (Vec::new(), Instant::now() + self.timeout);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.ends.recv_timeout(left) {
                Ok(one) => news.extend(self.counted(one)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if self.is_cancelled.load(Ordering::Relaxed) => {
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.is_cancelled.store(true, Ordering::Relaxed);
                    end = Instant::now() + LEAVE;
                }
            }
        }
        (news, std::mem::take(&mut self.report))
    }
}

impl Drop for StoreCopies {
    fn drop(&mut self) {
        // A run that ends with an error does not wait: its folder has what was to be copied.
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl CopyJob {
    fn run(
        self,
        woken: &Receiver<()>,
        ends: &Sender<Result<StoreCopy>>,
        is_cancelled: &Arc<AtomicBool>,
    ) {
        let mut is_ours = false;
        while woken.recv().is_ok() {
            while woken.try_recv().is_ok() {}
            let failed = self.copy_missing(&mut is_ours, ends, is_cancelled);
            if let Err(error) = failed
                && ends.send(Err(error)).is_err()
            {
                return;
            }
        }
    }

    fn limit(&self, is_cancelled: &Arc<AtomicBool>) -> Limit {
        let is_cancelled = is_cancelled.clone();
        Limit::or(self.timeout, move || is_cancelled.load(Ordering::Relaxed))
    }

    // Copies what the store lacks, each step at most once.
    fn copy_missing(
        &self,
        is_ours: &mut bool,
        ends: &Sender<Result<StoreCopy>>,
        is_cancelled: &Arc<AtomicBool>,
    ) -> Result<()> {
        let mut tried = BTreeSet::new();
        loop {
            let limit = self.limit(is_cancelled);
            let there = self.store.steps(&limit)?;
            if !*is_ours {
                self.check_ours(&there)?;
                *is_ours = true;
            }
            let kept = kept_checkpoints(&self.dir, &self.retention)?;
            let mut missing = kept.into_iter();
            let Some((step, path)) =
                missing.find(|(step, _)| !there.contains(step) && !tried.contains(step))
            else {
                prune_store(&*self.store, &self.retention, &limit)?;
                return Ok(());
            };
            tried.insert(step);
            // One that is gone by now has made room for a newer one.
            let Some(_held) = self.held.hold(&path, step) else {
                continue;
            };
            let begun = Instant::now();
            let num_bytes = self.store.push(&path, &limit)?;
            let copy = StoreCopy {
                url: self.store.url().to_owned(),
                step,
                num_bytes,
                took: begun.elapsed(),
            };
            if ends.send(Ok(copy)).is_err() {
                return Ok(());
            }
        }
    }

    // The rules of retention would take the later checkpoints of another run for the newest, and remove this run's.
    fn check_ours(&self, there: &[u64]) -> Result<()> {
        match there.last().filter(|newest| **newest > self.first_step) {
            None => Ok(()),
            Some(newest) => {
                let reason = format!(
                    "found one of step {newest}, which this run has not made (it begins after step {}), needs a place of its own",
                    self.first_step
                );
                Err(Error::Checkpoint(checkpoint::Error::Store {
                    url: self.store.url().to_owned(),
                    operation: "looking for other checkpoints".into(),
                    reason,
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{FileCopy, FileSystem, Inventory, Sections, Writer, prune_unheld};
    use std::{path::Path, sync::Mutex};

    /// A store that remembers steps, and whose copies wait until they are let go, or fail.
    #[derive(Debug, Default)]
    struct Fake {
        steps: Mutex<BTreeSet<u64>>,
        waits: AtomicBool,
        fails: AtomicBool,
    }

    impl CheckpointStore for Fake {
        fn url(&self) -> &str {
            "fake://run"
        }

        fn steps(&self, _: &Limit) -> checkpoint::Result<Vec<u64>> {
            Ok(hal::lock(&self.steps).iter().copied().collect())
        }

        fn inventory(&self, _: u64, _: &Limit) -> checkpoint::Result<Inventory> {
            unreachable!("no rule asks for losses")
        }

        fn push(&self, path: &Path, limit: &Limit) -> checkpoint::Result<u64> {
            let refused = |reason| checkpoint::Error::Store {
                url: self.url().into(),
                operation: "writing".into(),
                reason,
            };
            while self.waits.load(Ordering::Relaxed) {
                limit.left().map_err(refused)?;
                std::thread::sleep(Duration::from_millis(5));
            }
            if self.fails.load(Ordering::Relaxed) {
                return Err(refused("full".into()));
            }
            hal::lock(&self.steps).insert(Inventory::read(path)?.step());
            Ok(1)
        }

        fn read(&self, _: u64, _: &mut FileCopy<'_>, _: &Limit) -> checkpoint::Result<()> {
            unreachable!("nothing is pulled")
        }

        fn remove(&self, step: u64, _: &Limit) -> checkpoint::Result<()> {
            hal::lock(&self.steps).remove(&step);
            Ok(())
        }
    }

    struct Case {
        store: Arc<Fake>,
        dir: tempfile::TempDir,
        held: HeldSteps,
        copies: StoreCopies,
    }

    const KEPT: usize = 2;

    impl Case {
        fn new(store: Fake, timeout: Duration) -> Case {
            let (store, dir) = (Arc::new(store), tempfile::tempdir().unwrap());
            let held = HeldSteps::default();
            let copies = StoreCopies::start(CopyJob {
                store: store.clone(),
                dir: dir.path().to_owned(),
                retention: Retention::newest(KEPT),
                held: held.clone(),
                first_step: 0,
                timeout,
            });
            Case {
                store,
                dir,
                held,
                copies: copies.unwrap(),
            }
        }

        // As a run does: a checkpoint, the rules, and the word to the thread.
        fn save(&self, step: u64) {
            let writer = Writer::begin(self.dir.path(), step).unwrap();
            writer.commit(Vec::new(), Sections::default()).unwrap();
            let retention = Retention::newest(KEPT);
            prune_unheld(&FileSystem, self.dir.path(), &retention, &self.held).unwrap();
            self.copies.wake();
        }

        fn here(&self) -> Vec<u64> {
            let all = kept_checkpoints(self.dir.path(), &Retention::newest(usize::MAX)).unwrap();
            all.into_iter().rev().map(|(step, _)| step).collect()
        }

        fn there(&self) -> Vec<u64> {
            hal::lock(&self.store.steps).iter().copied().collect()
        }
    }

    fn wait_until(is_so: impl Fn() -> bool) {
        for _ in 0..2000 {
            if is_so() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it has not become so within 10 s");
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_copied_stays_and_a_slow_store_gets_the_newest() {
        let store = Fake::default();
        store.waits.store(true, Ordering::Relaxed);
        let case = Case::new(store, LONG);
        case.save(1);
        wait_until(|| case.held.holds(1));
        (2..=6).for_each(|step| case.save(step));
        assert_eq!(case.here(), [1, 5, 6]);
        case.store.waits.store(false, Ordering::Relaxed);
        wait_until(|| case.there() == [5, 6]);
        let (store, (news, report)) = (case.store.clone(), case.copies.finish());
        assert_eq!(hal::lock(&store.steps).len(), KEPT);
        let steps: Vec<u64> = news.into_iter().map(|copy| copy.unwrap().step).collect();
        assert_eq!(
            (steps, report.num_copied, report.step),
            (vec![1, 6, 5], 3, Some(6))
        );
    }

    #[test]
    fn failures_in_a_row_are_reported_once_and_made_good() {
        let store = Fake::default();
        store.fails.store(true, Ordering::Relaxed);
        let mut case = Case::new(store, LONG);
        let mut said = Vec::new();
        for step in 1..=3 {
            case.save(step);
            // Long enough for an attempt; a slower one is part of the next.
            std::thread::sleep(Duration::from_millis(100));
            said.extend(case.copies.news());
        }
        let said: Vec<String> = said
            .into_iter()
            .map(|end| end.unwrap_err().to_string())
            .collect();
        assert_eq!(said, ["checkpoint store fake://run: writing: full"]);
        case.store.fails.store(false, Ordering::Relaxed);
        case.save(4);
        let (_, report) = case.copies.finish();
        assert_eq!((report.num_copied, report.failure), (2, None));
        assert!(report.num_failures >= 1);
    }

    #[test]
    fn the_end_waits_no_longer_than_a_copy_may_take() {
        let store = Fake::default();
        store.waits.store(true, Ordering::Relaxed);
        let case = Case::new(store, Duration::from_millis(300));
        case.save(1);
        let begun = Instant::now();
        let (_, report) = case.copies.finish();
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(report.num_copied, 0);
        assert!(report.failure.is_some());
    }

    #[test]
    fn the_place_of_another_run_is_left_alone() {
        let store = Fake::default();
        store.steps.lock().unwrap().extend([100, 200]);
        let case = Case::new(store, LONG);
        case.save(4);
        let store = case.store.clone();
        let (news, report) = case.copies.finish();
        assert_eq!((news.len(), report.num_copied), (1, 0));
        assert!(
            news[0]
                .as_ref()
                .unwrap_err()
                .to_string()
                .contains("found one of step 200")
        );
        assert_eq!(hal::lock(&store.steps).len(), 2);
    }
}
