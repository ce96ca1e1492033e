//! The supervised command line: where the program is in it, and what is filled in for each start.

use super::hosts::{self, Host};
use crate::failure::{Failure, Outcome};

/// A command with places for hosts and ranks.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    words: Vec<String>,
    // The index of the word that names the program.
    program: usize,
}

/// The places, and what stands there for `a` with 4 ranks and `b` with 3.
const PLACES: [(&str, &str); 4] = [
    ("{hosts}", "a:4,b:3"),
    ("{names}", "a,b"),
    ("{nodes}", "2"),
    ("{ranks}", "7"),
];

impl Line {
    /// A command in which `fascicle train` occurs, perhaps after a launcher and its flags.
    ///
    /// # Errors
    /// [`Failure::Usage`] without that program, and for `{ranks}` or `{nodes}` without the hosts that they count.
    pub(crate) fn new(words: Vec<String>) -> Outcome<Line> {
        let is_program = |word: &String| {
            let name = std::path::Path::new(word).file_name();
            name.is_some_and(|name| name == "fascicle")
        };
        let Some(program) = words.iter().position(is_program) else {
            return Err(Failure::Usage(format!(
                "supervise: found `{}`, needs a command with `fascicle train` in it",
                words.join(" ")
            )));
        };
        let line = Line { words, program };
        let counts = line.has("{ranks}") || line.has("{nodes}");
        match counts && !line.varies() {
            true => Err(Failure::usage(
                "supervise: found {ranks} or {nodes} in the command, needs {hosts} or {names} too, by which the launcher finds them",
            )),
            false => Ok(line),
        }
    }

    fn has(&self, place: &str) -> bool {
        self.words.iter().any(|word| word.contains(place))
    }

    /// Whether the hosts are filled in, so that another start can be on others.
    pub(crate) fn varies(&self) -> bool {
        self.has("{hosts}") || self.has("{names}")
    }

    /// The program and its arguments.
    fn program(&self) -> &[String] {
        &self.words[self.program..]
    }

    /// Whether the program's own arguments state the number of ranks by a place.
    pub(crate) fn states_ranks(&self) -> bool {
        self.program().iter().any(|word| word.contains("{ranks}"))
    }

    /// The command on these hosts. A number of ranks that the supervisor has `chosen` becomes an argument of the program, unless the
    /// command has a place for it.
    pub(crate) fn on(&self, hosts: &[Host], chosen: bool) -> Vec<String> {
        let mut words = fill(&self.words, hosts);
        if chosen && self.varies() && !self.states_ranks() {
            words.extend(["--ranks".to_owned(), hosts::num_ranks(hosts).to_string()]);
        }
        words
    }

    /// The program and its arguments for this number of ranks; the other places are filled with examples.
    pub(crate) fn program_with(&self, ranks: usize) -> Vec<String> {
        let ranks = ranks.to_string();
        let replaced = |word: &String| {
            let word = word.replace("{ranks}", &ranks);
            let places = PLACES.iter();
            places.fold(word, |word, (place, text)| word.replace(place, text))
        };
        self.program().iter().map(replaced).collect()
    }

    /// The command that starts this program's report instead, with more arguments.
    pub(crate) fn doctor(&self, hosts: &[Host], more: &[&str]) -> Vec<String> {
        let mut words = fill(&self.words[..=self.program], hosts);
        words.extend(
            ["doctor", "--json"]
                .iter()
                .chain(more)
                .map(|word| word.to_string()),
        );
        words
    }
}

fn fill(words: &[String], hosts: &[Host]) -> Vec<String> {
    let list = |of: &dyn Fn(&Host) -> String| hosts.iter().map(of).collect::<Vec<_>>().join(",");
    let texts = [
        list(&|host| format!("{}:{}", host.name, host.slots)),
        list(&|host| host.name.clone()),
        hosts.len().to_string(),
        hosts::num_ranks(hosts).to_string(),
    ];
    let filled = |word: &String| {
        let places = PLACES.iter().zip(&texts);
        places.fold(word.clone(), |word, ((place, _), text)| {
            word.replace(place, text)
        })
    };
    words.iter().map(filled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Outcome<Line> {
        Line::new(text.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn places_are_filled_for_a_start_and_for_a_probe() {
        let line =
            line("mpirun --host {hosts} -n {ranks} bin/fascicle train c.toml --out r").unwrap();
        let hosts = hosts::parse("", "a:4,b:3", None).unwrap();
        let words = line.on(&hosts, true);
        assert_eq!(
            words.join(" "),
            "mpirun --host a:4,b:3 -n 7 bin/fascicle train c.toml --out r --ranks 7"
        );
        assert_eq!(
            line.doctor(&hosts[1..], &["--nodes"]).join(" "),
            "mpirun --host b:3 -n 3 bin/fascicle doctor --json --nodes"
        );
        assert_eq!(
            line.program_with(1).join(" "),
            "bin/fascicle train c.toml --out r"
        );
        let stated = "mpirun --host {hosts} fascicle train --grid data={ranks} --out {nodes}";
        let stated = self::line(stated).unwrap();
        assert_eq!(
            stated.on(&hosts, true).join(" "),
            "mpirun --host a:4,b:3 fascicle train --grid data=7 --out 2"
        );
        assert_eq!(
            stated.program_with(5).join(" "),
            "fascicle train --grid data=5 --out 2"
        );
        let all = PLACES.map(|(place, _)| place).join(" ");
        let said = PLACES.map(|(_, text)| text).join(" ");
        assert_eq!(fill(&[all], &hosts), [said]);
    }

    #[test]
    fn a_command_without_the_program_or_the_hosts_is_refused() {
        let refused = |text: &str| line(text).unwrap_err().sentence().unwrap().to_owned();
        assert!(
            refused("mpirun -n 4 other train").contains("needs a command with `fascicle train`")
        );
        assert!(refused("srun -n {ranks} fascicle train").contains("needs {hosts} or {names} too"));
        assert!(!line("fascicle train").unwrap().varies());
    }
}
