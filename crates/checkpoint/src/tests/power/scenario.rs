//! A run of writers on one disk, whose trouble and power cuts a seed decides, and what must hold after each.

use super::{
    counts::Counts,
    disk::{CutDisk, Operation, Trouble},
    planted::{Plant, Planted},
    random::Random,
    state::{content_of, flip_bits, loss, save, temporary},
};
use crate::{FrozenFile, Reader, Retention, disk::Disk, folder::complete, prune, tests::names};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// A step of which a checkpoint was begun.
#[derive(Debug, Default)]
struct Begun {
    /// What it may hold: the last that was committed, and those of which nobody knows.
    contents: BTreeSet<u64>,
    /// Whether it must be there: it was committed, and is retained.
    is_due: bool,
}

pub struct Scenario<'a> {
    random: Random,
    plant: Plant,
    root: tempfile::TempDir,
    /// The folder of checkpoints below the root.
    below: &'static str,
    disk: CutDisk,
    retention: Retention,
    begun: BTreeMap<u64, Begun>,
    next_content: u64,
    has_committed: bool,
    /// Of the process that writes.
    frozen_files: Vec<FrozenFile>,
    counts: &'a mut Counts,
}

/// Runs the scenario of a seed.
pub fn run(seed: u64, plant: Plant, counts: &mut Counts) -> Result<(), String> {
    let mut random = Random(seed);
    let root = temporary();
    let disk = CutDisk::new(root.path(), random.fork());
    let retention = Retention {
        newest: 1 + random.below(3),
        every: random.one_of(&[0, 2, 3]),
        best: random.below(2) == 0,
    };
    let below = random.one_of(&["checkpoints", "run/checkpoints"]);
    let mut scenario = Scenario {
        random,
        plant,
        root,
        below,
        disk,
        retention,
        begun: BTreeMap::new(),
        next_content: 1,
        has_committed: false,
        frozen_files: Vec::new(),
        counts,
    };
    for _ in 0..2 + scenario.random.below(7) {
        scenario.round()?;
    }
    scenario.last_round()
}

impl Scenario<'_> {
    fn dir(&self) -> PathBuf {
        self.root.path().join(self.below)
    }

    /// Another process writes, meets trouble or not, and the machine may lose its power after.
    fn round(&mut self) -> Result<(), String> {
        let trouble = self.random.one_of(&[
            Trouble::None,
            Trouble::Dies,
            Trouble::Dies,
            Trouble::Refused,
            Trouble::Full,
        ]);
        // Before the names are synced, most can be lost.
        let (only, within) = self
            .random
            .one_of(&[(None, 40), (Some(Operation::SyncsNames), 5)]);
        let after = self.random.below(within);
        self.disk.restart(trouble, after, only);
        self.frozen_files.clear();
        if self.dir().exists() && self.random.below(5) == 0 {
            // As a process would whose settings keep fewer.
            self.prune().ok();
        }
        let step = self.next_step();
        for step in [step, step + 1] {
            if self.save(step).is_ok() {
                self.prune().ok();
            }
            self.observe()?;
        }
        self.counts.troubles += u64::from(self.disk.is_in_trouble());
        match self.random.below(3) {
            0 => {}
            _ => self.cut(),
        }
        self.observe().map(drop)
    }

    /// The step after the newest, one that is there already, or one from which a process had not returned.
    fn next_step(&mut self) -> u64 {
        let newest = self.begun.keys().max().copied().unwrap_or(0);
        match self.random.below(3) {
            0 => newest.max(1),
            1 => newest + 1,
            _ => (newest + 1)
                .saturating_sub(self.random.below(3) as u64)
                .max(1),
        }
    }

    fn planted(&self) -> Arc<dyn Disk> {
        Arc::new(Planted {
            disk: self.disk.clone(),
            plant: self.plant,
            owed: Mutex::default(),
        })
    }

    fn save(&mut self, step: u64) -> crate::Result<()> {
        let content = self.next_content;
        self.next_content += 1;
        self.begun.entry(step).or_default().contents.insert(content);
        let (disk, dir) = (self.planted(), self.dir());
        let frozen_files = &mut self.frozen_files;
        save(&disk, (&dir, step), content, frozen_files, &mut self.random)?;
        self.has_committed = true;
        let committed = Begun {
            contents: BTreeSet::from([content]),
            is_due: true,
        };
        self.begun.insert(step, committed);
        Ok(())
    }

    fn prune(&mut self) -> crate::Result<()> {
        let kept = self.kept();
        for (step, begun) in &mut self.begun {
            begun.is_due &= kept.contains(step);
        }
        prune(&*self.planted(), &self.dir(), &self.retention)
    }

    /// The steps that the retention names, computed another way than by it.
    fn kept(&self) -> BTreeSet<u64> {
        let steps: Vec<u64> = complete(&self.dir())
            .unwrap_or_default()
            .into_iter()
            .map(|(step, _)| step)
            .collect();
        let losses = complete(&self.dir()).unwrap_or_default().into_iter();
        let losses = losses.filter_map(|(step, path)| Some((step, loss(content_of(&path).ok()?)?)));
        let mut best: Option<(u64, f64)> = None;
        for (step, loss) in losses.filter(|_| self.retention.best) {
            if best.is_none_or(|(_, lowest)| loss < lowest) {
                best = Some((step, loss));
            }
        }
        let first = steps.len().saturating_sub(self.retention.newest);
        let every = self.retention.every;
        let regular = steps.iter().filter(|step| every > 0 && **step % every == 0);
        steps[first..]
            .iter()
            .chain(regular)
            .copied()
            .chain(best.map(|(step, _)| step))
            .collect()
    }

    /// The power goes, and comes back.
    fn cut(&mut self) {
        let left = temporary();
        self.disk.after_cut(left.path());
        self.counts.cuts += 1;
        self.counts.operations += self.disk.num_operations();
        self.disk = CutDisk::new(left.path(), self.random.fork());
        self.root = left;
    }

    /// Checks all that a reader can see.
    fn observe(&mut self) -> Result<BTreeMap<u64, u64>, String> {
        let found = match self.dir().exists() {
            true => complete(&self.dir()).map_err(|error| error.to_string())?,
            false => Vec::new(),
        };
        let mut contents = BTreeMap::new();
        for (step, path) in found {
            let content = content_of(&path)?;
            self.counts.verified += 1;
            let may = self
                .begun
                .get(&step)
                .is_some_and(|begun| begun.contents.contains(&content));
            if !may {
                return Err(format!("step {step} holds {content}, which it must not"));
            }
            contents.insert(step, content);
        }
        let lost = self
            .begun
            .iter()
            .find(|(step, begun)| begun.is_due && !contents.contains_key(step));
        if let Some((step, _)) = lost {
            return Err(format!("step {step} is lost; left are {contents:?}"));
        }
        if self.has_committed && contents.is_empty() {
            return Err("no checkpoint is left".into());
        }
        if let Some(newest) = contents.keys().max() {
            let opened = Reader::open(self.dir())
                .map_err(|error| error.to_string())?
                .step();
            if opened != *newest {
                return Err(format!("step {opened} is opened, the newest is {newest}"));
            }
        }
        Ok(contents)
    }

    /// A process without trouble succeeds, and leaves what is retained and nothing else, also after a cut.
    fn last_round(&mut self) -> Result<(), String> {
        self.disk.restart(Trouble::None, 0, None);
        let step = self.begun.keys().max().map_or(1, |newest| newest + 1);
        self.save(step)
            .map_err(|error| format!("the next writer fails: {error}"))?;
        let kept = self.kept();
        self.prune()
            .map_err(|error| format!("it cannot prune: {error}"))?;
        let wanted: Vec<String> = kept.iter().map(|step| format!("step-{step:08}")).collect();
        let found = names(&self.dir());
        if found != wanted {
            return Err(format!("left are {found:?}, retained are {wanted:?}"));
        }
        let before = self.observe()?;
        self.cut();
        let after = self.observe()?;
        let changed = before
            .iter()
            .find(|(step, content)| after.get(step) != Some(content));
        if let Some((step, content)) = changed {
            return Err(format!(
                "step {step} does not hold {content} after the last cut"
            ));
        }
        self.counts.scenarios += 1;
        self.counts.operations += self.disk.num_operations();
        let newest = complete(&self.dir()).unwrap().pop().unwrap();
        self.counts.flipped += flip_bits(&newest.1, &mut self.random)?;
        Ok(())
    }
}
