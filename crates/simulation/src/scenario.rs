//! The scenario of a seed: a job that meets trouble, perhaps a power cut, and a second job that resumes it.

use crate::counts::Counts;
use crate::life::{self, Job, Record, Recorder};
use crate::network::Network;
use crate::plan::{Plan, Saves, TIMEOUT, Trouble, world_size};
use crate::power::disk::{self, CutDisk};
use crate::power::random::Random as DiskRandom;
use crate::reference::{digest_of, reference};
use crate::slow_disk::SlowDisk;
use bootstrap::{Failure, FailureKind};
use checkpoint::Reader;
use hal::sync::{self, Fault, FaultKind, Halt, Random, Settings};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use train::Error;

/// The longest that a job takes in which nothing goes wrong and the disk takes no time.
const USUAL: Duration = Duration::from_secs(2);

/// What the launcher adds to the timeout for ranks to end.
const GRACE: Duration = Duration::from_secs(5);

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

/// How a life has ended.
type End = Result<Result<(), Failure<Error>>, Halt>;

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
        job: impl FnOnce() -> Result<(), Failure<Error>> + Send + 'static,
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
        let life = move || life::run(&job, &of_job).map(drop);
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
        self.judge(&end, &record)?;
        if !matches!(end, Err(Halt::Endless(_))) {
            let of_network = network.map_or(Duration::ZERO, |network| network.spent());
            self.judge_time(time, disk.spent() + of_network)?;
        }
        if matches!(end, Err(Halt::PowerCut)) || self.plan.is_cut {
            self.cut();
        }
        self.disk.restart(disk::Trouble::None, 0, None);
        Ok(record)
    }

    /// Only of a rank that is silent does nobody know before the timeout, and it is given up after the grace period.
    fn judge_time(&mut self, time: Duration, of_others: Duration) -> Result<(), String> {
        let silence = TIMEOUT * 2 + TIMEOUT + GRACE;
        let more = match self.plan.trouble {
            Trouble::Process { kind, .. } => match kind {
                FaultKind::Kill => silence,
                FaultKind::Stop(stopped) if stopped > TIMEOUT => silence + stopped,
                FaultKind::Stop(stopped) => stopped,
                FaultKind::Jump(_) | FaultKind::PowerCut => Duration::ZERO,
            },
            Trouble::CutOff(..) => silence,
            _ => Duration::ZERO,
        };
        let most = USUAL + of_others + more;
        match time <= most {
            true => Ok(()),
            false => Err(format!("it took {time:?}, more than {most:?}")),
        }
    }

    fn judge(&mut self, end: &End, record: &Record) -> Result<(), String> {
        self.judge_steps(record)?;
        let trouble = self.plan.trouble;
        let failure = match end {
            Err(_) => return Ok(()),
            Ok(Ok(())) => return self.judge_success(record),
            Ok(Err(failure)) => failure,
        };
        self.counts.add("failures", 1);
        let report = failure.report();
        let is_right = match trouble {
            Trouble::None
            | Trouble::SlowRank(_)
            | Trouble::SlowDisk(_)
            | Trouble::SlowNetwork(_) => false,
            // A cut link looks the same from both ends.
            Trouble::CutOff(rank, _) => {
                report.contains("waited") && (failure.rank == rank || waits_for(failure, rank))
            }
            Trouble::Process { rank, kind, .. } => match kind {
                FaultKind::Kill => failure.others.stuck == [rank] || names_itself(failure, rank),
                FaultKind::Stop(time) => {
                    time > TIMEOUT && !matches!(failure.kind, FailureKind::Panic(_))
                }
                FaultKind::Jump(_) | FaultKind::PowerCut => false,
            },
            Trouble::FullDisk(_) | Trouble::Refused(_) => {
                matches!(
                    failure.error(),
                    Some(Error::Checkpoint(_) | Error::Peer { .. })
                )
            }
            Trouble::Error(rank, _) => failure.rank == rank && report.contains("planned"),
            Trouble::Panic(rank, _) => {
                failure.rank == rank && matches!(failure.kind, FailureKind::Panic(_))
            }
        };
        match is_right {
            true => Ok(()),
            false => Err(format!("the report does not fit: {report}")),
        }
    }

    fn judge_success(&self, record: &Record) -> Result<(), String> {
        if matches!(self.plan.trouble, Trouble::Error(..) | Trouble::Panic(..)) {
            return Err("the job succeeded although a rank failed".into());
        }
        let steps = self.plan.config.training.steps;
        if record.losses.last().map(|(step, _)| step + 1) != Some(steps) {
            return Err(format!("it succeeded without its last step: {record:?}"));
        }
        match digest_of(&self.dir())? == reference().digest {
            true => Ok(()),
            false => Err("the last checkpoint has other bits than that of one rank".into()),
        }
    }

    /// Each step once, in order, with the loss of one rank.
    fn judge_steps(&self, record: &Record) -> Result<(), String> {
        let begun = record.begun_at.unwrap_or(0);
        for (expected, (step, loss)) in (begun..).zip(&record.losses) {
            if *step != expected || reference().losses[*step as usize] != *loss {
                return Err(format!("steps and losses are {record:?}"));
            }
        }
        Ok(())
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
        let resumed = move || life::run(&job, &of_job).map(drop);
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
        self.judge_steps(&record)?;
        self.counts.add("resumed", u64::from(begun > 0));
        match digest_of(&self.dir())? == reference().digest {
            true => Ok(()),
            false => Err("the resumed run has other bits than one rank".into()),
        }
    }

    fn succeed(
        &mut self,
        what: &str,
        settings: Settings,
        job: impl FnOnce() -> Result<(), Failure<Error>> + Send + 'static,
    ) -> Result<(), String> {
        match self.simulate(settings, job)?.0 {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(format!("{what} failed: {}", failure.report())),
            Err(halt) => Err(format!("{what}: {halt:?}")),
        }
    }
}

/// Whether of a job only the launcher is left, and a rank that died when no other needed it any more.
fn nobody_waits(threads: &str) -> bool {
    let mut others = threads
        .split("), ")
        .filter(|thread| !thread.starts_with("the launcher"));
    others.all(|thread| thread.trim_end_matches(')').ends_with(", dead"))
}

/// Whether it is the rank itself that failed.
fn names_itself(failure: &Failure<Error>, rank: usize) -> bool {
    failure.rank == rank && failure.others.stuck.is_empty()
}

/// Whether the failure is that others have waited for this rank.
fn waits_for(failure: &Failure<Error>, rank: usize) -> bool {
    let report = failure.report();
    let mut lists = report.split(" s for rank").skip(1);
    lists.any(|list| {
        let list = list.lines().next().unwrap_or_default();
        let mut named = list.split(|c: char| !c.is_ascii_digit());
        named.any(|number| number == rank.to_string())
    })
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
