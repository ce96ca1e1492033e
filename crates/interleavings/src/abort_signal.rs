//! The signal that ends a job (`hal/src/abort.rs`).

use crate::AbortSignal;
use crate::sync::{Waits, explore};
use loom::thread;
use std::sync::Arc;

/// Of two ranks that fail at the same time, every rank reports the same one, with its own reason.
pub fn the_first_reason_stays() {
    explore(Waits::Notified, 3, || {
        let signal = Arc::new(AbortSignal::new());
        let ranks = [0, 1].map(|rank| {
            let signal = signal.clone();
            thread::spawn(move || {
                signal.raise(rank, format!("rank {rank} failed"));
                signal.check().unwrap_err().to_string()
            })
        });
        let before = signal.check().map_err(|error| error.to_string());
        let [one, other] = ranks.map(|rank| rank.join().unwrap());
        assert_eq!(one, other);
        assert!(before.is_ok() || before == Err(one));
    });
}
