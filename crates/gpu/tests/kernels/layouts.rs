//! The structs of arguments have the layout that the device functions expect.

use fascicle_gpu::lower::layouts::{Layout, all};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::Command,
};

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
        .args(["-std=c++20", "-DFASCICLE_WARP=32", "-w"])
        .arg("-I")
        .arg(here.join("kernels"));
    // What runs kernels is linked too, because they call it.
    let runs = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "cpp") && !path.ends_with("kernels.cpp")
    };
    let listed = std::fs::read_dir(&simt).unwrap();
    let sources = listed.map(|entry| entry.unwrap().path()).filter(runs);
    compiler
        .arg("-I")
        .arg(&simt)
        .arg(&source)
        .args(sources)
        .args(["-lpthread", "-o"])
        .arg(&program);
    let Ok(status) = compiler.status() else {
        eprintln!("skipped: no C++ compiler");
        return;
    };
    assert!(status.success(), "{compiler:?}");
    let found = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    assert_eq!(found, expected(&all()));
}
