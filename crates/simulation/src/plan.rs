//! What a seed means: the grid, the steps, the checkpoints, and what goes wrong.

use families::GptConfig;
use grid::Degrees;
use hal::sync::{FaultKind, Random};
use parallel::Reproducible;
use parallel::data::Sharding;
use std::time::Duration;
use train::Config;

/// How long ranks wait for each other.
pub const TIMEOUT: Duration = Duration::from_secs(4);

/// Grids of up to 4 ranks, each with the schedule of its stages.
const GRIDS: [(&str, &str); 14] = [
    ("data=2", "1f1b"),
    ("x=2", "1f1b"),
    ("z=2", "1f1b"),
    ("y=2", "1f1b"),
    ("context=2", "1f1b"),
    ("pipeline=2", "1f1b"),
    ("pipeline=2", "zb-h1"),
    ("pipeline=2", "message-driven"),
    ("data=3", "1f1b"),
    ("x=2,data=2", "1f1b"),
    ("z=2,data=2", "1f1b"),
    ("data=2,pipeline=2", "1f1b"),
    ("x=2,pipeline=2", "gpipe"),
    ("data=4", "1f1b"),
];

/// When checkpoints are written, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saves {
    /// While the step waits.
    InStep,
    /// Beside the following steps.
    Behind,
    /// Beside the following steps, and on the nodes' own disks too.
    BehindAndLocal,
}

/// What goes wrong in the first life of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// The process of a rank, or power for all ranks, fails after this many points of the schedule.
    Process {
        /// The rank.
        rank: usize,
        /// How far it has come.
        after: u64,
        /// What happens.
        kind: FaultKind,
    },
    /// A rank rarely runs.
    SlowRank(usize),
    /// The disk's operations take up to so long.
    SlowDisk(Duration),
    /// Exchanges between hosts take up to so long.
    SlowNetwork(Duration),
    /// The link of a rank is cut after this many exchanges.
    CutOff(usize, u64),
    /// From the n-th operation on, the disk is full.
    FullDisk(usize),
    /// The disk refuses the n-th operation, once.
    Refused(usize),
    /// A rank returns an error before a step.
    Error(usize, u64),
    /// A rank panics before a step.
    Panic(usize, u64),
}

impl Trouble {
    /// Its name in counts.
    pub fn name(self) -> &'static str {
        match self {
            Trouble::None => "undisturbed",
            Trouble::Process { kind, .. } => match kind {
                FaultKind::Kill => "killed_ranks",
                FaultKind::Stop(_) => "stopped_ranks",
                FaultKind::Jump(_) => "jumps_of_a_clock",
                FaultKind::PowerCut => "power_cuts_in_a_job",
            },
            Trouble::SlowRank(_) => "slow_ranks",
            Trouble::SlowDisk(_) => "slow_disks",
            Trouble::SlowNetwork(_) => "slow_networks",
            Trouble::CutOff(..) => "ranks_cut_off",
            Trouble::FullDisk(_) => "full_disks",
            Trouble::Refused(_) => "refused_operations",
            Trouble::Error(..) => "errors_of_a_rank",
            Trouble::Panic(..) => "panics_of_a_rank",
        }
    }
}

/// A job, what it meets, and how it is resumed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The configuration of the first life.
    pub config: Config,
    /// That of the second.
    pub resumed: Config,
    /// Its checkpoints.
    pub saves: Saves,
    /// The steps between two checkpoints.
    pub every: u64,
    /// What goes wrong.
    pub trouble: Trouble,
    /// Whether the power is cut after the first life.
    pub is_cut: bool,
}

/// A small model on one rank, of which every grid computes the same bits.
pub fn config() -> Config {
    let model = GptConfig {
        layers: 1,
        hidden: 8,
        heads: 4,
        context: 4,
        vocabulary: 11,
        ..GptConfig::default()
    };
    let mut config = Config::new(model.into());
    config.parallel.grid = Degrees::default();
    config.training.batch = 12;
    config.training.micro_batches = 1;
    config.training.steps = 3;
    config.training.warmup_steps = 1;
    config.training.learning_rate = 1e-2;
    config.training.reproducible = Reproducible::Grid.into();
    config
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Plan {
        // The scheduler makes its own choices from the seed.
        let mut random = Random::new(seed ^ 0x5eed_0000_0000_0000);
        let config = on_a_grid(&mut random);
        let ranks = world_size(&config) as u64;
        let rank = random.below(ranks) as usize;
        // Most lives have fewer points, and then the fault does not come.
        let after = random.below(9_000);
        let trouble = match random.below(18) {
            0..=2 => Trouble::Process {
                rank,
                after,
                kind: FaultKind::Kill,
            },
            3 | 4 => Trouble::Process {
                rank,
                after,
                kind: FaultKind::Stop(TIMEOUT / 4),
            },
            5 => Trouble::Process {
                rank,
                after,
                kind: FaultKind::Stop(TIMEOUT * 4),
            },
            6 => Trouble::Process {
                rank,
                after,
                kind: FaultKind::Jump(TIMEOUT * 10),
            },
            7 | 8 => Trouble::Process {
                rank,
                after,
                kind: FaultKind::PowerCut,
            },
            9 => Trouble::SlowRank(rank),
            10 => Trouble::SlowDisk(TIMEOUT * 2),
            11 => Trouble::FullDisk(random.below(40) as usize),
            12 => Trouble::Refused(random.below(40) as usize),
            13 => Trouble::Error(rank, random.below(3)),
            14 => Trouble::Panic(rank, random.below(3)),
            15 => Trouble::SlowNetwork(TIMEOUT / 8),
            16 => Trouble::CutOff(rank, random.below(60)),
            _ => Trouble::None,
        };
        let saves = random.one_of(&[
            Saves::InStep,
            Saves::Behind,
            Saves::Behind,
            Saves::BehindAndLocal,
        ]);
        Plan {
            seed,
            resumed: on_a_grid(&mut random),
            config,
            saves,
            every: 1 + random.below(2),
            trouble,
            is_cut: random.below(2) == 0,
        }
    }
}

fn on_a_grid(random: &mut Random) -> Config {
    let (grid, schedule) = random.one_of(&GRIDS);
    let mut config = config();
    config.parallel.grid = grid.parse().expect("a grid");
    config.parallel.schedule = schedule.parse().expect("a schedule");
    if config.parallel.grid.pipeline > 1 {
        config.training.micro_batches = 2;
    }
    config.parallel.sharding = match random.below(2) {
        0 => Sharding::None,
        _ => Sharding::Optimiser,
    };
    config
}

/// The number of ranks of a configuration.
pub fn world_size(config: &Config) -> usize {
    config.grid().expect("a grid").world_size()
}
