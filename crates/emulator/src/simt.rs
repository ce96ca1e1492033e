//! The device's kernels compiled for the host: warps of 32 for CUDA, of 64 for HIP, in one library.

use crate::{
    IMAGE, cache,
    compiler::{Compiler, Unit},
    generation::Cuda,
    operands,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The library in which a launch looks its function up, beside the vendors' libraries.
const NAME: &str = "libfascicle_simt.so";

/// Builds the kernels, and puts links to them and to the image for programs into `beside`.
pub fn build(beside: &Path, cuda: Cuda) -> Result<(), String> {
    let compiler = Compiler::find()?;
    let simt = cache::crate_folder().join("simt");
    let kernels = cache::crate_folder().join("../gpu/kernels");
    let mut files = cache::sources(&[simt.clone(), kernels.clone()])?;
    files.push(cache::crate_folder().join("src/operands.rs"));
    let folder = cache::root().join(format!(
        "simt-{}",
        cache::fingerprint(&files, &compiler.version)?
    ));
    cache::once(&folder, |to| make(&compiler, &simt, &kernels, to))?;
    link(&folder.join(NAME), &beside.join(NAME))?;
    // A program looks the names of kernels of warpgroups up in its image.
    let image = match cuda {
        Cuda::V12 => beside.join("libcuda.so.1"),
        Cuda::V13 => folder.join(NAME),
    };
    link(&image, &beside.join(IMAGE))
}

fn make(compiler: &Compiler, simt: &Path, kernels: &Path, to: &Path) -> Result<(), String> {
    let table = operands::table(&cache::sources(&[kernels.to_path_buf()])?)?;
    let file = to.join("operands.h");
    fs::write(&file, table).map_err(|problem| format!("{}: {problem}", file.display()))?;
    let mut units = Vec::new();
    for source in cache::sources(&[simt.to_path_buf()])? {
        if source
            .extension()
            .is_none_or(|extension| extension != "cpp")
        {
            continue;
        }
        let warps: &[&str] = if source.ends_with("kernels.cpp") {
            &["32", "64"]
        } else {
            &["32"]
        };
        units.extend(warps.iter().map(|warp| unit(&source, warp, kernels, to)));
    }
    compiler.compile(&units)?;
    let objects: Vec<PathBuf> = units.into_iter().map(|unit| unit.object).collect();
    compiler.link(&objects, &[], NAME, to)
}

fn unit(source: &Path, warp: &str, kernels: &Path, to: &Path) -> Unit {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let own = source.parent().unwrap_or(kernels);
    let includes = [own, kernels, to].map(|folder| format!("-I{}", folder.display()));
    let flags = [
        format!("-DFASCICLE_WARP={warp}"),
        "-O2".to_string(),
        "-march=native".to_string(),
        "-ffp-contract=off".to_string(),
    ];
    let object = to.join(format!("{stem}-{warp}.o"));
    Unit {
        source: source.to_path_buf(),
        object,
        flags: [flags.as_slice(), &includes].concat(),
    }
}

/// Points `name` at `library`. A link of an earlier build is replaced in one step, because other processes may be using
/// it.
fn link(library: &Path, name: &Path) -> Result<(), String> {
    if fs::read_link(name).is_ok_and(|target| target == library) {
        return Ok(());
    }
    let say = |problem: std::io::Error| format!("{}: {problem}", name.display());
    let passing = name.with_extension(format!("{}.link", std::process::id()));
    let _ = fs::remove_file(&passing);
    std::os::unix::fs::symlink(library, &passing).map_err(say)?;
    fs::rename(&passing, name).map_err(say)
}
