//! Builds the code objects with nvcc, where there is one.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const COMPILER: &str = "FASCICLE_NVCC";
const ROOT: &str = "CUDA_HOME";
const ARCHITECTURES: &str = "FASCICLE_CUDA_ARCHS";
const KERNELS: &str = "../crates/gpu/kernels";

fn main() {
    for name in [COMPILER, ROOT, ARCHITECTURES, "PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    for path in [KERNELS, "kernels.cu", "CMakeLists.txt"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let objects = match find() {
        Ok(compiler) => build(&compiler, &architectures()),
        Err(reason) => {
            println!("cargo:warning=no device code for NVIDIA: {reason}");
            Vec::new()
        }
    };
    write(&objects);
}

fn architectures() -> Vec<String> {
    let list = env::var(ARCHITECTURES).unwrap_or_else(|_| "80;90".into());
    list.split([';', ',']).map(str::trim).filter(|name| !name.is_empty()).map(String::from).collect()
}

fn answers(program: &Path) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The compiler: the one that FASCICLE_NVCC names, that of CUDA_HOME, or that of the search path; and CMake.
fn find() -> Result<PathBuf, String> {
    let named = env::var_os(COMPILER).map(PathBuf::from);
    let of_root = env::var_os(ROOT).map(|root| Path::new(&root).join("bin/nvcc"));
    let folders = env::var_os("PATH").unwrap_or_default();
    let rest =
        env::split_paths(&folders).chain(["/usr/local/cuda/bin".into()]).map(|folder| folder.join("nvcc"));
    let candidates: Vec<PathBuf> =
        named.map_or_else(|| of_root.into_iter().chain(rest).collect(), |path| vec![path]);
    let found = candidates.iter().find(|program| answers(program));
    let looked: Vec<String> = candidates.iter().map(|program| program.display().to_string()).collect();
    let compiler =
        found.ok_or_else(|| format!("none of {} runs ({COMPILER} names another)", looked.join(", ")))?;
    if answers(Path::new("cmake")) { Ok(compiler.clone()) } else { Err("cmake does not run".into()) }
}

/// Architecture and file of every object.
fn build(compiler: &Path, architectures: &[String]) -> Vec<(String, PathBuf)> {
    let installed = cmake::Config::new(".")
        .define(COMPILER, compiler)
        .define(ARCHITECTURES, architectures.join(";"))
        .define("FASCICLE_KERNELS", fs::canonicalize(KERNELS).unwrap_or_else(|_| KERNELS.into()))
        .build();
    let file = |name: &String| (name.clone(), installed.join(format!("sm_{name}.cubin")));
    architectures.iter().map(file).collect()
}

/// Writes the list that the library includes.
fn write(objects: &[(String, PathBuf)]) {
    let entry = |(arch, file): &(String, PathBuf)| {
        format!("    Object {{ arch: {arch:?}, bytes: include_bytes!({:?}) }},\n", file.display().to_string())
    };
    let list: String = objects.iter().map(entry).collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let text = format!("&[\n{list}]\n");
    if let Err(error) = fs::write(out.join("objects.rs"), text) {
        panic!("{}: {error}", out.display());
    }
}
