//! Running the ranks: as threads of this program, or this process's own one of a job of processes.

use crate::{
    failure::{Failure, Outcome},
    launcher,
};
use bootstrap::{
    Processes, World,
    local::{self, Options},
    processes,
};
use hal::{Driver, OpenOptions};
use std::time::Duration;
use tensor::Device;

/// How many ranks, and what each of them gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Team {
    /// Number of ranks.
    pub(crate) ranks: usize,
    /// Threads that each computes with.
    pub(crate) threads: usize,
    /// How long a rank waits for others before the run ends.
    pub(crate) timeout: Duration,
}

impl Team {
    /// A team whose ranks wait for the default time.
    pub(crate) fn new(ranks: usize, threads: usize) -> Team {
        Team {
            ranks,
            threads,
            timeout: Options::DEFAULT_TIMEOUT,
        }
    }

    /// The team that a configuration asks for.
    pub(crate) fn of(config: &train::Config) -> Outcome<Team> {
        let parallel = &config.parallel;
        let timeout = Duration::try_from_secs_f64(parallel.timeout_s)
            .ok()
            .filter(|timeout| !timeout.is_zero());
        let refuse = || {
            let found = parallel.timeout_s;
            Failure::usage(format!(
                "parallel.timeout_s: found {found}, needs a number of seconds above 0"
            ))
        };
        let ranks = config.grid()?.world_size();
        Ok(Team {
            ranks,
            threads: parallel.threads,
            timeout: timeout.ok_or_else(refuse)?,
        })
    }

    /// Runs `body` on every rank, each with a device of its own, and gives what the ranks returned, in their order: of
    /// a job of processes, what this one's did.
    ///
    /// Ranks that are stuck after a failure are left behind: their threads end with the program.
    pub(crate) fn run<T: Send + 'static>(
        self,
        driver: Driver,
        body: impl Fn(&World, &Device) -> train::Result<T> + Send + Sync + 'static,
    ) -> Outcome<Vec<T>> {
        if let Some(processes) = launcher::processes() {
            return self.run_own(processes, driver, body);
        }
        let options = Options::new(self.ranks).with_timeout(self.timeout);
        let ranks = local::run(options, move |world| {
            let options = OpenOptions {
                ordinal: world.local_rank(),
                threads: self.threads,
                transport: None,
            };
            let device = Device::new((driver.open)(options)?)?;
            body(&world, &device)
        });
        ranks.map_err(|failure| Failure::Run(failure.report()))
    }

    fn run_own<T: Send + 'static>(
        self,
        processes: &'static dyn Processes,
        driver: Driver,
        body: impl Fn(&World, &Device) -> train::Result<T> + Send + Sync + 'static,
    ) -> Outcome<Vec<T>> {
        self.check_number()?;
        let own = processes::run(processes, self.timeout, move |world| {
            let transport = Some(processes.transport()?);
            let options = OpenOptions {
                ordinal: world.local_rank(),
                threads: self.threads,
                transport,
            };
            let device = Device::new((driver.open)(options)?)?;
            body(&world, &device)
        });
        own.map(|own| vec![own])
            .map_err(|failure| Failure::Run(failure.report()))
    }

    /// Refuses a number of ranks that is not the launcher's.
    pub(crate) fn check_number(&self) -> Outcome {
        match launcher::num_ranks() {
            Some(started) if started != self.ranks => Err(Failure::usage(format!(
                "ranks: found {}, needs {started}, the number of processes that the launcher started",
                self.ranks
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_that_is_no_time_is_refused() {
        for (seconds, fits) in [
            (60.0, true),
            (0.0, false),
            (-1.0, false),
            (f64::NAN, false),
            (1e300, false),
        ] {
            let mut config = train::Config::default();
            (config.model.vocabulary, config.parallel.timeout_s) = (256, seconds);
            assert_eq!(Team::of(&config).is_ok(), fits, "{seconds}");
        }
    }
}
