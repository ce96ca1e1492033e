//! `fascicle completions`: a script with which a shell completes the program's commands and options.

use crate::{failure::Outcome, help, output};
use clap::Args;
use clap_complete::{Shell, generate};

/// Arguments of `fascicle completions`.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the script.
    pub(crate) fn run(&self) -> Outcome {
        output::piece(&self.script())
    }

    fn script(&self) -> String {
        let mut script = Vec::new();
        generate(self.shell, &mut help::command(), "fascicle", &mut script);
        String::from_utf8_lossy(&script).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::process::Command;

    #[test]
    fn bash_completes_an_option_and_a_value() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("fascicle.bash");
        let script = Completions { shell: Shell::Bash }.script();
        std::fs::write(&file, script).unwrap();
        let completed = |words: &str, begun: &str| {
            let last = words.split(' ').next_back().unwrap();
            let number = words.split(' ').count();
            let program = format!(
                "source {}; COMP_WORDS=({words} {begun}); COMP_CWORD={number}; \
                 _fascicle fascicle '{begun}' '{last}'; echo \"${{COMPREPLY[@]}}\"",
                file.display()
            );
            let ran = Command::new("bash").args(["-c", &program]).output();
            String::from_utf8(ran.unwrap().stdout).unwrap()
        };
        assert_eq!(completed("fascicle train", "--auto"), "--auto-resume\n");
        assert_eq!(completed("fascicle checkpoint", "ver"), "verify\n");
        assert_eq!(
            completed("fascicle train --precision", "bf"),
            "bf16\n",
            "a value"
        );
    }

    #[test]
    fn every_shell_has_every_command() {
        for shell in Shell::value_variants() {
            let script = Completions { shell: *shell }.script();
            for command in help::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}");
            }
        }
    }
}
