//! Whether a launcher such as `mpirun` or `srun` started this process, and how many times.
//!
//! A program without MPI that is started eight times would run eight separate trainings, each believing that it
//! is the only one. It checks here first, and explains itself instead.

use hal::environment::{Variable, table};

/// How this process was started, as far as the environment shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Number of processes that the launcher started together; `None` if no launcher is detected.
    pub processes: Option<usize>,
    /// The index of this process among them.
    pub rank: Option<usize>,
    /// The launcher, as in `srun`.
    pub launcher_name: Option<&'static str>,
    /// The environment variable that showed it.
    pub variable: Option<&'static str>,
}

/// Several processes were started of a program that cannot join them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "start: {launcher_name} started {processes} processes ({variable}={processes}), needs 1: this program was built \
     without MPI, so each process would train on its own; start it once and let it run its ranks as threads, build it \
     with the feature `mpi`, or unset {variable} if only one process runs"
)]
pub struct LaunchedMany {
    /// Number of processes.
    pub processes: usize,
    /// What started them.
    pub launcher_name: &'static str,
    /// The environment variable that showed it.
    pub variable: &'static str,
}

/// Variables that hold the number of processes, the launcher that sets them, and a variable that the launcher
/// also sets in every process. The innermost launcher comes first: `mpirun` within a Slurm job sees Slurm's
/// variables too.
///
/// `SLURM_NTASKS` is not among them: it is also set for a batch script, which runs once whatever its value.
const LAUNCHERS: [(Variable, Variable, &str); 5] = [
    (
        table::OPEN_MPI_SIZE,
        table::OPEN_MPI_RANK,
        "mpirun (Open MPI)",
    ),
    (
        table::MVAPICH_SIZE,
        table::MVAPICH_RANK,
        "mpirun (MVAPICH2)",
    ),
    (table::PMI_SIZE, table::PMI_RANK, "mpirun or srun (PMI)"),
    (table::FLUX_SIZE, table::FLUX_RANK, "flux run"),
    (table::SLURM_SIZE, table::SLURM_RANK, "srun"),
];

/// How this process was started.
pub fn detect() -> Surroundings {
    detect_in(|variable| variable.read())
}

/// Refuses to run in one of several processes that were started together; for programs without MPI.
///
/// # Errors
/// [`LaunchedMany`], which names the launcher of the processes and what to do instead.
pub fn refuse_if_launched_many() -> Result<(), LaunchedMany> {
    refuse(detect())
}

fn refuse(surroundings: Surroundings) -> Result<(), LaunchedMany> {
    match surroundings {
        Surroundings {
            processes: Some(processes),
            launcher_name: Some(launcher_name),
            variable: Some(variable),
            ..
        } if processes > 1 => Err(LaunchedMany {
            processes,
            launcher_name,
            variable,
        }),
        _ => Ok(()),
    }
}

fn detect_in(get: impl Fn(&Variable) -> Option<String>) -> Surroundings {
    let number = |variable: &Variable| get(variable)?.trim().parse::<usize>().ok();
    // A shell on a terminal of the job (`srun --pty bash`, `salloc`) has Slurm's variables, and the same number
    // from Slurm's PMI, but is not one of several processes.
    let of_terminal = get(&table::SLURM_TERMINAL).and_then(|_| number(&table::SLURM_SIZE));
    let counted = |variable: &Variable, beside: &Variable| {
        let of_slurm = [table::PMI_SIZE, table::SLURM_SIZE].contains(variable);
        get(beside)
            .and(number(variable))
            .filter(|&processes| !(of_slurm && of_terminal == Some(processes)))
    };
    let seen = LAUNCHERS
        .into_iter()
        .find_map(|(variable, beside, launcher_name)| {
            let processes = Some(counted(&variable, &beside)?);
            let rank = number(&beside);
            Some(Surroundings {
                processes,
                rank,
                launcher_name: Some(launcher_name),
                variable: Some(variable.name),
            })
        });
    seen.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(variables: &[(&str, &str)]) -> Surroundings {
        detect_in(|variable| {
            variables
                .iter()
                .find(|(key, _)| *key == variable.name)
                .map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn sees_each_launcher() {
        for (variable, beside, name) in LAUNCHERS {
            let seen = under(&[(variable.name, "8"), (beside.name, "3")]);
            assert_eq!(
                (seen.processes, seen.rank, seen.launcher_name, seen.variable),
                (Some(8), Some(3), Some(name), Some(variable.name))
            );
        }
    }

    #[test]
    fn nothing_is_seen_without_a_launcher_or_with_nonsense() {
        assert_eq!(under(&[]), Surroundings::default());
        assert_eq!(
            under(&[("PMI_SIZE", "many"), ("PMI_RANK", "0")]),
            Surroundings::default()
        );
    }

    #[test]
    fn a_batch_script_runs_once() {
        let seen = under(&[
            ("SLURM_NTASKS", "8"),
            ("SLURM_PROCID", "0"),
            ("SLURM_JOB_ID", "1"),
        ]);
        assert_eq!(seen, Surroundings::default());
    }

    #[test]
    fn a_shell_on_a_terminal_of_the_job_is_one_process() {
        let shell = [
            ("SLURM_PTY_PORT", "34889"),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_PROCID", "0"),
        ];
        assert_eq!(under(&shell), Surroundings::default());
        let with_pmi = [&shell[..], &[("PMI_SIZE", "4"), ("PMI_RANK", "0")]].concat();
        assert_eq!(under(&with_pmi), Surroundings::default());
        let mpirun_in_it = [
            &shell[..],
            &[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "1")],
        ]
        .concat();
        assert_eq!(under(&mpirun_in_it).processes, Some(2));
    }

    #[test]
    fn only_several_processes_are_refused() {
        let one = under(&[("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_PROCID", "0")]);
        assert_eq!((one.processes, refuse(one)), (Some(1), Ok(())));
        assert_eq!(refuse(Surroundings::default()), Ok(()));
        let many = refuse(under(&[
            ("SLURM_STEP_NUM_TASKS", "8"),
            ("SLURM_PROCID", "5"),
        ]))
        .unwrap_err();
        let text = "start: srun started 8 processes (SLURM_STEP_NUM_TASKS=8), needs 1: ";
        assert!(many.to_string().starts_with(text), "{many}");
    }
}
