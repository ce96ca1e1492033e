//! The declarations.

use super::{Section, Variable};

/// All of them.
pub const ALL: [Section; 6] = [
    Section {
        title: "Running",
        about: "These select the vendor and locate its libraries.",
        variables: &[
            VENDOR,
            LONGEST_MESSAGE,
            START_TIMEOUT,
            CUDA_LIBRARIES,
            ROCM_LIBRARIES,
            CUDA_KERNELS,
            ROCM_KERNELS,
        ],
    },
    Section {
        title: "Variables of the vendors",
        about: "The vendors define these; we read them as their own libraries do.",
        variables: &[
            CUDA_DEVICES,
            ROCM_DEVICES,
            SHARED_DEVICE,
            CUDA_HOME,
            CUDA_PATH,
            NVHPC_CUDA_HOME,
            NCCL_HOME,
            ROCM_PATH,
            HIP_PATH,
        ],
    },
    Section {
        title: "Variables of the vendors that the program sets",
        about: "The program sets these at its start, and so does every job of a program of your own that has one thread by then, unless they are set: `fascicle::hal::environment::settle`.",
        variables: &[LAUNCH_ORDER, CUDA_QUEUES, MODULE_LOADING, HIP_QUEUES],
    },
    Section {
        title: "Variables of the system",
        about: "The shell sets these.",
        variables: &[CACHE_HOME, HOME, COLUMNS, SEARCH_PATH],
    },
    Section {
        title: "Variables of launchers",
        about: "`mpirun` and `srun` set these in each process; a program reads the number of started processes from them.",
        variables: &[
            OPEN_MPI_SIZE,
            OPEN_MPI_RANK,
            MVAPICH_SIZE,
            MVAPICH_RANK,
            PMI_SIZE,
            PMI_RANK,
            FLUX_SIZE,
            FLUX_RANK,
            SLURM_SIZE,
            SLURM_RANK,
            SLURM_TERMINAL,
            SLURM_NODES,
        ],
    },
    Section {
        title: "Building",
        about: "The build scripts of the device kernels read these, and `CUDA_HOME`, `ROCM_PATH` and `PATH` above.",
        variables: &[NVCC, CUDA_ARCHITECTURES, HIPCC, HIP_ARCHITECTURES],
    },
];

/// The variables that [`settle`](super::settle) sets, with their values.
pub const SETTLED: [(Variable, &str); 4] = [
    (LAUNCH_ORDER, "1"),
    (CUDA_QUEUES, "32"),
    (MODULE_LOADING, "EAGER"),
    (HIP_QUEUES, "16"),
];

/// The order of collectives of several communicators.
pub const LAUNCH_ORDER: Variable = Variable {
    name: "NCCL_LAUNCH_ORDER_IMPLICIT",
    reader: "NCCL from 2.26 on",
    values: "`0` or `1`",
    default: "1",
    meaning: "collectives of several communicators start on a device in the order of their calls, so that they cannot wait for each other in a circle",
};

/// Hardware queues of NVIDIA.
pub const CUDA_QUEUES: Variable = Variable {
    name: "CUDA_DEVICE_MAX_CONNECTIONS",
    reader: "the CUDA driver",
    values: "1 to 32",
    default: "32",
    meaning: "queues of a device; without the variable it has 8. A rank has 9 streams for collectives and messages, 13 with `zb-v`, and 2 more for each link that skips stages. With fewer queues than that, kinds of traffic share streams; with too few for a schedule, the run is refused",
};

/// When the driver loads kernels.
pub const MODULE_LOADING: Variable = Variable {
    name: "CUDA_MODULE_LOADING",
    reader: "the CUDA driver",
    values: "`EAGER` or `LAZY`",
    default: "EAGER",
    meaning: "whether kernels are loaded before the first step, or at their first use, which waits for running work",
};

/// Hardware queues of AMD.
pub const HIP_QUEUES: Variable = Variable {
    name: "GPU_MAX_HW_QUEUES",
    reader: "HIP",
    values: "a number",
    default: "16",
    meaning: "the same for AMD, where a device has 4 without the variable",
};

/// Names the vendor if `--vendor` does not.
pub const VENDOR: Variable = Variable {
    name: "FASCICLE_VENDOR",
    reader: "the program without `--vendor`; `fascicle::launch` and `Job`",
    values: "the name of a vendor in this build: `cuda`, `rocm`, `cpu`, or one of your own",
    default: "the first with a device",
    meaning: "the vendor whose devices the ranks use",
};

/// The longest message between processes.
pub const LONGEST_MESSAGE: Variable = Variable {
    name: "FASCICLE_MPI_LONGEST_MESSAGE",
    reader: "ranks that are processes, when they join MPI",
    values: "64 to 1073741824 bytes, the same in all processes",
    default: "1073741824",
    meaning: "longer messages are split; below MPI's eager limit, both directions of a TCP link carry data at once",
};

/// The time that MPI has to start.
pub const START_TIMEOUT: Variable = Variable {
    name: "FASCICLE_MPI_START_TIMEOUT",
    reader: "ranks that are processes, when they join MPI",
    values: "seconds above 0",
    default: "300",
    meaning: "the job ends if not all processes have joined by then",
};

/// Folders of CUDA's libraries.
pub const CUDA_LIBRARIES: Variable = Variable {
    name: "FASCICLE_CUDA_PATH",
    reader: LOADING_CUDA,
    values: FOLDERS,
    default: NONE,
    meaning: "folders searched first for the driver, cuBLAS, cuBLASLt and NCCL",
};

/// Folders of ROCm's libraries.
pub const ROCM_LIBRARIES: Variable = Variable {
    name: "FASCICLE_ROCM_PATH",
    reader: LOADING_ROCM,
    values: FOLDERS,
    default: NONE,
    meaning: "folders searched first for HIP, hipBLAS, hipBLASLt and RCCL",
};

/// A file of kernels for CUDA.
pub const CUDA_KERNELS: Variable = Variable {
    name: "FASCICLE_CUDA_OBJECT",
    reader: LOADING_CUDA,
    values: "a cubin or fatbin file",
    default: "the kernels in the build",
    meaning: "device code that replaces the kernels in the build",
};

/// A file of kernels for ROCm.
pub const ROCM_KERNELS: Variable = Variable {
    name: "FASCICLE_ROCM_OBJECT",
    reader: LOADING_ROCM,
    values: "a code object (.hsaco)",
    default: "the kernels in the build",
    meaning: "device code that replaces the kernels in the build",
};

/// The devices that CUDA shows to a process.
pub const CUDA_DEVICES: Variable = Variable {
    name: "CUDA_VISIBLE_DEVICES",
    reader: "the CUDA driver; we name it in errors and in `fascicle doctor`",
    values: "device numbers, separated by commas",
    default: "all devices",
    meaning: "the devices that a process sees",
};

/// The devices that ROCm shows to a process.
pub const ROCM_DEVICES: Variable = Variable {
    name: "ROCR_VISIBLE_DEVICES",
    reader: "the ROCm runtime; we name it in errors and in `fascicle doctor`",
    values: "device numbers, separated by commas",
    default: "all devices",
    meaning: "the devices that a process sees",
};

/// Lets NCCL serve several ranks on one device.
pub const SHARED_DEVICE: Variable = Variable {
    name: "NCCL_MULTI_RANK_GPU_ENABLE",
    reader: "NCCL from 2.30.3 on; both GPU vendors when they open a device",
    values: "`1`",
    default: "each rank needs its own device",
    meaning: "several ranks of one process may share a device",
};

/// A root of CUDA.
pub const CUDA_HOME: Variable = Variable {
    name: "CUDA_HOME",
    reader: "the CUDA vendor when it loads its libraries; the build script, for `bin/nvcc`",
    ..CUDA_ROOT
};

/// A root of CUDA.
pub const CUDA_PATH: Variable = Variable {
    name: "CUDA_PATH",
    ..CUDA_ROOT
};

/// A root of CUDA in NVIDIA's HPC SDK.
pub const NVHPC_CUDA_HOME: Variable = Variable {
    name: "NVHPC_CUDA_HOME",
    ..CUDA_ROOT
};

/// A root of NCCL.
pub const NCCL_HOME: Variable = Variable {
    name: "NCCL_HOME",
    ..CUDA_ROOT
};

/// A root of ROCm.
pub const ROCM_PATH: Variable = Variable {
    name: "ROCM_PATH",
    reader: "the ROCm vendor when it loads its libraries; the build script, for `bin/hipcc`",
    ..ROCM_ROOT
};

/// A root of HIP.
pub const HIP_PATH: Variable = Variable {
    name: "HIP_PATH",
    ..ROCM_ROOT
};

/// The user's folder of caches.
pub const CACHE_HOME: Variable = Variable {
    name: "XDG_CACHE_HOME",
    reader: "`fascicle train --plan`",
    values: "a folder",
    default: "`$HOME/.cache`",
    meaning: "contains `fascicle/machine-HOST-VENDOR-CORES.toml`, the measured descriptions of hosts, which are used for 30 days",
};

/// The user's folder.
pub const HOME: Variable = Variable {
    name: "HOME",
    reader: "`fascicle train --plan`, without `XDG_CACHE_HOME`; the CUDA vendor when it loads its libraries",
    values: "a folder",
    default: "none: each run measures its machine",
    meaning: "contains the cache folder, and the user's Python packages",
};

/// The terminal's width.
pub const COLUMNS: Variable = Variable {
    name: "COLUMNS",
    reader: "every command that prints to a terminal",
    values: "a number from 20 on",
    default: "lines are not broken",
    meaning: "width of a terminal that does not report its own",
};

/// The search path of programs.
pub const SEARCH_PATH: Variable = Variable {
    name: "PATH",
    reader: "the build scripts; the CUDA vendor when it loads its libraries",
    values: FOLDERS,
    default: NONE,
    meaning: "folders searched for `nvcc`, `hipcc` and `cmake`; for a Python, whose packages may bring cuBLAS and NCCL",
};

/// Processes under Open MPI.
pub const OPEN_MPI_SIZE: Variable = size(
    "OMPI_COMM_WORLD_SIZE",
    "set by Open MPI's `mpirun`: number of processes",
);
/// Rank under Open MPI.
pub const OPEN_MPI_RANK: Variable = rank(
    "OMPI_COMM_WORLD_RANK",
    "set by Open MPI's `mpirun`: index of this process",
);
/// Processes under MVAPICH2.
pub const MVAPICH_SIZE: Variable = size(
    "MV2_COMM_WORLD_SIZE",
    "set by MVAPICH2's `mpirun`: number of processes",
);
/// Rank under MVAPICH2.
pub const MVAPICH_RANK: Variable = rank(
    "MV2_COMM_WORLD_RANK",
    "set by MVAPICH2's `mpirun`: index of this process",
);
/// Processes under a launcher with PMI.
pub const PMI_SIZE: Variable = size(
    "PMI_SIZE",
    "set by `mpirun` and `srun` with PMI: number of processes",
);
/// Rank under a launcher with PMI.
pub const PMI_RANK: Variable = rank(
    "PMI_RANK",
    "set by `mpirun` and `srun` with PMI: index of this process",
);
/// Processes under Flux.
pub const FLUX_SIZE: Variable = size("FLUX_JOB_SIZE", "set by `flux run`: number of processes");
/// Rank under Flux.
pub const FLUX_RANK: Variable = rank("FLUX_TASK_RANK", "set by `flux run`: index of this process");
/// Processes under Slurm. `SLURM_NTASKS` is not a substitute: it is also set for a batch script, which runs once whatever
/// its value.
pub const SLURM_SIZE: Variable = size("SLURM_STEP_NUM_TASKS", "set by `srun`: number of processes");
/// Rank under Slurm.
pub const SLURM_RANK: Variable = rank("SLURM_PROCID", "set by `srun`: index of this process");
/// Hosts of a Slurm job.
pub const SLURM_NODES: Variable = Variable {
    name: "SLURM_JOB_NODELIST",
    reader: "`fascicle supervise`",
    values: "host names, with ranges such as `nid[001-003]`",
    default: "no hosts, unless flags name them",
    meaning: "set by Slurm in a job: the hosts on which the run may be",
};
/// Set in a shell on a terminal of a Slurm job.
pub const SLURM_TERMINAL: Variable = Variable {
    name: "SLURM_PTY_PORT",
    reader: "every program, when it starts",
    values: "a number",
    default: "not a terminal of a job",
    meaning: "set by `srun --pty` and `salloc`: this shell is one process, whatever Slurm's other variables are",
};

/// The compiler of the kernels for NVIDIA.
pub const NVCC: Variable = Variable {
    name: "FASCICLE_NVCC",
    reader: "the build script of `fascicle-kernels-cuda`",
    values: "a program",
    default: "`$CUDA_HOME/bin/nvcc`, then the search path, then `/usr/local/cuda/bin/nvcc`",
    meaning: "the compiler of the kernels for NVIDIA",
};

/// The architectures of the kernels for NVIDIA.
pub const CUDA_ARCHITECTURES: Variable = Variable {
    name: "FASCICLE_CUDA_ARCHS",
    reader: "the build script of `fascicle-kernels-cuda`",
    values: "compute capabilities times ten, separated by semicolons or commas; `compute_90` is PTX, which a driver compiles for newer devices",
    default: "those of `80;90a;compute_90` that nvcc knows",
    meaning: "the architectures for which the kernels are compiled",
};

/// The compiler of the kernels for AMD.
pub const HIPCC: Variable = Variable {
    name: "FASCICLE_HIPCC",
    reader: "the build script of `fascicle-kernels-hip`",
    values: "a program",
    default: "`$ROCM_PATH/bin/hipcc`, then the search path, then `/opt/rocm/bin/hipcc`",
    meaning: "the compiler of the kernels for AMD",
};

/// The architectures of the kernels for AMD.
pub const HIP_ARCHITECTURES: Variable = Variable {
    name: "FASCICLE_HIP_ARCHS",
    reader: "the build script of `fascicle-kernels-hip`",
    values: "names such as `gfx90a`, separated by semicolons or commas",
    default: "those of `gfx90a;gfx942` that hipcc knows",
    meaning: "the architectures for which the kernels are compiled",
};

const FOLDERS: &str = "folders, separated by colons";
const NONE: &str = "none";
const LOADING_CUDA: &str = "the CUDA vendor when it loads its libraries";
const LOADING_ROCM: &str = "the ROCm vendor when it loads its libraries";

const CUDA_ROOT: Variable = Variable {
    name: "",
    reader: LOADING_CUDA,
    values: "a folder",
    default: "`/usr/local/cuda`, then `/usr/local/cuda-*`, `/usr/local/nvidia` and `nvidia/*` of Python's packages",
    meaning: "`lib64` and `lib` in it are searched after the loader's own search path",
};

const ROCM_ROOT: Variable = Variable {
    name: "",
    reader: LOADING_ROCM,
    values: "a folder",
    default: "`/opt/rocm`, then `/opt/rocm-*`",
    meaning: "`lib` in it is searched after the loader's own search path",
};

const fn size(name: &'static str, meaning: &'static str) -> Variable {
    Variable {
        name,
        reader: "every program, when it starts",
        values: "a number",
        default: "one process",
        meaning,
    }
}

const fn rank(name: &'static str, meaning: &'static str) -> Variable {
    Variable {
        name,
        reader: "every program, when it starts",
        values: "a number",
        default: "rank 0",
        meaning,
    }
}
