//! The vendors' libraries: the sources and the names of each.

use crate::{
    cache,
    compiler::{Compiler, Unit},
    generation::{Cuda, Generation, Hip},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Sources that are compiled together: the standard library's headers take most of a small file's compile time.
type Group = &'static [&'static str];

/// A library that builds on its vendor's common part.
struct Library {
    /// The library's name, and then other names for the same file.
    names: &'static [&'static str],
    groups: &'static [Group],
}

/// One vendor's libraries.
struct Vendor {
    /// The common part: memory, streams, GEMMs, collectives.
    core: &'static str,
    flags: Vec<String>,
    libraries: Vec<Library>,
}

const DRIVER: Group = &[
    "cuda/attributes.cpp",
    "cuda/context.cpp",
    "cuda/copy.cpp",
    "cuda/device.cpp",
    "cuda/launch.cpp",
    "cuda/memory.cpp",
    "cuda/pools.cpp",
    "cuda/stream.cpp",
];
const RUNTIME: Group = &[
    "hip/attributes.cpp",
    "hip/copy.cpp",
    "hip/device.cpp",
    "hip/launch.cpp",
    "hip/memory.cpp",
    "hip/stream.cpp",
];
const COLLECTIVES: &[Group] = &[&["collectives/calls.cpp"], &["collectives/nccl.cpp"]];

/// The core is compiled once for each vendor, so that both vendors' libraries can be in one process.
const CORE: &[Group] = &[
    &[
        "core/context.cpp",
        "core/copy.cpp",
        "core/event.cpp",
        "core/graph.cpp",
        "core/hardware.cpp",
        "core/live.cpp",
        "core/memory.cpp",
        "core/image.cpp",
        "core/module.cpp",
        "core/order.cpp",
        "core/settings.cpp",
        "core/status.cpp",
        "core/stream.cpp",
        "core/symbols.cpp",
        "blas/descriptors.cpp",
        "blas/handle.cpp",
        "blas/lt.cpp",
        "blas/pace.cpp",
        "blas/problem.cpp",
        "collectives/clique.cpp",
        "collectives/communicator.cpp",
        "collectives/group.cpp",
        "collectives/join.cpp",
    ],
    &["blas/product.cpp"],
    &["collectives/operation.cpp"],
];

fn nvidia(cuda: Cuda) -> Vendor {
    let (driver, cublas, cublas_names, light): (_, _, &[&str], &[&str]) = match cuda {
        Cuda::V12 => (12080, 120_804, &["libcublas.so.12"], &["libcublasLt.so.12"]),
        Cuda::V13 => (13000, 130_002, &["libcublas.so.13"], &["libcublasLt.so.13"]),
    };
    let flags = [
        format!("-DEMULATOR_CUDA_VERSION={driver}"),
        format!("-DEMULATOR_CUBLAS_VERSION={cublas}"),
        "-DEMULATOR_NCCL_VERSION=23203".to_string(),
    ];
    Vendor {
        core: "libfascicle_emulator_cuda.so",
        flags: flags.to_vec(),
        libraries: vec![
            Library {
                names: &["libcuda.so.1"],
                groups: &[DRIVER],
            },
            Library {
                names: cublas_names,
                groups: &[&["cuda/blas.cpp"]],
            },
            Library {
                names: light,
                groups: &[&["cuda/lt.cpp"]],
            },
            Library {
                names: &["libnccl.so.2"],
                groups: COLLECTIVES,
            },
        ],
    }
}

fn amd(hip: Hip) -> Vendor {
    // hipBLASLt's version and name; HIP 5.7 has none.
    let light: Option<(u32, &[&str])> = match hip {
        Hip::V5_7 => None,
        Hip::V6_4 => Some((1201, &["libhipblaslt.so.0"])),
        Hip::V7_1 => Some((100_100, &["libhipblaslt.so.1"])),
    };
    let (version, rccl, runtime, blas): (_, _, &[&str], &[&str]) = match hip {
        Hip::V5_7 => (
            50_731_921,
            21701,
            &["libamdhip64.so.5"],
            &["libhipblas.so.1", "libhipblas.so.0"],
        ),
        Hip::V6_4 => (
            60_443_484,
            22203,
            &["libamdhip64.so.6"],
            &["libhipblas.so.2"],
        ),
        Hip::V7_1 => (
            70_125_424,
            22707,
            &["libamdhip64.so.7"],
            &["libhipblas.so.3"],
        ),
    };
    let flags = [
        "-DEMULATOR_HIP".to_string(),
        format!("-DEMULATOR_HIP_VERSION={version}"),
        format!(
            "-DEMULATOR_HIPBLASLT_VERSION={}",
            light.map_or(0, |(version, _)| version)
        ),
        format!("-DEMULATOR_NCCL_VERSION={rccl}"),
    ];
    let light = light.map(|(_, name)| Library {
        names: name,
        groups: &[&["hip/lt.cpp"]],
    });
    Vendor {
        core: "libfascicle_emulator_hip.so",
        flags: flags.to_vec(),
        libraries: [
            Library {
                names: runtime,
                groups: &[RUNTIME],
            },
            Library {
                names: blas,
                groups: &[&["hip/blas.cpp"]],
            },
            Library {
                names: &["librccl.so.1"],
                groups: COLLECTIVES,
            },
        ]
        .into_iter()
        .chain(light)
        .collect(),
    }
}

/// Builds one generation's folder, or finds it built.
pub fn build(generation: Generation) -> Result<PathBuf, String> {
    let compiler = Compiler::find()?;
    let cpp = cache::crate_folder().join("cpp");
    let files = cache::sources(std::slice::from_ref(&cpp))?;
    let recipes =
        ["src/libraries.rs", "src/compiler.rs"].map(|recipe| cache::crate_folder().join(recipe));
    let files = [files.as_slice(), &recipes].concat();
    let place = cache::root().join(cache::fingerprint(&files, &compiler.version)?);
    let workshop = Workshop {
        compiler,
        cpp,
        place: place.clone(),
    };
    let folder = place.join(generation.to_string());
    cache::once(&folder, |to| {
        workshop.make(&nvidia(generation.cuda), to)?;
        workshop.make(&amd(generation.hip), to)
    })?;
    Ok(folder)
}

/// The folder and the compiler that libraries are built with.
struct Workshop {
    compiler: Compiler,
    cpp: PathBuf,
    place: PathBuf,
}

impl Workshop {
    fn make(&self, vendor: &Vendor, to: &Path) -> Result<(), String> {
        let core = self.core(vendor)?.join(vendor.core);
        let beside = to.join(vendor.core);
        fs::copy(&core, &beside).map_err(|problem| format!("{}: {problem}", core.display()))?;
        vendor
            .libraries
            .iter()
            .try_for_each(|library| self.library(vendor, library, &beside, to))
    }

    /// The common part, which all generations of a vendor share.
    fn core(&self, vendor: &Vendor) -> Result<PathBuf, String> {
        let folder = self.place.join(vendor.core.trim_end_matches(".so"));
        cache::once(&folder, |to| {
            let objects = self.compile(vendor, CORE, to)?;
            self.compiler.link(&objects, &[], vendor.core, to)
        })?;
        Ok(folder)
    }

    fn library(
        &self,
        vendor: &Vendor,
        library: &Library,
        core: &Path,
        to: &Path,
    ) -> Result<(), String> {
        let objects = self.compile(vendor, library.groups, to)?;
        self.compiler
            .link(&objects, &[core], library.names[0], to)?;
        for name in &library.names[1..] {
            let say = |problem: std::io::Error| format!("{name}: {problem}");
            std::os::unix::fs::symlink(library.names[0], to.join(name)).map_err(say)?;
        }
        Ok(())
    }

    fn compile(
        &self,
        vendor: &Vendor,
        groups: &[Group],
        to: &Path,
    ) -> Result<Vec<PathBuf>, String> {
        let folder = to.join("objects").join(vendor.core);
        fs::create_dir_all(&folder)
            .map_err(|problem| format!("{}: {problem}", folder.display()))?;
        let units: Result<Vec<Unit>, String> = groups
            .iter()
            .map(|group| self.unit(vendor, group, &folder))
            .collect();
        let units = units?;
        self.compiler.compile(&units)?;
        Ok(units.into_iter().map(|unit| unit.object).collect())
    }

    /// Writes the file that includes a group's sources.
    fn unit(&self, vendor: &Vendor, group: Group, folder: &Path) -> Result<Unit, String> {
        let mut flags = vendor.flags.clone();
        if matches!(group, ["blas/product.cpp"] | ["collectives/operation.cpp"]) {
            flags.extend(["-O3".to_string(), "-march=native".to_string()]);
        }
        let lines = group
            .iter()
            .map(|source| format!("#include \"{}\"\n", self.cpp.join(source).display()));
        let source = folder.join(group[0].replace('/', "_"));
        fs::write(&source, lines.collect::<String>())
            .map_err(|problem| format!("{}: {problem}", source.display()))?;
        let object = source.with_extension("o");
        Ok(Unit {
            source,
            object,
            flags,
        })
    }
}
