//! Where two runs part.

use super::{FORWARD, GRADIENTS, Phase, StepDigest, TensorDigest};
use crate::{
    Result,
    metrics::{self, Record, Stepped},
};
use hal::error::{Counted, Grouped};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// What two runs recorded, compared. Displays as a sentence for people and serialises for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The runs' folders.
    pub runs: [PathBuf; 2],
    /// Number of steps of which both have a record.
    pub num_records: usize,
    /// Number of steps of which both have digests.
    pub num_digests: usize,
    /// The first step whose losses or norms of the gradients differ, with these two numbers of each run.
    pub record: Option<RecordDiff>,
    /// The first step whose digests differ.
    pub digest: Option<DigestDiff>,
}

/// The numbers of a step that differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordDiff {
    /// The step, counted from 1.
    pub step: u64,
    /// The losses.
    pub losses: [f64; 2],
    /// The norms of the gradients.
    pub gradient_norms: [f64; 2],
}

/// The first tensor that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DigestDiff {
    /// The step, counted from 1.
    pub step: u64,
    /// The last step before it whose digests are equal.
    pub last_equal: Option<u64>,
    /// The phase.
    pub phase: String,
    /// The tensor that this phase computes first: in backward, that of the last layer.
    pub tensor: String,
    /// Blocks of the tensor that differ, of [`BLOCKS`](parallel::digest::BLOCKS).
    pub num_blocks: usize,
    /// Number of other tensors of the phase that differ.
    pub num_others: usize,
    /// The grids.
    pub grids: [String; 2],
    /// For each run, the ranks whose elements these blocks have.
    pub ranks: [Vec<usize>; 2],
}

/// Compares `metrics.jsonl` and `digests.jsonl` of two runs, step by step.
///
/// # Errors
/// [`Error::Metrics`](crate::Error::Metrics) if records cannot be read; [`Error::Setting`](crate::Error::Setting) for what is no
/// directory, and if the runs have no step in common.
pub fn diff(a: &Path, b: &Path) -> Result<Comparison> {
    if let Some(other) = [a, b].into_iter().find(|run| !run.is_dir()) {
        let needed = "the directory of a run";
        return Err(crate::Error::setting("diff", other.display(), needed));
    }
    let records = [
        by_step::<Record>(a, "metrics.jsonl")?,
        by_step(b, "metrics.jsonl")?,
    ];
    let digests = [
        by_step::<StepDigest>(a, "digests.jsonl")?,
        by_step(b, "digests.jsonl")?,
    ];
    let (common_records, common_digests) = (common(&records), common(&digests));
    if common_records.is_empty() && common_digests.is_empty() {
        let found = format!("{} and {} with no step in common", a.display(), b.display());
        return Err(crate::Error::setting(
            "diff",
            found,
            "runs with records of the same steps",
        ));
    }
    let record = common_records.iter().find_map(|step| {
        let of_run = |run: usize| &records[run][step];
        let numbers = |number: fn(&Record) -> f64| [0, 1].map(|run| number(of_run(run)));
        let found = RecordDiff {
            step: *step,
            losses: numbers(|record| record.loss),
            gradient_norms: numbers(|record| record.grad_norm),
        };
        let differ = |[a, b]: [f64; 2]| a.to_bits() != b.to_bits();
        (differ(found.losses) || differ(found.gradient_norms)).then_some(found)
    });
    let mut last_equal = None;
    let digest = common_digests.iter().find_map(|step| {
        let found = first([&digests[0][step], &digests[1][step]], last_equal);
        last_equal = Some(*step);
        found
    });
    Ok(Comparison {
        runs: [a.to_owned(), b.to_owned()],
        num_records: common_records.len(),
        num_digests: common_digests.len(),
        record,
        digest,
    })
}

// A run without this file has no such lines.
fn by_step<T: Stepped>(run: &Path, file: &str) -> Result<BTreeMap<u64, T>> {
    let lines = match metrics::read::<T>(&run.join(file)) {
        Err(metrics::Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Vec::new()
        }
        lines => lines?,
    };
    Ok(lines.into_iter().map(|line| (line.step(), line)).collect())
}

fn common<T>([a, b]: &[BTreeMap<u64, T>; 2]) -> BTreeSet<u64> {
    let in_both = a.keys().filter(|step| b.contains_key(step));
    in_both.copied().collect()
}

fn first(runs: [&StepDigest; 2], last_equal: Option<u64>) -> Option<DigestDiff> {
    let [a, b] = runs;
    a.phases.iter().find_map(|phase| {
        // Recorded steps show no forward.
        let other = b.phase(&phase.name)?;
        let differing = differing(phase, other);
        let (tensor, of_a, of_b) = match phase.name.as_str() {
            GRADIENTS => differing.last()?,
            _ => differing.first()?,
        };
        let blocks: Vec<usize> = match (of_a, of_b) {
            (Some(a), Some(b)) => (0..a.sums.len())
                .filter(|block| a.sums[*block] != b.sums[*block])
                .collect(),
            _ => Vec::new(),
        };
        let ranks = |tensor: Option<&TensorDigest>| {
            let tensor = tensor?;
            let of_blocks = blocks.iter().flat_map(|block| tensor.ranks_of(*block));
            let ranks: BTreeSet<usize> = of_blocks.copied().collect();
            Some(ranks.into_iter().collect())
        };
        Some(DigestDiff {
            step: a.step,
            last_equal,
            phase: phase.name.clone(),
            tensor: (*tensor).to_owned(),
            num_blocks: blocks.len(),
            num_others: differing.len() - 1,
            grids: [a.grid.clone(), b.grid.clone()],
            ranks: [*of_a, *of_b].map(|tensor| ranks(tensor).unwrap_or_default()),
        })
    })
}

type Differing<'a> = (&'a str, Option<&'a TensorDigest>, Option<&'a TensorDigest>);

// The tensors of which only one phase has one, and those whose sums differ.
fn differing<'a>(a: &'a Phase, b: &'a Phase) -> Vec<Differing<'a>> {
    let names = |phase: &'a Phase| -> BTreeMap<&'a str, &'a TensorDigest> {
        let tensors = phase.tensors.iter();
        tensors
            .map(|tensor| (tensor.name.as_str(), tensor))
            .collect()
    };
    let (in_a, in_b) = (names(a), names(b));
    let only_b = b.tensors.iter().map(|tensor| tensor.name.as_str());
    let all = a.tensors.iter().map(|tensor| tensor.name.as_str());
    all.chain(only_b.filter(|name| !in_a.contains_key(name)))
        .map(|name| (name, in_a.get(name).copied(), in_b.get(name).copied()))
        .filter(|(_, a, b)| a.map(|tensor| tensor.sums) != b.map(|tensor| tensor.sums))
        .collect()
}

impl Comparison {
    /// Whether nothing differs.
    pub fn is_equal(&self) -> bool {
        self.record.is_none() && self.digest.is_none()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (records, digests) = (self.num_records, self.num_digests);
        if self.is_equal() {
            return write!(
                f,
                "equal: losses and norms of {}, digests of {}",
                Counted(records, "step"),
                Grouped(digests as u64)
            );
        }
        if let Some(found) = &self.record {
            let [a, b] = found.losses;
            let [norm_a, norm_b] = found.gradient_norms;
            let step = found.step;
            write!(
                f,
                "step {} is the first whose loss or gradient norm differs: losses {a} and {b}, norms {norm_a} and {norm_b}",
                Grouped(step)
            )?;
        } else {
            write!(
                f,
                "losses and norms of {} are equal",
                Counted(records, "step")
            )?;
        }
        match &self.digest {
            Some(found) => write!(f, "\n{found}"),
            None => write!(f, "\nthe digests of {} are equal", Counted(digests, "step")),
        }?;
        let earlier = self.digest.as_ref().and_then(|found| found.last_equal);
        let first = [
            self.record.as_ref().map(|found| found.step),
            self.digest.as_ref().map(|found| found.step),
        ];
        match first.into_iter().flatten().min() {
            Some(first) if earlier.unwrap_or(0) + 1 < first => write!(
                f,
                "\nto find the step, resume both from a checkpoint of step {} or before with training.digest_every = 1",
                Grouped(first - 1)
            ),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for DigestDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DigestDiff {
            step,
            phase,
            tensor,
            num_blocks,
            num_others,
            ..
        } = self;
        let what = if phase == FORWARD { "output" } else { "tensor" };
        write!(
            f,
            "step {} is the first whose digests differ: {phase}, {what} `{tensor}`",
            Grouped(*step)
        )?;
        match num_blocks {
            0 => write!(f, ", which one run does not have")?,
            blocks => write!(f, ", in {blocks} of its blocks")?,
        }
        for (run, (ranks, grid)) in ["A", "B"].iter().zip(self.ranks.iter().zip(&self.grids)) {
            let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
            let of = if ranks.len() == 1 { "rank" } else { "ranks" };
            write!(
                f,
                "; run {run} ({grid}) holds it on {of} {}",
                ranks.join(", ")
            )?;
        }
        match num_others {
            0 => Ok(()),
            others => write!(f, "; {others} more of this phase differ"),
        }
    }
}
