//! `fascicle man`: a man page for each command.

use crate::{
    failure::{Failure, Outcome},
    help, output,
};
use clap::Args;
use clap_mangen::generate_to;
use std::{fs, path::PathBuf};

/// Arguments of `fascicle man`.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Folder for the pages, which is made if there is none
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Man {
    /// Writes the pages, and prints the folder.
    pub(crate) fn run(&self) -> Outcome {
        let refused = |error| Failure::Run(format!("{}: {error}", self.dir.display()));
        fs::create_dir_all(&self.dir).map_err(refused)?;
        // `fascicle help COMMAND` needs no page.
        let command = help::plain().disable_help_subcommand(true);
        generate_to(command, &self.dir).map_err(refused)?;
        output::path(&self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("man1");
        Man { dir: dir.clone() }.run().unwrap();
        let page = |name: &str| fs::read_to_string(dir.join(format!("{name}.1"))).unwrap();
        assert!(!dir.join("fascicle-help.1").exists());
        for command in help::plain().get_subcommands() {
            let name = format!("fascicle-{}", command.get_name());
            assert!(page(&name).contains("SYNOPSIS"), "{name}");
            for inside in command.get_subcommands() {
                page(&format!("{name}-{}", inside.get_name()));
            }
        }
        assert!(page("fascicle").contains("fascicle\\-train(1)"));
        assert!(page("fascicle-train").contains("auto\\-resume"));
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let dir = file.path().join("man1");
        let refused = Man { dir }.run().unwrap_err();
        let sentence = refused.sentence().unwrap_or_default();
        assert!(sentence.contains("man1: "), "{sentence}");
    }
}
