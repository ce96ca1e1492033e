//! The supervisor of a run.

use super::{
    blame,
    child::{self, Ended, Voice, Wish},
    hosts::{self, Host},
    journal::{Event, Journal},
    line::Line,
    policy::{Asked, Gained, Next, Policy},
    roster::{HostList, Roster},
    slow::{Reports, Slow},
};
use crate::{
    failure::{Failure, Outcome},
    numbers::counted,
    output, recovery,
};
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};
use train::{Stop, checkpoint::Reader, config::TrainingConfig, run::BestValidation};

/// The numbers of ranks with which the command can be started.
pub(crate) enum Size {
    /// The command states it.
    Fixed(usize),
    /// The most ranks that fit the model, up to a number.
    UpTo(Box<dyn Fn(usize) -> Option<usize>>),
}

impl Size {
    /// The number of ranks to start, where there is room for `available`.
    fn of(&self, available: usize) -> Option<usize> {
        match self {
            Size::Fixed(ranks) => Some(*ranks).filter(|ranks| *ranks <= available),
            Size::UpTo(most) => most(available),
        }
    }
}

/// What a supervisor puts up with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Failures in a row without a new checkpoint.
    pub(crate) restarts: u32,
    /// Time in which the run's folder must change.
    pub(crate) stall: Duration,
    /// Time in which a host must answer.
    pub(crate) probe: Duration,
    /// The fraction of the median below which a host is too slow, if they are to be measured.
    pub(crate) screen: Option<f64>,
    /// Whether a host that the run finds slow is left out.
    pub(crate) exclude_slow: bool,
}

/// Restarts a run until it is complete.
pub(crate) struct Supervisor {
    line: Line,
    size: Size,
    limits: Limits,
    run: Run,
    roster: Roster,
    journal: Journal,
}

/// The run that the command trains.
pub(crate) struct Run {
    /// Its folder.
    pub(crate) dir: PathBuf,
    /// What says when it is complete.
    pub(crate) training: TrainingConfig,
}

/// How a start ended.
struct Start {
    ended: Ended,
    asked: Asked,
    // The host for which it was asked to end.
    slow: Option<Slow>,
}

/// Time between two looks at the list of hosts and the run's folder, while the command runs.
const WATCH: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Supervises a run.
    ///
    /// # Errors
    /// That of the list of hosts.
    pub(crate) fn new(
        line: Line,
        list: HostList,
        size: Size,
        limits: Limits,
        run: Run,
    ) -> Outcome<Supervisor> {
        Ok(Supervisor {
            line,
            size,
            limits,
            roster: Roster::new(list)?,
            journal: Journal::new(&run.dir),
            run,
        })
    }

    /// Starts the command until the run is complete, is asked to `stop`, or cannot continue.
    ///
    /// # Errors
    /// [`Failure::Stopped`]; [`Failure::Run`] with the report of the last start if nothing is gained by another, and if no host is
    /// left.
    pub(crate) fn run(mut self, stop: &Stop) -> Outcome {
        let mut policy = Policy::new(self.limits.restarts);
        let mut step = self.step();
        if self.limits.screen.is_some() {
            self.screen(stop);
        }
        while !stop.asked() {
            let hosts = self.chosen()?;
            self.journal.add(Event::Start {
                step,
                hosts: &hosts,
                ranks: self.line.varies().then(|| hosts::num_ranks(&hosts)),
            });
            let Start { ended, asked, slow } = self.start(&hosts, step, stop)?;
            let before = std::mem::replace(&mut step, self.step());
            let host = blame::host(&ended.report, &hosts);
            let said = ended.reason();
            self.journal.add(Event::End {
                step,
                how: &ended.words(),
                said,
                host,
            });
            let gained = match step {
                Some(_) if self.is_complete() => Gained::All,
                _ if step > before => Gained::Checkpoint,
                _ => Gained::Nothing,
            };
            match policy.after(&ended, asked, gained, host) {
                Next::Done => return Ok(()),
                Next::Stopped => break,
                Next::GiveUp(why) => return Err(self.given_up(&ended, said, &why)),
                Next::Again { pause, without } => {
                    let at = recovery::beginning(step);
                    output::note(&format!(
                        "supervise: ended with {}; starts again {at}",
                        ended.words()
                    ));
                    rest(pause, stop);
                    self.roster.renew();
                    self.screen(stop);
                    if let Some(host) = without {
                        let why = "named by two failures in a row".into();
                        self.roster.leave_out(&host, why, false, &mut self.journal);
                    }
                    if let Some(Slow { host, why }) = slow {
                        self.roster.leave_out(&host, why, false, &mut self.journal);
                    }
                }
            }
        }
        Err(Failure::Stopped)
    }

    fn screen(&mut self, stop: &Stop) {
        self.roster
            .screen(&self.line, self.limits, stop, &mut self.journal);
    }

    fn given_up(&self, ended: &Ended, said: Option<&str>, why: &str) -> Failure {
        let said = said.map_or_else(String::new, |said| {
            format!("; the last said: {}", said.trim_start_matches("fascicle: "))
        });
        let (how, out) = (ended.words(), self.roster.out_in_words());
        let text = format!("supervise: ended with {how}: {why}{said}{out}");
        match ended.status == Some(i32::from(Failure::WRONG_USE)) {
            true => Failure::Usage(text),
            false => Failure::Run(text),
        }
    }

    // Runs the command once from the checkpoint of a step.
    fn start(&mut self, hosts: &[Host], step: Option<u64>, stop: &Stop) -> Outcome<Start> {
        let words = self.line.on(hosts, matches!(self.size, Size::UpTo(_)));
        let (run, roster, journal) = (&self.run.dir, &self.roster, &mut self.journal);
        let (size, stall, left) = (&self.size, self.limits.stall, roster.left());
        let mut reports = self
            .limits
            .exclude_slow
            .then(|| Reports::new(run, step.unwrap_or(0)));
        let mut slow = None;
        let (mut asked, mut looked) = (Asked::No, Instant::now());
        let (mut seen, mut changed) = (traces(run), Instant::now());
        let wish = || {
            if stop.asked() {
                asked = Asked::ToStop;
            }
            if looked.elapsed() >= WATCH {
                looked = Instant::now();
                journal.write();
                let now = traces(run);
                if now != seen {
                    (seen, changed) = (now, Instant::now());
                }
                if asked == Asked::No && roster.has_moved() {
                    output::note(
                        "supervise: the list of hosts has changed; the run stops after its step and continues on the new ones",
                    );
                    asked = Asked::ToMove;
                }
                let found = reports.as_mut().and_then(|reports| reports.slow(hosts));
                if let Some(found) = found.filter(|_| asked == Asked::No) {
                    let others = left.iter().filter(|host| host.name != found.host);
                    let room = hosts::num_ranks(&others.cloned().collect::<Vec<_>>());
                    if size.of(room).is_some() {
                        output::note(&format!(
                            "supervise: the run stops after its step and continues without {}: {}",
                            found.host, found.why
                        ));
                        (asked, slow) = (Asked::ToMove, Some(found));
                    } else {
                        output::note(&format!(
                            "supervise: {} stays, because the others have no room for the run: {}",
                            found.host, found.why
                        ));
                        reports = None;
                    }
                }
            }
            match asked {
                _ if changed.elapsed() > stall => Wish::Kill,
                Asked::No => Wish::GoOn,
                _ => Wish::Stop,
            }
        };
        let ended = child::run(&words, Voice::Aloud, wish)
            .map_err(|error| Failure::usage(format!("supervise: {}: {error}", words[0])))?;
        if changed.elapsed() > stall {
            output::note(&format!(
                "supervise: nothing changed in {} for {} s, so the command was ended",
                run.display(),
                stall.as_secs_f64()
            ));
        }
        Ok(Start { ended, asked, slow })
    }

    // The hosts of the next start, with their ranks.
    fn chosen(&self) -> Outcome<Vec<Host>> {
        if !self.line.varies() {
            return Ok(Vec::new());
        }
        let left = self.roster.left();
        let available = hosts::num_ranks(&left);
        let ranks = self.size.of(available).ok_or_else(|| {
            let needed = match &self.size {
                Size::Fixed(ranks) => format!("{ranks}, those of the command's grid"),
                Size::UpTo(_) => "a number that fits the model".into(),
            };
            Failure::Run(format!(
                "supervise: found room for {} on {}, needs {needed}{}",
                counted(available, "rank"),
                counted(left.len(), "host"),
                self.roster.out_in_words()
            ))
        })?;
        Ok(hosts::filled(&left, ranks))
    }

    // The step of the newest checkpoint.
    fn step(&self) -> Option<u64> {
        recovery::newest_step(&self.run.dir)
    }

    // Whether the newest checkpoint is the run's last.
    fn is_complete(&self) -> bool {
        let is_last = |reader: Reader| BestValidation::is_last(&reader, &self.run.training).ok();
        let newest = Reader::open(&self.run.dir).ok();
        newest.and_then(is_last).unwrap_or(false)
    }
}

// What changes in a run's folder while the run makes progress.
fn traces(run: &Path) -> [Option<(u64, SystemTime)>; 2] {
    ["metrics.jsonl", "checkpoints"].map(|name| {
        let found = fs::metadata(run.join(name)).ok()?;
        Some((found.len(), found.modified().ok()?))
    })
}

// Waits, but not for a run that is asked to stop.
fn rest(pause: Duration, stop: &Stop) {
    let begun = Instant::now();
    while begun.elapsed() < pause && !stop.asked() {
        thread::sleep(Duration::from_millis(50));
    }
}
