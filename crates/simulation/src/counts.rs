//! What simulations have done.

use std::collections::BTreeMap;
use std::fmt;

/// Numbers by name.
#[derive(Clone, Debug, Default)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    /// Counts more of something.
    pub fn add(&mut self, what: &'static str, more: u64) {
        *self.0.entry(what).or_default() += more;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.iter().map(|(name, count)| format!("{name}={count}"));
        f.write_str(&counts.collect::<Vec<_>>().join(" "))
    }
}
