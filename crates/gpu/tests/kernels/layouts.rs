//! The structs of arguments have the layout that the device functions expect.

use fascicle_gpu::lower::layouts::{Layout, all};
use std::{fmt::Write, path::Path, process::Command};

/// A C++ program that prints the size and the offsets of every struct.
fn probe(layouts: &[Layout]) -> String {
    let mut text =
        String::from("#include <cstdio>\n#include \"simt.h\"\n#include \"all.h\"\nint main() {\n");
    for Layout { name, fields, .. } in layouts {
        writeln!(
            text,
            "std::printf(\"{name} %zu\", sizeof(fascicle::{name}));"
        )
        .unwrap();
        for (field, _) in *fields {
            writeln!(
                text,
                "std::printf(\" {field}=%zu\", offsetof(fascicle::{name}, {field}));"
            )
            .unwrap();
        }
        writeln!(text, "std::printf(\"\\n\");").unwrap();
    }
    text + "}\n"
}

fn expected(layouts: &[Layout]) -> String {
    let fields = |layout: &Layout| {
        layout
            .fields
            .iter()
            .map(|(name, offset)| format!(" {name}={offset}"))
            .collect::<String>()
    };
    layouts
        .iter()
        .map(|layout| format!("{} {}{}\n", layout.name, layout.bytes, fields(layout)))
        .collect()
}

#[test]
fn structures_are_those_of_the_device_functions() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("probe.cpp");
    let program = folder.path().join("probe");
    std::fs::write(&source, probe(&all())).unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let simt = here.join("../emulator/simt");
    let mut compiler = Command::new(std::env::var("CXX").unwrap_or_else(|_| "g++".into()));
    compiler
        .args(["-std=c++17", "-DFASCICLE_WARP=32", "-w"])
        .arg("-I")
        .arg(here.join("kernels"));
    // Only the layout counts: the table of kernels stays empty, and what kernels call is not there.
    let table =
        "namespace simt { Registration::Registration(const Kernel&) {} __thread Place place; }";
    std::fs::write(
        folder.path().join("table.cpp"),
        format!("#include \"simt.h\"\n{table}\n"),
    )
    .unwrap();
    compiler
        .arg("-I")
        .arg(simt)
        .arg(&source)
        .arg(folder.path().join("table.cpp"))
        .arg("-Wl,--unresolved-symbols=ignore-all")
        .arg("-o")
        .arg(&program);
    let Ok(status) = compiler.status() else {
        eprintln!("skipped: no C++ compiler");
        return;
    };
    assert!(status.success(), "{compiler:?}");
    let found = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    assert_eq!(found, expected(&all()));
}
