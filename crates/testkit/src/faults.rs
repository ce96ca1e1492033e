//! Faults at random: how many, which, and what digests say of them.

use std::path::Path;
use train::{digest::StepDigest, metrics::LineWriter};

/// Numbers that look random, the same ones for each seed.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The next number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// How many faults `FASCICLE_FAULTS` asks for, `count` if it does not, and the numbers from which they follow: those of
/// `FASCICLE_FAULTS_SEED`, or else of `seed`. `variable` reads the environment. Prints both.
///
/// # Panics
/// If one of the variables is not a number.
pub fn asked(variable: impl Fn(&str) -> Option<String>, count: u64, seed: u64) -> (u64, Random) {
    let given = |name: &str, otherwise: u64| match variable(name) {
        Some(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}: found `{text}`, needs a number")),
        None => otherwise,
    };
    let count = given("FASCICLE_FAULTS", count);
    let seed = given("FASCICLE_FAULTS_SEED", seed);
    println!("{count} faults with FASCICLE_FAULTS_SEED={seed}");
    (count, Random(seed))
}

/// Writes the digests of a run to that folder, as the run does.
///
/// # Panics
/// If they cannot be written.
pub fn write_digests(folder: &Path, digests: &[StepDigest]) {
    let path = folder.join("digests.jsonl");
    let written = LineWriter::create(&path)
        .and_then(|mut lines| digests.iter().try_for_each(|digest| lines.write(digest)));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
