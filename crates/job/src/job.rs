//! A job: its number of ranks, their grid and devices, and its start.

use crate::gathered::gathered;
use bootstrap::{
    Failure, FailureKind, Processes, World,
    local::{self, Options},
    processes,
};
use grid::{AxisOrder, Degrees, Grid};
use hal::{DeviceSettings, Driver, Error, OpenOptions, SumOrder, Transport, VendorId, driver};
use parallel::{Context, Reproducible, Settings};
use serde::{Serialize, de::DeserializeOwned};
use std::{cell::Cell, fmt, fmt::Display, sync::Arc, time::Duration};
use tensor::Device;

/// The ranks of a job, before they run.
///
/// ```
/// use fascicle_job::Job;
/// use hal::Error;
///
/// let job = Job::new([cpu::driver()]).grid("x=2,data=2")?.threads(1);
/// let ranks = job.run(|context| Ok::<_, Error>(context.world().rank()))?;
/// assert_eq!(ranks, [0, 1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Job {
    drivers: Vec<Driver>,
    vendor: Option<VendorId>,
    processes: Option<&'static dyn Processes>,
    degrees: Degrees,
    order: AxisOrder,
    ranks: Option<usize>,
    threads: usize,
    timeout: Duration,
    settings: Settings,
    device_settings: DeviceSettings,
    host: Option<Driver>,
    survivors: Option<Survivors>,
}

/// The grid for a number of surviving processes.
type Survivors = Arc<dyn Fn(usize) -> Option<Degrees> + Send + Sync>;

impl Job {
    /// A job of one rank, on the first of these vendors that has a device here.
    pub fn new(drivers: impl IntoIterator<Item = Driver>) -> Job {
        Job {
            drivers: drivers.into_iter().collect(),
            vendor: None,
            processes: None,
            degrees: Degrees::default(),
            order: AxisOrder::default(),
            ranks: None,
            threads: 1,
            timeout: Options::DEFAULT_TIMEOUT,
            settings: Settings::default(),
            device_settings: DeviceSettings::default(),
            host: None,
            survivors: None,
        }
    }

    /// Runs on the first of these vendors that has a device here.
    pub fn drivers(mut self, drivers: impl IntoIterator<Item = Driver>) -> Job {
        self.drivers = drivers.into_iter().collect();
        self
    }

    /// Works on the host's processors, beside devices, through this vendor; without this call through the one named `cpu` among the
    /// job's vendors.
    pub fn host(mut self, host: Option<Driver>) -> Job {
        self.host = host;
        self
    }

    /// Runs ranks as processes if `mpirun` or `srun` started this program as one of several.
    pub fn processes(mut self, processes: Option<&'static dyn Processes>) -> Job {
        self.processes = processes;
        self
    }

    /// Runs on a grid such as `x=2,z=2,pipeline=2`; unnamed axes have one rank.
    ///
    /// # Errors
    /// Those of parsing [`Degrees`], such as [`grid::Error::EntryAxis`].
    pub fn grid(self, text: &str) -> grid::Result<Job> {
        Ok(self.degrees(text.parse()?))
    }

    /// Runs on a grid of these degrees.
    pub fn degrees(mut self, degrees: Degrees) -> Job {
        self.degrees = degrees;
        self
    }

    /// Uses this axis order, the fastest varying axis first.
    pub fn order(mut self, order: AxisOrder) -> Job {
        self.order = order;
        self
    }

    /// Starts this many ranks, whatever the grid, for a body that makes its own grid.
    pub fn ranks(mut self, ranks: usize) -> Job {
        self.ranks = Some(ranks);
        self
    }

    /// Gives each rank this many threads, if the device is the host.
    pub fn threads(mut self, threads: usize) -> Job {
        self.threads = threads;
        self
    }

    /// Sets the timeout: a rank that waits longer for others ends the job and names them.
    pub fn timeout(mut self, timeout: Duration) -> Job {
        self.timeout = timeout;
        self
    }

    /// Continues in the surviving processes when others die: [`run`](Job::run) calls its body again there, which resumes from a checkpoint
    /// of its own.
    ///
    /// `grid` says for a number of processes which grid they form, the same on each, and from the start on; `None` ends the job. Processes
    /// beyond its ranks stand by, and end with the job. It needs an MPI library with ULFM, such as Open MPI from 5.0 on, and a launcher that
    /// lets processes die (`mpirun --with-ft ulfm`). Where ranks are threads it changes nothing.
    ///
    /// ```
    /// use fascicle_job::Job;
    /// use grid::Degrees;
    ///
    /// let all = |left| Some(Degrees { data: left, ..Degrees::default() });
    /// let job = Job::new([cpu::driver()]).grid("data=2")?.survive(all);
    /// let steps = job.run(|context| Ok::<_, hal::Error>(context.world().size()))?;
    /// assert_eq!(steps, [2, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn survive(
        mut self,
        grid: impl Fn(usize) -> Option<Degrees> + Send + Sync + 'static,
    ) -> Job {
        self.survivors = Some(Arc::new(grid));
        self
    }

    /// Runs on this vendor's devices.
    pub fn vendor(mut self, vendor: VendorId) -> Job {
        self.vendor = Some(vendor);
        self
    }

    /// Uses these settings of the layers.
    pub fn settings(mut self, settings: Settings) -> Job {
        self.settings = settings;
        self
    }

    /// With these choices about each rank's device, which change its numbers.
    ///
    /// ```
    /// use fascicle_job::Job;
    /// use hal::{CollectiveBackend, DeviceSettings};
    ///
    /// let collectives = CollectiveBackend::Staged;
    /// let job = Job::new([cpu::driver()]).device_settings(DeviceSettings { collectives, ..Default::default() });
    /// # assert_eq!(job.num_ranks(), Ok(1));
    /// ```
    pub fn device_settings(mut self, settings: DeviceSettings) -> Job {
        self.device_settings = settings;
        self
    }

    /// The number of ranks.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a degree of 0, and for degrees whose product overflows.
    pub fn num_ranks(&self) -> hal::Result<usize> {
        let of_grid = || self.degrees.world_size().map_err(|error| refused(&error));
        self.ranks.map_or_else(of_grid, Ok)
    }

    /// Runs `body` once on each rank of the grid, and returns the results in the order of ranks.
    ///
    /// Where ranks are processes, every process receives all results, so that the program continues in the same
    /// way in each. A job of one rank does not concern other processes: each runs it by itself.
    ///
    /// # Errors
    /// The error of the rank that failed first; the others end within the timeout. [`Error::Invalid`] for degrees as in
    /// [`num_ranks`](Job::num_ranks), for a vendor as in [`driver`](Job::driver), for a result that cannot be sent, and if
    /// the launcher started a number of processes other than the number of ranks of the grid. [`Error::Aborted`] if a rank
    /// panicked, or if none could start because of what [`bootstrap::refuse_if_launched_many`] refuses. A job that is to
    /// [survive](Job::survive): [`Error::Invalid`] if the library ends it with a process, or if too few are left.
    pub fn run<T, E>(
        &self,
        body: impl Fn(&Context) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Vec<T>, E>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: From<Error> + Display + Send + 'static,
    {
        let started = self.started();
        let Some((grid, processes)) = self.survivors.as_ref().zip(started) else {
            return self.run_once(body);
        };
        processes.outlive()?;
        let (mut job, body) = (self.clone(), Arc::new(body));
        loop {
            let degrees = Cell::new(None);
            processes.reform(&|left| {
                degrees.set(grid(left));
                degrees.get()?.world_size().ok()
            })?;
            job.degrees = degrees.get().unwrap_or(job.degrees);
            let body = body.clone();
            let outcome = job.run_once(move |context| body(context));
            if outcome.is_ok() || !processes.goes_on() {
                return outcome;
            }
        }
    }

    fn run_once<T, E>(
        &self,
        body: impl Fn(&Context) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Vec<T>, E>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: From<Error> + Display + Send + 'static,
    {
        let grid = Grid::new(self.degrees, self.order).map_err(|error| E::from(refused(&error)))?;
        // Here its error keeps its kind; from a job that does not start it is only quoted.
        self.driver()?;
        let settings = self.settings;
        let ranks = self.run_ranks(move |world, device| {
            let context = Context::new(world.clone(), grid, device.clone(), settings)?;
            body(&context)
        });
        ranks.map_err(|failure| {
            let (rank, reason) = (failure.rank, failure.to_string());
            match failure.kind {
                FailureKind::Error(error) => error,
                _ => E::from(Error::Aborted { rank, reason }),
            }
        })
    }

    /// As [`run`](Job::run), with a world and a device for each rank.
    ///
    /// # Errors
    /// The first failure of a rank, with what happened to the others; [`FailureKind::NotStarted`] for what
    /// [`num_ranks`](Job::num_ranks), [`driver`](Job::driver) or [`bootstrap::refuse_if_launched_many`] refuses.
    pub fn run_ranks<T, E>(
        &self,
        body: impl Fn(&World, &Device) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Vec<T>, Failure<E>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: From<Error> + Display + Send + 'static,
    {
        if self.launched()?.is_none() {
            return self.run_own(body);
        }
        let all = self.run_own(move |world, device| {
            let returned = body(world, device)?;
            Ok(gathered(world, &returned)?)
        })?;
        Ok(all.into_iter().next().unwrap_or_default())
    }

    /// As [`run_ranks`](Job::run_ranks), but returns only the results of this process: those of all ranks if
    /// ranks are threads, its own if they are processes.
    ///
    /// # Errors
    /// As [`run_ranks`](Job::run_ranks).
    pub fn run_own<T, E>(
        &self,
        body: impl Fn(&World, &Device) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Vec<T>, Failure<E>>
    where
        T: Send + 'static,
        E: From<Error> + Display + Send + 'static,
    {
        let (ranks, launched) = (self.num_ranks().map_err(not_started)?, self.launched()?);
        let driver = self.driver().map_err(not_started)?;
        let (threads, settings) = (self.threads, self.opened_with());
        let host = self.host.or_else(|| driver::of_host(&self.drivers));
        let open = move |world: &World, transport: Option<Arc<dyn Transport>>| {
            let ordinal = launched.map_or(world.local_rank(), Processes::ordinal);
            Device::new((driver.open)(OpenOptions {
                ordinal,
                threads,
                transport,
                settings: settings.clone(),
                host,
            })?)
        };
        let Some(processes) = launched else {
            let options = Options::new(ranks).with_timeout(self.timeout);
            return local::run(options, move |world| body(&world, &open(&world, None)?));
        };
        let own = processes::run(processes, self.timeout, move |world| {
            if world.size() != ranks {
                let needed = format!(
                    "{}, the number of processes that the launcher started",
                    world.size()
                );
                return Err(E::from(Error::invalid("ranks", ranks.to_string(), needed)));
            }
            body(&world, &open(&world, Some(processes.transport()?))?)
        })?;
        Ok(vec![own])
    }

    // Reproducible sums need devices that keep the order of sums.
    fn opened_with(&self) -> DeviceSettings {
        let mut settings = self.device_settings.clone();
        if self.settings.reproducible == Reproducible::Grid {
            settings.sums = SumOrder::Canonical;
        }
        settings
    }

    /// The vendor on whose devices the job runs.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a vendor that the program does not carry, and if no vendor has a device here, with what
    /// was found.
    pub fn driver(&self) -> hal::Result<Driver> {
        driver::usable(&driver::carried(
            self.vendor.map(VendorId::name),
            &self.drivers,
        )?)
    }

    // The processes that a launcher started, if one did. Every job asks before anything else, and before it has threads.
    fn started(&self) -> Option<&'static dyn Processes> {
        hal::environment::settle();
        let launched = bootstrap::detect().processes.is_some();
        self.processes.filter(|_| launched)
    }

    // The processes of this job, if its ranks are processes.
    fn launched<E>(&self) -> Result<Option<&'static dyn Processes>, Failure<E>> {
        let started = self.started();
        let several = self.num_ranks().map_err(not_started)? > 1;
        match started {
            Some(processes) => Ok(Some(processes).filter(|_| several)),
            None => {
                let refused = |many: bootstrap::LaunchedMany| not_started(many);
                bootstrap::refuse_if_launched_many().map_err(refused)?;
                Ok(None)
            }
        }
    }
}

fn refused(error: &grid::Error) -> Error {
    Error::invalid("grid", error.to_string(), "degrees of at least 1")
}

fn not_started<E>(reason: impl Display) -> Failure<E> {
    Failure {
        rank: 0,
        kind: FailureKind::NotStarted(reason.to_string()),
        others: Box::default(),
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Job(grid {}, {} threads per rank)",
            self.degrees, self.threads
        )
    }
}
