//! The kernels in the dialect that CUDA and HIP share: headers, and this library for the build scripts that compile
//! them.
//!
//! Only these build scripts use it. To train on a GPU, begin with the crate `fascicle`, its features `cuda` and `rocm`, and
//! [GPUs](https://github.com/fascicle-rs/fascicle/blob/main/docs/gpus.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! `fascicle-kernels-cuda` and `fascicle-kernels-hip` call [`build()`]. Where a compiler is found, it compiles the
//! headers with CMake, and writes the list of objects that the crate includes.

#![forbid(unsafe_code)]

pub use hal::environment::table as variables;

use hal::environment::Variable;
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The settings of one vendor's build.
pub struct Vendor {
    /// The vendor whose devices run the code.
    pub name: &'static str,
    /// The compiler's file name.
    pub program: &'static str,
    /// The environment variable that names the compiler; CMake uses the same name.
    pub compiler: Variable,
    /// The environment variable that names the folder of the vendor's software, and the default folder.
    pub root: (Variable, &'static str),
    /// The environment variable that lists the architectures, and the default list, of which those count that the compiler
    /// knows.
    pub architectures: (Variable, &'static str),
    /// The compiler's options for an architecture, as in `CMakeLists.txt`.
    pub options: fn(&str) -> [String; 2],
    /// The source file beside the build script.
    pub source: &'static str,
    /// The name of an architecture's object, as in `CMakeLists.txt`.
    pub file: fn(&str) -> String,
}

/// The folder of the headers; `all.h` includes the others.
pub fn headers() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Builds the objects and writes their list. Without a compiler the list is empty, and a warning says where we looked.
pub fn build(vendor: &Vendor) {
    for variable in [
        vendor.compiler,
        vendor.root.0,
        vendor.architectures.0,
        variables::SEARCH_PATH,
    ] {
        println!("cargo:rerun-if-env-changed={}", variable.name);
    }
    for path in [
        headers(),
        Path::new(vendor.source),
        Path::new("CMakeLists.txt"),
    ] {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    let objects = match vendor.find() {
        Ok(compiler) => vendor.compile(&compiler),
        Err(reason) => {
            println!("cargo:warning=no device code for {}: {reason}", vendor.name);
            vendor.look_again();
            Vec::new()
        }
    };
    write(&objects);
}

impl Vendor {
    fn architectures(&self, compiler: &Path) -> Vec<String> {
        let (variable, default) = self.architectures;
        let named = variable.read();
        let list = named.as_deref().unwrap_or(default).split([';', ',']);
        list.map(str::trim)
            .filter(|name| !name.is_empty())
            .filter(|name| named.is_some() || self.knows(compiler, name))
            .map(String::from)
            .collect()
    }

    // An older compiler does not know the newest devices, and a newer one forgets the oldest.
    fn knows(&self, compiler: &Path, architecture: &str) -> bool {
        let source = out_dir().join("empty").with_extension(self.source);
        let mut compile = Command::new(compiler);
        compile.args((self.options)(architecture)).arg(&source);
        compile.arg("-o").arg(out_dir().join("empty.o"));
        fs::write(&source, "").is_ok() && compile.output().is_ok_and(|done| done.status.success())
    }

    /// Where the compiler may be: the path in its variable, or otherwise below the root in its variable, on the search
    /// path, and below the default root.
    fn candidates(&self) -> Vec<PathBuf> {
        if let Some(named) = self.compiler.read_os() {
            return vec![named.into()];
        }
        let below = |root: &Path| root.join("bin").join(self.program);
        let named = self.root.0.read_os().map(|root| below(Path::new(&root)));
        let folders = variables::SEARCH_PATH.read_os().unwrap_or_default();
        let on_path = env::split_paths(&folders).map(|folder| folder.join(self.program));
        named
            .into_iter()
            .chain(on_path)
            .chain([below(Path::new(self.root.1))])
            .collect()
    }

    /// Asks Cargo for another build once a program is installed where one was missing. Cargo takes a path that does not exist
    /// for changed, in every build; so this names the folders that do.
    fn look_again(&self) {
        let candidates = self.candidates();
        let folders: BTreeSet<&Path> = candidates.iter().filter_map(|path| path.parent()).collect();
        for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
            println!("cargo:rerun-if-changed={}", folder.display());
        }
    }

    fn find(&self) -> Result<PathBuf, String> {
        let candidates = self.candidates();
        let looked: Vec<String> = candidates
            .iter()
            .map(|program| program.display().to_string())
            .collect();
        let none = || {
            format!(
                "none of {} runs ({} names another)",
                looked.join(", "),
                self.compiler.name
            )
        };
        let compiler = candidates
            .iter()
            .find(|program| answers(program))
            .ok_or_else(none)?;
        if answers(Path::new("cmake")) {
            Ok(compiler.clone())
        } else {
            Err("cmake does not run".into())
        }
    }

    /// Architecture and file of every object.
    fn compile(&self, compiler: &Path) -> Vec<(String, PathBuf)> {
        let architectures = self.architectures(compiler);
        let installed = cmake::Config::new(".")
            .define(self.compiler.name, compiler)
            .define(self.architectures.0.name, architectures.join(";"))
            .define("FASCICLE_KERNELS", headers())
            .build();
        architectures
            .into_iter()
            .map(|name| (name.clone(), installed.join((self.file)(&name))))
            .collect()
    }
}

fn answers(program: &Path) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

fn out_dir() -> PathBuf {
    env::var_os("OUT_DIR").unwrap_or_default().into()
}

// PTX is a text, which the driver reads up to a zero; other objects contain their length.
fn terminated(file: &Path) -> PathBuf {
    if file.extension().is_none_or(|end| end != "ptx") {
        return file.into();
    }
    let name = file.file_name().unwrap_or_default().display();
    let with_zero = out_dir().join(format!("terminated-{name}"));
    let written = fs::read(file).and_then(|mut text| {
        text.push(0);
        fs::write(&with_zero, text)
    });
    written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    with_zero
}

// Drivers read headers of the image in place, and these need more alignment than bytes have.
fn write(objects: &[(String, PathBuf)]) {
    let entry = |(arch, file): &(String, PathBuf)| {
        let file = terminated(file).display().to_string();
        format!("    Object {{ arch: {arch:?}, bytes: &Aligned(*include_bytes!({file:?})).0 }},\n")
    };
    let list: String = objects.iter().map(entry).collect();
    let text = format!(
        "{{\n#[allow(dead_code)]\n#[repr(align(64))]\nstruct Aligned<T>(T);\nconst ALL: &[Object] = &[\n{list}];\nALL\n}}\n"
    );
    if let Err(error) = fs::write(out_dir().join("objects.rs"), text) {
        panic!("{}: {error}", out_dir().display());
    }
}
