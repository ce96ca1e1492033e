//! Calls the C++ compiler.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A C++ compiler that runs.
#[derive(Debug)]
pub struct Compiler {
    program: String,
    /// The compiler's version text, which the name of a built library depends on.
    pub version: String,
}

/// One source file and its object file.
#[derive(Debug)]
pub struct Unit {
    pub source: PathBuf,
    pub object: PathBuf,
    pub flags: Vec<String>,
}

/// Number of compilers that run at once: tests run beside them.
const AT_ONCE: usize = 2;

impl Compiler {
    /// The compiler that `CXX` names, or `c++`, `g++`, `clang++`.
    pub fn find() -> Result<Self, String> {
        let asked = env::var("CXX").ok();
        let names: Vec<String> = match asked {
            Some(name) => vec![name],
            None => ["c++", "g++", "clang++"].map(String::from).to_vec(),
        };
        names
            .iter()
            .find_map(|name| Self::ask(name))
            .ok_or_else(|| {
                format!(
                    "no C++ compiler: none of {} can be run (CXX names another)",
                    names.join(", ")
                )
            })
    }

    fn ask(program: &str) -> Option<Self> {
        let output = Command::new(program).arg("--version").output().ok()?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then(|| Self {
            program: program.to_string(),
            version,
        })
    }

    /// Compiles all units, a few at a time.
    pub fn compile(&self, units: &[Unit]) -> Result<(), String> {
        for group in units.chunks(AT_ONCE) {
            let running: Vec<_> = group.iter().map(|unit| self.start(unit)).collect();
            for child in running {
                finish(child?)?;
            }
        }
        Ok(())
    }

    fn start(&self, unit: &Unit) -> Result<Child, String> {
        Command::new(&self.program)
            .args([
                "-std=c++20",
                "-O1",
                "-fPIC",
                "-pthread",
                "-fno-gnu-unique",
                "-c",
            ])
            .args(&unit.flags)
            .arg(&unit.source)
            .arg("-o")
            .arg(&unit.object)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|problem| format!("{}: {problem}", self.program))
    }

    /// Links a shared library that is never unloaded, because its threads keep running.
    pub fn link(
        &self,
        objects: &[PathBuf],
        needs: &[&Path],
        name: &str,
        to: &Path,
    ) -> Result<(), String> {
        let child = Command::new(&self.program)
            .args([
                "-shared",
                "-pthread",
                "-Wl,-z,nodelete",
                "-Wl,-rpath,$ORIGIN",
                "-Wl,--no-as-needed",
            ])
            .arg(format!("-Wl,-soname,{name}"))
            .args(objects)
            .args(needs)
            .args(["-ldl", "-o"])
            .arg(to.join(name))
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|problem| format!("{}: {problem}", self.program))?;
        finish(child)
    }
}

fn finish(child: Child) -> Result<(), String> {
    let output = child
        .wait_with_output()
        .map_err(|problem| problem.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let first: Vec<&str> = text.lines().take(20).collect();
    Err(format!("the C++ compiler failed:\n{}", first.join("\n")))
}
