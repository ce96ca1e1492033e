//! The scenario of a seed: a job that meets trouble, perhaps a power cut, and a second job that resumes it.

use crate::counts::Counts;
use crate::judge::{End, Judge, nobody_waits};
use crate::life::{self, Ended, Job, Record, Recorder};
use crate::network::Network;
use crate::plan::{Plan, Saves, Trouble, world_size};
use crate::power::disk::{self, CutDisk};
use crate::power::random::Random as DiskRandom;
use crate::reference::reference;
use crate::slow_disk::SlowDisk;
use checkpoint::Reader;
use hal::sync::{self, Fault, Halt, Random, Settings};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Time enough for any job of a scenario. A rank that waits for longer waits for ever.
const MOST: Duration = Duration::from_secs(4_000);

/// A scenario that held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The hash of all that its scheduler has decided.
    pub trace: u64,
    /// Whether this process can run another one.
    pub leaves_no_lock: bool,
}

struct Scenario<'a> {
    plan: Plan,
    root: tempfile::TempDir,
    local: tempfile::TempDir,
    disk: CutDisk,
    random: Random,
    held: Held,
    counts: &'a mut Counts,
}

/// Runs the scenario of a seed.
///
/// # Errors
/// What does not hold.
pub fn run(seed: u64, counts: &mut Counts) -> Result<Held, String> {
    let _ = reference();
    let mut random = Random::new(seed ^ 0xd15c_0000_0000_0000);
    let root = tempfile::tempdir().unwrap();
    let mut scenario = Scenario {
        plan: Plan::of(seed),
        disk: CutDisk::new(root.path(), DiskRandom(random.number())),
        root,
        local: tempfile::tempdir().unwrap(),
        random,
        held: Held {
            trace: 0,
            leaves_no_lock: true,
        },
        counts,
    };
    let plan = format!("{:?}", (scenario.plan.trouble, scenario.plan.saves));
    let grid = scenario.plan.config.parallel.grid.to_string();
    let run = scenario
        .first_life()
        .and_then(|first| scenario.second_life(&first));
    run.map_err(|fault| format!("{grid} {plan}: {fault}"))?;
    scenario.counts.add("scenarios", 1);
    Ok(scenario.held)
}

impl Scenario<'_> {
    fn dir(&self) -> PathBuf {
        self.root.path().join("checkpoints")
    }

    fn judge(&self) -> Judge<'_> {
        Judge {
            plan: &self.plan,
            dir: self.dir(),
        }
    }

    fn job(&mut self, is_first: bool) -> (Job, SlowDisk) {
        let plan = &self.plan;
        let longest = match plan.trouble {
            Trouble::SlowDisk(longest) if is_first => longest,
            _ => Duration::from_millis(5),
        };
        let disk = SlowDisk::new(self.disk.clone(), self.random.fork(), longest);
        let random = self.random.fork();
        let network = match plan.trouble {
            Trouble::SlowNetwork(longest) => Some(Network::new(random, longest, None)),
            Trouble::CutOff(rank, after) => {
                let longest = Duration::from_millis(1);
                Some(Network::new(random, longest, Some((rank, after))))
            }
            _ => None,
        };
        let ends = match plan.trouble {
            Trouble::Error(rank, step) => Some((rank, step, true)),
            Trouble::Panic(rank, step) => Some((rank, step, false)),
            _ => None,
        };
        let job = Job {
            config: if is_first {
                &plan.config
            } else {
                &plan.resumed
            }
            .clone(),
            saves: plan.saves,
            every: plan.every,
            dir: self.dir(),
            local: self.local.path().to_owned(),
            disk: Arc::new(disk.clone()),
            network: network.filter(|_| is_first),
            ends: ends.filter(|_| is_first),
        };
        (job, disk)
    }

    /// Runs a job in a simulation of its own, and fails if it waits for ever, panics where no rank does, or takes too long.
    fn simulate(
        &mut self,
        settings: Settings,
        job: impl FnOnce() -> Ended + Send + 'static,
    ) -> Result<(End, Duration, usize), String> {
        let settings = Settings {
            seed: self.plan.seed.wrapping_mul(4).wrapping_add(settings.seed),
            most_points: Some(20_000_000),
            most_time: Some(MOST),
            ..settings
        };
        let outcome = sync::run(settings, job);
        self.held.trace = (self.held.trace ^ outcome.trace).rotate_left(17);
        self.held.leaves_no_lock &= outcome.leaves_no_lock;
        self.counts.add("points", outcome.points);
        self.counts.add("virtual_seconds", outcome.time.as_secs());
        let end = match outcome.result {
            Ok(Ok(ended)) => Ok(ended),
            Ok(Err(panic)) => return Err(format!("the launcher panicked: {panic}")),
            Err(Halt::PowerCut) => Err(Halt::PowerCut),
            Err(Halt::Endless(threads)) if nobody_waits(&threads) => Err(Halt::Endless(threads)),
            Err(halt) => return Err(format!("{halt:?}")),
        };
        Ok((end, outcome.time, outcome.num_faults))
    }

    fn first_life(&mut self) -> Result<Record, String> {
        let mut settings = Settings::default();
        match self.plan.trouble {
            Trouble::Process { rank, after, kind } => settings.faults.push(Fault {
                process: rank + 1,
                after,
                kind,
            }),
            Trouble::SlowRank(rank) => settings.slow = Some(rank + 1),
            Trouble::FullDisk(after) => self.disk.restart(disk::Trouble::Full, after, None),
            Trouble::Refused(after) => self.disk.restart(disk::Trouble::Refused, after, None),
            _ => {}
        }
        let (job, disk) = self.job(true);
        let network = job.network.clone();
        let recorder = Recorder::default();
        let of_job = recorder.clone();
        let planned = settings.faults.len();
        let life = move || life::run(&job, &of_job);
        let (end, time, met) = self.simulate(settings, life)?;
        let has_cut = network.as_ref().is_none_or(|network| network.has_cut());
        let is_cut_off = matches!(self.plan.trouble, Trouble::CutOff(..));
        if met == planned && (has_cut || !is_cut_off) {
            self.counts.add(self.plan.trouble.name(), 1);
        }
        let record = recorder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        self.counts
            .add("failures", u64::from(matches!(end, Ok(Err(_)))));
        let judge = self.judge();
        judge.ended(&end, &record)?;
        if !matches!(end, Err(Halt::Endless(_))) {
            let of_network = network.map_or(Duration::ZERO, |network| network.spent());
            judge.time(time, disk.spent() + of_network)?;
        }
        if matches!(end, Err(Halt::PowerCut)) || self.plan.is_cut {
            self.cut();
        }
        self.disk.restart(disk::Trouble::None, 0, None);
        Ok(record)
    }

    /// The power goes, and comes back.
    fn cut(&mut self) {
        let left = tempfile::tempdir().unwrap();
        self.disk.after_cut(left.path());
        self.counts.add("power_cuts", 1);
        self.disk = CutDisk::new(left.path(), DiskRandom(self.random.number()));
        self.root = left;
    }

    fn second_life(&mut self, first: &Record) -> Result<(), String> {
        let settings = |seed| Settings {
            seed,
            ..Settings::default()
        };
        let (job, _) = self.job(false);
        if job.saves == Saves::BehindAndLocal {
            let recovery = move || life::recover_local(&job);
            self.succeed("recovery of local checkpoints", settings(1), recovery)?;
        }
        // Recovery writes past the simulated disk.
        self.disk = CutDisk::new(self.root.path(), DiskRandom(self.random.number()));
        let (job, _) = self.job(false);
        let newest = Reader::open(&job.dir).map_or(0, |reader| reader.step());
        let recorder = Recorder::default();
        let of_job = recorder.clone();
        let resumed = move || life::run(&job, &of_job);
        self.succeed("the resumed job", settings(2), resumed)?;
        let record = recorder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let begun = record.begun_at.ok_or("the resumed job has no step")?;
        let saved = first.saved.iter().copied().max().unwrap_or(0);
        if begun != newest || begun < saved {
            return Err(format!(
                "it resumed at {begun}, the newest is {newest}, saved was {saved}"
            ));
        }
        self.judge().steps(&record)?;
        self.counts.add("resumed", u64::from(begun > 0));
        self.judge().bits()
    }

    fn succeed(
        &mut self,
        what: &str,
        settings: Settings,
        job: impl FnOnce() -> Ended + Send + 'static,
    ) -> Result<(), String> {
        match self.simulate(settings, job)?.0 {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(format!("{what} failed: {}", failure.report())),
            Err(halt) => Err(format!("{what}: {halt:?}")),
        }
    }
}

/// What a seed means, in words.
pub fn describe(seed: u64) -> String {
    let plan = Plan::of(seed);
    let ranks = world_size(&plan.config);
    let [first, second] =
        [&plan.config, &plan.resumed].map(|config| config.parallel.grid.to_string());
    format!(
        "{ranks} ranks, {first} then {second}, {:?}, {:?}",
        plan.saves, plan.trouble
    )
}
