//! `fascicle doctor`: what this build supports and what this machine offers.

mod judge;
mod measure;
mod report;

use crate::{
    device,
    failure::{Failure, Outcome},
    launcher, machine,
    numbers::counted,
    output,
    ranks::Team,
};
use bootstrap::Processes;
use clap::Args;
use grid::machine::Machine;
use hal::{
    Driver, VendorId,
    environment::{self, Variable},
    error::Bytes,
};
use judge::Nodes;
use serde::Serialize;
use std::{ffi::OsString, fmt::Write};

/// Arguments of `fascicle doctor`.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Print instead every environment variable that Fascicle reads, with its current value and its meaning
    #[arg(long, conflicts_with = "json")]
    environment: bool,
    /// Measure instead the devices of the ranks that were started and the links between their nodes, and name those that are slow
    #[arg(long, conflicts_with = "environment")]
    nodes: bool,
    /// Machine with which --nodes compares too: a name or a description file
    #[arg(long, value_name = "NAME|FILE", requires = "nodes")]
    machine: Option<String>,
    /// Fraction of the median, and of the machine's number, below which --nodes calls something slow
    #[arg(
        long,
        value_name = "FRACTION",
        default_value_t = 0.8,
        requires = "nodes"
    )]
    within: f64,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Findings {
    version: &'static str,
    vendors: Vec<VendorFindings>,
    mpi: Vec<String>,
    cores: usize,
    processor: String,
    vectors: &'static str,
    memory_bytes: Option<usize>,
    available_bytes: Option<usize>,
    launcher: Option<&'static str>,
    launched_processes: Option<usize>,
}

#[derive(Debug, Serialize)]
struct VendorFindings {
    vendor: &'static str,
    compiled_in: bool,
    usable: bool,
    findings: Vec<String>,
}

impl Doctor {
    /// Prints the findings.
    pub(crate) fn run(
        &self,
        drivers: &[Driver],
        processes: Option<&'static dyn Processes>,
    ) -> Outcome {
        if self.environment {
            return output::result(&variables(Variable::read_os));
        }
        if let Some(processes) = processes.filter(|_| bootstrap::detect().processes.is_some()) {
            launcher::join(processes)?;
        }
        if self.nodes {
            return self.screen(drivers);
        }
        let findings = Findings::look(drivers, processes);
        match self.json {
            true => output::json(&findings),
            false => output::result(&findings.text()),
        }
    }
}

impl Doctor {
    /// Whether it runs ranks, as other commands do.
    pub(crate) fn measures(&self) -> bool {
        self.nodes
    }

    fn screen(&self, drivers: &[Driver]) -> Outcome {
        if !(self.within > 0.0 && self.within <= 1.0) {
            let found = self.within;
            return Err(Failure::Usage(format!(
                "--within: found {found}, needs above 0 and at most 1"
            )));
        }
        let named = self.machine.as_deref().map(Machine::find);
        let machine = named.transpose().map_err(Failure::usage)?;
        let driver = device::preferred(drivers)?;
        let ranks = launcher::num_ranks().unwrap_or(1);
        let team = Team::new(ranks, launcher::threads_each(ranks));
        let seen = team.run(driver, measure::all)?.swap_remove(0);
        let nodes = Nodes::new(seen, driver.vendor, machine.as_ref(), self.within);
        match self.json {
            true => output::json(&nodes)?,
            false => output::result(&nodes.text(driver.vendor))?,
        }
        match nodes.slow.as_slice() {
            [] => Ok(()),
            slow => Err(Failure::Run(format!(
                "doctor: {} below {} of the median or of the machine's number, the first: {}",
                counted(slow.len(), "measurement"),
                self.within,
                slow[0]
            ))),
        }
    }
}

impl Findings {
    fn look(drivers: &[Driver], processes: Option<&'static dyn Processes>) -> Findings {
        let launched = bootstrap::detect();
        let (memory_bytes, available_bytes) = machine::memory().unzip();
        Findings {
            version: env!("CARGO_PKG_VERSION"),
            vendors: known(drivers)
                .into_iter()
                .map(|vendor| probe(drivers, vendor))
                .collect(),
            mpi: mpi(processes),
            cores: machine::cores(),
            processor: machine::processor(),
            vectors: machine::vectors(),
            memory_bytes,
            available_bytes,
            launcher: launched.launcher_name,
            launched_processes: launched.processes,
        }
    }

    fn text(&self) -> String {
        let mut text = format!("fascicle {}\n", self.version);
        let mut line =
            |name: &str, value: String| writeln!(text, "{name:<10}{value}").unwrap_or_default();
        for vendor in &self.vendors {
            line(vendor.vendor, vendor.word().into());
            vendor
                .findings
                .iter()
                .for_each(|finding| line("", finding.clone()));
        }
        line("mpi", self.mpi.first().cloned().unwrap_or_default());
        self.mpi
            .iter()
            .skip(1)
            .for_each(|finding| line("", finding.clone()));
        line("launcher", self.launched());
        line(
            "processor",
            format!(
                "{}, {}, vectors: {}",
                self.processor,
                counted(self.cores, "core"),
                self.vectors
            ),
        );
        line("memory", self.memory());
        text.trim_end().to_owned()
    }

    fn launched(&self) -> String {
        match (self.launcher, self.launched_processes) {
            (Some(name), Some(processes)) => {
                format!("{name} started {}", counted(processes, "process"))
            }
            _ => "none: ranks run as threads of one process".into(),
        }
    }

    fn memory(&self) -> String {
        match (self.memory_bytes, self.available_bytes) {
            (Some(all), Some(available)) => {
                format!("{} available of {}", Bytes(available), Bytes(all))
            }
            _ => "unknown: the system does not report it".into(),
        }
    }
}

impl VendorFindings {
    fn word(&self) -> &'static str {
        match (self.compiled_in, self.usable) {
            (false, _) => "not compiled in",
            (true, false) => "compiled in, no device",
            (true, true) => "usable",
        }
    }
}

// What is known of MPI: in a job, everything found while joining it; otherwise the library alone.
fn mpi(processes: Option<&'static dyn Processes>) -> Vec<String> {
    match (processes, launcher::processes()) {
        (None, _) => vec!["not compiled in".into()],
        (Some(processes), None) => vec![format!("{}, no job joined", processes.library())],
        (Some(_), Some(joined)) => joined.findings(),
    }
}

// Those of this workspace, carried or not, and any other that the program carries.
fn known(drivers: &[Driver]) -> Vec<VendorId> {
    let mut known = vec![VendorId::CPU, VendorId::CUDA, VendorId::ROCM];
    for driver in drivers {
        if !known.contains(&driver.vendor) {
            known.push(driver.vendor);
        }
    }
    known
}

// The table of environment variables with their current values.
// `read` is the value of a variable of the environment.
fn variables(read: impl Fn(&Variable) -> Option<OsString>) -> String {
    let mut text = String::new();
    for section in environment::table::ALL {
        let _ = writeln!(text, "{}", section.title);
        for variable in section.variables {
            let value = match read(variable) {
                Some(value) => format!("= {}", value.to_string_lossy()),
                None => format!("not set; default: {}", variable.default),
            };
            let _ = writeln!(text, "  {:<29}{value}", variable.name);
            let _ = writeln!(text, "  {:<29}{}", "", variable.meaning);
        }
    }
    text.replace('`', "").trim_end().to_owned()
}

fn probe(drivers: &[Driver], vendor: VendorId) -> VendorFindings {
    let probe = drivers
        .iter()
        .find(|driver| driver.vendor == vendor)
        .map(|driver| (driver.probe)());
    let (compiled_in, usable) = (
        probe.is_some(),
        probe.as_ref().is_some_and(|probe| probe.usable),
    );
    let findings = probe.map_or_else(Vec::new, |probe| probe.findings);
    VendorFindings {
        vendor: vendor.name(),
        compiled_in,
        usable,
        findings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_vendors_says_so() {
        let text = Findings::look(&[], None).text();
        for part in [
            "cpu       not compiled in",
            "cuda      not compiled in",
            "mpi       not compiled in",
            "memory    ",
        ] {
            assert!(text.contains(part), "{part} not in\n{text}");
        }
    }

    #[test]
    fn variables_are_listed_with_their_values() {
        let read = |variable: &Variable| (variable.name == "PATH").then(|| "/bin".into());
        let text = variables(read);
        assert!(text.contains("FASCICLE_HIPCC               not set; default: $ROCM_PATH/bin"));
        assert!(
            text.contains("PATH                         = /bin\n"),
            "{text}"
        );
    }
}
