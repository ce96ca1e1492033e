//! Locks that outlive a panic.
//!
//! A rank that panics while it holds a lock must not take the others' report of that panic with it. So every lock in
//! Fascicle is taken through this module, poisoned or not. In return, what a mutex guards must be consistent after each
//! statement that changes it.

use crate::sync::{Condvar, Mutex, MutexGuard};
use std::{sync::PoisonError, time::Duration};

/// Locks `mutex`, poisoned or not.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the value out of `mutex`, poisoned or not.
pub fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Waits on `changed` until it is notified, at most for `limit`; it may also wake without either.
pub fn wait_timeout<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    limit: Duration,
) -> MutexGuard<'a, T> {
    changed
        .wait_timeout(guard, limit)
        .unwrap_or_else(PoisonError::into_inner)
        .0
}

/// Waits on `changed` while `waits` holds of the guarded value, at most for `limit`.
pub fn wait_timeout_while<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    limit: Duration,
    waits: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    changed
        .wait_timeout_while(guard, limit, waits)
        .unwrap_or_else(PoisonError::into_inner)
        .0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poisoned_lock_still_opens() {
        let mutex = Mutex::new(1);
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let mut guard = lock(&mutex);
                *guard = 2;
                panic!("on purpose");
            });
            holder.join().unwrap_err();
        });
        assert!(mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 2);
        let guard = wait_timeout(&Condvar::new(), lock(&mutex), Duration::from_millis(1));
        let waited = wait_timeout_while(&Condvar::new(), guard, Duration::from_millis(1), |_| true);
        assert_eq!(*waited, 2);
        drop(waited);
        assert_eq!(into_inner(mutex), 2);
    }
}
