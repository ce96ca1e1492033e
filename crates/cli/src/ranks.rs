//! The ranks of a command: a [`Job`] of the program's launcher, whose failure becomes the program's.

use crate::{
    failure::{Failure, Outcome},
    launcher,
};
use bootstrap::World;
use hal::{DeviceSettings, Driver};
use job::Job;
use tensor::Device;

/// The number of ranks, and the resources of each.
#[derive(Clone, Debug)]
pub(crate) struct Team {
    ranks: usize,
    job: Job,
}

impl Team {
    /// A team whose ranks wait for the default timeout.
    pub(crate) fn new(ranks: usize, threads: usize) -> Team {
        let job = Job::new([]).ranks(ranks).threads(threads);
        Team {
            ranks,
            job: job.processes(launcher::processes()).host(launcher::host()),
        }
    }

    /// The team, with these choices about its devices.
    pub(crate) fn with_device(mut self, settings: DeviceSettings) -> Team {
        self.job = self.job.device_settings(settings);
        self
    }

    /// The team that a configuration requests.
    pub(crate) fn of(config: &train::Config) -> Outcome<Team> {
        let parallel = &config.parallel;
        let mut team = Team::new(config.grid()?.world_size(), parallel.threads)
            .with_device(config.device_settings());
        team.job = team.job.timeout(parallel.timeout()?);
        Ok(team)
    }

    /// Runs `body` on every rank, each with its own device, and returns the results in the order of ranks. In
    /// a job of processes it returns only the result of this process.
    ///
    /// Ranks that are stuck after a failure are left behind; their threads end with the program.
    pub(crate) fn run<T: Send + 'static>(
        self,
        driver: Driver,
        body: impl Fn(&World, &Device) -> train::Result<T> + Send + Sync + 'static,
    ) -> Outcome<Vec<T>> {
        self.check_number()?;
        let ranks = self.job.drivers([driver]).run_own(body);
        ranks.map_err(|failure| match failure.error() {
            Some(error) if error.is_usage() => Failure::Usage(failure.report()),
            _ => Failure::Run(failure.report()),
        })
    }

    /// Refuses a number of ranks other than the launcher's.
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
            let mut config = crate::testing::config(256);
            config.parallel.timeout_s = seconds;
            assert_eq!(Team::of(&config).is_ok(), fits, "{seconds}");
        }
    }
}
