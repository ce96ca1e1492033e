//! Atomic integers and flags. Each access is a point at which another thread may run, and all are sequentially consistent:
//! weaker orders are what `crates/interleavings` explores.

use super::turn;
pub use std::sync::atomic::{Ordering, fence};

macro_rules! atomic {
    ($name:ident, $value:ty, $($change:ident)*) => {
        /// The standard library's.
        #[derive(Default)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// With this value.
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            /// The value.
            pub fn load(&self, order: Ordering) -> $value {
                turn::point();
                self.0.load(order)
            }

            /// Replaces the value.
            pub fn store(&self, value: $value, order: Ordering) {
                turn::point();
                self.0.store(value, order);
            }

            /// Replaces the value, and returns the one before.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                turn::point();
                self.0.swap(value, order)
            }

            $(
                /// Changes the value, and returns the one before.
                pub fn $change(&self, value: $value, order: Ordering) -> $value {
                    turn::point();
                    self.0.$change(value, order)
                }
            )*
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

atomic!(AtomicBool, bool, fetch_or fetch_and);
atomic!(AtomicU64, u64, fetch_add fetch_sub fetch_max);
atomic!(AtomicUsize, usize, fetch_add fetch_sub fetch_max);
