//! What a test reports of its scenarios.

use std::fmt;

#[derive(Debug, Default)]
pub struct Counts {
    pub scenarios: u64,
    pub operations: u64,
    pub cuts: u64,
    pub troubles: u64,
    pub verified: u64,
    pub flipped: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.scenarios += other.scenarios;
        self.operations += other.operations;
        self.cuts += other.cuts;
        self.troubles += other.troubles;
        self.verified += other.verified;
        self.flipped += other.flipped;
    }
}

/// A line of `name=count`, which ci/campaign.sh reads.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            scenarios,
            operations,
            cuts,
            troubles,
            verified,
            flipped,
        } = self;
        write!(
            f,
            "scenarios={scenarios} operations={operations} cuts={cuts} troubles={troubles} "
        )?;
        write!(f, "verified={verified} flipped={flipped}")
    }
}
