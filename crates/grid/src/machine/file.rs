//! A machine's description, and its file.

use super::{
    bounds, device::Device, gemm::GemmModel, links::Links, mistake::Mistake, route::Placement,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Descriptions that ship with the library, by name.
const SHIPPED: [(&str, &str); 5] = [
    ("perlmutter", include_str!("../../machines/perlmutter.toml")),
    ("frontier", include_str!("../../machines/frontier.toml")),
    ("alps", include_str!("../../machines/alps.toml")),
    ("selene", include_str!("../../machines/selene.toml")),
    ("laptop", include_str!("../../machines/laptop.toml")),
];

/// A machine: nodes of equal devices, and the links between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name, as given to `--machine`.
    pub name: String,
    /// It in words.
    pub title: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of devices per node.
    pub devices_per_node: usize,
    /// One device.
    pub device: Device,
    /// Speed of GEMMs.
    pub product: GemmModel,
    /// The links between devices.
    pub links: Links,
}

/// What is wrong with a machine's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The name is neither a known machine nor a file.
    #[error("machine: found `{found}`, needs the file of a description or one of {known}")]
    Unknown {
        /// The requested name.
        found: String,
        /// The known names.
        known: String,
    },
    /// The file cannot be read.
    #[error("machine file {path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's error.
        reason: String,
    },
    /// The text is not a machine description.
    #[error("machine file {path}: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// The fault.
        reason: String,
    },
}

impl Machine {
    /// The machine with this name, or described by this file.
    ///
    /// # Errors
    /// [`MachineError::Unknown`] with the known names; [`MachineError::Unreadable`] for a file that the system refuses;
    /// as [`parse`](Machine::parse) for its text.
    pub fn find(name_or_path: &str) -> Result<Machine, MachineError> {
        let lower = name_or_path.to_ascii_lowercase();
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == lower) {
            return Machine::parse(text, name);
        }
        let path = Path::new(name_or_path);
        if !path.exists() {
            let known = SHIPPED.map(|(name, _)| name).join(", ");
            return Err(MachineError::Unknown {
                found: name_or_path.into(),
                known,
            });
        }
        let text = hal::files::read_text(path).map_err(|error| MachineError::Unreadable {
            path: name_or_path.into(),
            reason: error.to_string(),
        })?;
        Machine::parse(&text, name_or_path)
    }

    /// The machine that a text describes; `path` appears in messages.
    ///
    /// # Errors
    /// [`MachineError::Malformed`] with the line, or with the invalid number.
    pub fn parse(text: &str, path: &str) -> Result<Machine, MachineError> {
        let malformed = |reason: String| MachineError::Malformed {
            path: path.into(),
            reason,
        };
        let machine: Machine = toml::from_str(text)
            .map_err(|error| malformed(Mistake::of(text, &error).to_string()))?;
        bounds::check(&machine).map_err(malformed)?;
        Ok(machine)
    }

    /// The description as a file's text.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).unwrap_or_default()
    }

    /// Names of the machines that ship with the library.
    pub fn shipped() -> [&'static str; 5] {
        SHIPPED.map(|(name, _)| name)
    }

    /// The placement of `ranks` ranks on its nodes, one per device.
    pub fn placement(&self, ranks: usize) -> Placement {
        Placement::new(ranks, self.devices_per_node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_machines_are_sound_and_their_text_survives() {
        for name in Machine::shipped() {
            let machine = Machine::find(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(machine.name, name);
            assert_eq!(Machine::parse(&machine.to_toml(), name), Ok(machine));
        }
    }

    #[test]
    fn an_unknown_machine_is_told_the_known_ones() {
        let text = Machine::find("summit").unwrap_err().to_string();
        assert!(
            text.contains("`summit`") && text.contains("perlmutter, frontier"),
            "{text}"
        );
    }

    #[test]
    fn a_number_without_source_is_refused_by_name() {
        let mut machine = Machine::find("perlmutter").unwrap();
        machine.links.network_us.source.clear();
        let text = Machine::parse(&machine.to_toml(), "mine.toml")
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("mine.toml") && text.contains("links.network_us"),
            "{text}"
        );
        machine.links.network_us.source = "a guess".into();
        machine.device.memory_gbps.value = -1.0;
        let text = Machine::parse(&machine.to_toml(), "mine.toml")
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("device.memory_gbps: found -1.0, needs"),
            "{text}"
        );
    }
}
