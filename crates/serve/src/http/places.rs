//! How many sequences may run and wait.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

/// Places for sequences.
#[derive(Clone, Debug)]
pub(super) struct Places {
    most: usize,
    taken: Arc<AtomicUsize>,
}

/// Places of one request, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    count: usize,
    taken: Arc<AtomicUsize>,
}

impl Places {
    pub(super) fn new(most: usize) -> Places {
        Places {
            most,
            taken: Arc::default(),
        }
    }

    /// Takes `count` places, if as many are free.
    pub(super) fn take(&self, count: usize) -> Option<Taken> {
        let fits = |taken: usize| taken.checked_add(count).filter(|taken| *taken <= self.most);
        self.taken.fetch_update(SeqCst, SeqCst, fits).ok()?;
        Some(Taken {
            count,
            taken: self.taken.clone(),
        })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.count, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_return_when_a_request_ends() {
        let places = Places::new(3);
        let two = places.take(2).unwrap();
        assert!(places.take(2).is_none());
        let one = places.take(1).unwrap();
        drop(two);
        assert!(places.take(3).is_none());
        drop(one);
        assert!(places.take(3).is_some());
    }
}
