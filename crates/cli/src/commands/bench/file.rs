//! The machine description file that receives the measurements.

use crate::{
    failure::{Failure, Outcome},
    files,
};
use grid::machine::{Machine, links::Timed};
use std::path::Path;

/// Writes measured times into a machine description: the existing file, or a new one based on the laptop's.
///
/// # Errors
/// [`Failure::Usage`] for a file that is not a machine description; as [`write`](fn@write).
pub(crate) fn save(
    path: &Path,
    nodes: usize,
    ranks_per_node: usize,
    measured: Vec<Timed>,
) -> Outcome {
    let mut machine = found(path)?;
    (machine.nodes, machine.devices_per_node) = (nodes, ranks_per_node);
    machine.links.measured = measured;
    write(path, &machine)
}

/// Writes a machine description.
///
/// # Errors
/// [`Failure::Run`] with the path, if the system refuses.
pub(crate) fn write(path: &Path, machine: &Machine) -> Outcome {
    std::fs::write(path, machine.to_toml())
        .map_err(|error| Failure::run(format!("{}: {error}", path.display())))
}

/// Refuses, before any measurement, a file that cannot be written or is not a machine description.
///
/// # Errors
/// As [`files::check_output`]; [`Failure::Usage`] for a file that is not a machine description.
pub(crate) fn check(path: &Path) -> Outcome {
    files::check_output("--save", path)?;
    found(path).map(drop)
}

fn found(path: &Path) -> Outcome<Machine> {
    match path.exists() {
        true => Machine::find(&path.to_string_lossy()).map_err(Failure::usage),
        false => unknown(path),
    }
}

fn unknown(path: &Path) -> Outcome<Machine> {
    let laptop = Machine::find("laptop").map_err(Failure::run)?;
    let name = path
        .file_stem()
        .map_or("machine".into(), |stem| stem.to_string_lossy().into_owned());
    let title =
        "Links as fascicle bench collectives --save measured them; devices as those of the laptop"
            .into();
    Ok(Machine {
        name,
        title,
        ..laptop
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use grid::machine::Operation;

    #[test]
    fn a_file_that_cannot_be_kept_is_refused_before_measuring() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |path: &Path| check(path).unwrap_err().sentence().unwrap().to_owned();
        assert!(refused(&dir.path().join("none/x.toml")).contains("found no folder"));
        assert!(refused(dir.path()).contains("found a folder"));
        let other = dir.path().join("other.toml");
        std::fs::write(&other, "hello").unwrap();
        assert!(refused(&other).contains("other.toml"));
        assert!(check(&dir.path().join("new.toml")).is_ok());
    }

    #[test]
    fn measured_links_go_into_a_file_that_keeps_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("two_nodes.toml");
        let points = vec![[1024.0, 5.0], [4096.0, 10.0]];
        let timed = Timed {
            ranks: 4,
            inner: 1,
            size: 4,
            operation: Operation::AllReduce,
            points,
        };
        save(&path, 2, 4, vec![timed.clone()]).unwrap();
        let mut machine = Machine::find(&path.to_string_lossy()).unwrap();
        assert_eq!(
            (
                machine.name.as_str(),
                machine.nodes,
                machine.devices_per_node
            ),
            ("two_nodes", 2, 4)
        );
        assert_eq!(machine.links.measured, std::slice::from_ref(&timed));
        machine.device.name = "mine".into();
        std::fs::write(&path, machine.to_toml()).unwrap();
        save(&path, 4, 2, vec![timed]).unwrap();
        let again = Machine::find(&path.to_string_lossy()).unwrap();
        assert_eq!((again.nodes, again.device.name.as_str()), (4, "mine"));
    }
}
