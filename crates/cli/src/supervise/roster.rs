//! The hosts of a run: those that are listed, and which of them are left out.

use super::{
    blame,
    child::{self, Ended, Voice, Wish},
    hosts::{self, Host},
    journal::{Event, Journal},
    line::Line,
    supervisor::Limits,
};
use crate::{
    failure::{Failure, Outcome},
    output,
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    slice, thread,
    time::{Duration, Instant},
};
use train::Stop;

/// Where the list of hosts comes from.
#[derive(Clone, Debug)]
pub(crate) enum HostList {
    /// The command has no places for hosts.
    None,
    /// It does not change.
    Fixed(Vec<Host>),
    /// A file, which may change during the run, and the number of ranks of hosts that do not state theirs.
    File(PathBuf, Option<usize>),
}

/// The hosts, and why some are left out.
#[derive(Debug)]
pub(super) struct Roster {
    list: HostList,
    listed: Vec<Host>,
    out: BTreeMap<String, Out>,
}

#[derive(Debug)]
struct Out {
    why: String,
    // Whether it may return once it answers.
    returns: bool,
}

/// What `fascicle doctor --nodes` reports, as far as it matters here.
#[derive(Deserialize)]
struct Nodes {
    ranks: Vec<Rank>,
    slow: Vec<String>,
    slow_nodes: Vec<usize>,
}

#[derive(Deserialize)]
struct Rank {
    rank: usize,
    node: usize,
}

/// Hosts that are asked at the same time.
const PROBES: usize = 64;

impl Roster {
    /// Reads the list.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a file that cannot be read, and for what is no host.
    pub(super) fn new(list: HostList) -> Outcome<Roster> {
        Ok(Roster {
            listed: read(&list)?,
            list,
            out: BTreeMap::new(),
        })
    }

    /// Reads the list again. A run does not end because its file is wrong at the moment: the hosts of before stay.
    pub(super) fn renew(&mut self) {
        match read(&self.list) {
            Ok(listed) => self.listed = listed,
            Err(error) => {
                let said = error.sentence().unwrap_or_default();
                output::note(&format!("supervise: {said}; the hosts stay as they were"));
            }
        }
    }

    /// Whether the file lists other hosts than it did. One that cannot be read at the moment is being written.
    pub(super) fn has_moved(&self) -> bool {
        matches!(self.list, HostList::File(..))
            && read(&self.list).is_ok_and(|hosts| hosts != self.listed)
    }

    /// The hosts that are not left out.
    pub(super) fn left(&self) -> Vec<Host> {
        let is_left = |host: &&Host| !self.out.contains_key(&host.name);
        self.listed.iter().filter(is_left).cloned().collect()
    }

    /// The others and the reasons, to be appended to a sentence; empty if there are none.
    pub(super) fn out_in_words(&self) -> String {
        let out = self.out.iter();
        let words: Vec<_> = out
            .map(|(host, out)| format!("{host} ({})", out.why))
            .collect();
        match words.is_empty() {
            true => String::new(),
            false => format!("; left out: {}", words.join(", ")),
        }
    }

    /// Asks every host for a report, leaves out those that give none, and takes the others back. Then compares them, if that is
    /// wanted.
    pub(super) fn screen(
        &mut self,
        line: &Line,
        limits: Limits,
        stop: &Stop,
        journal: &mut Journal,
    ) {
        for some in self.listed.clone().chunks(PROBES) {
            let answers: Vec<_> = thread::scope(|scope| {
                let ask = |host| scope.spawn(move || probe(line, host, limits.probe, stop));
                let asked: Vec<_> = some.iter().map(ask).collect();
                let unasked = |_| Err("it was not asked".into());
                let answers = asked.into_iter().map(|thread| thread.join());
                answers
                    .map(|answer| answer.unwrap_or_else(unasked))
                    .collect()
            });
            for (host, answer) in some.iter().zip(answers) {
                match answer {
                    // A probe that was cut short says nothing of its host.
                    _ if stop.asked() => return,
                    Err(why) => self.leave_out(&host.name, why, true, journal),
                    Ok(()) => self.take_back(&host.name, journal),
                }
            }
        }
        if let Some(fraction) = limits.screen
            && self.left().len() > 1
            && let Err(why) = self.compare(line, limits, fraction, stop, journal)
        {
            output::note(&format!("supervise: the hosts were not compared: {why}"));
        }
    }

    // Leaves out hosts that are slower than the others.
    fn compare(
        &mut self,
        line: &Line,
        limits: Limits,
        fraction: f64,
        stop: &Stop,
        journal: &mut Journal,
    ) -> Result<(), String> {
        let (hosts, within) = (self.left(), fraction.to_string());
        let words = line.doctor(&hosts, &["--nodes", "--within", &within]);
        let ended = report(&words, limits.stall, stop)?;
        // Launchers may write lines of their own around the report.
        let found = ended.result.lines().find(|line| line.starts_with('{'));
        let nodes = found.and_then(|line| serde_json::from_str::<Nodes>(line).ok());
        let nodes = nodes.ok_or_else(|| unsaid(&ended))?;
        for text in &nodes.slow {
            output::note(&format!("supervise: slow: {text}"));
        }
        for node in &nodes.slow_nodes {
            let rank = nodes.ranks.iter().find(|seen| seen.node == *node);
            if let Some(host) = rank.and_then(|seen| hosts::host_of(&hosts, seen.rank)) {
                let why = format!("slower than {fraction} of what it was compared with");
                self.leave_out(host, why, true, journal);
            }
        }
        Ok(())
    }

    /// Leaves a host out, until it answers if it `returns`.
    pub(super) fn leave_out(
        &mut self,
        host: &str,
        why: String,
        returns: bool,
        journal: &mut Journal,
    ) {
        let said = why.clone();
        if self
            .out
            .insert(host.to_owned(), Out { why, returns })
            .is_none()
        {
            output::note(&format!("supervise: {host} is left out: {said}"));
            journal.add(Event::Out { host, why: &said });
        }
    }

    fn take_back(&mut self, host: &str, journal: &mut Journal) {
        if self.out.get(host).is_some_and(|out| out.returns) {
            self.out.remove(host);
            output::note(&format!("supervise: {host} answers, and is used again"));
            journal.add(Event::Back { host });
        }
    }
}

fn read(list: &HostList) -> Outcome<Vec<Host>> {
    match list {
        HostList::None => Ok(Vec::new()),
        HostList::Fixed(hosts) => Ok(hosts.clone()),
        HostList::File(path, slots) => read_file(path, *slots),
    }
}

fn read_file(path: &Path, slots: Option<usize>) -> Outcome<Vec<Host>> {
    let source = format!("--hosts-file {}", path.display());
    let text = hal::files::read_text(path)
        .map_err(|error| Failure::usage(format!("{source}: {error}")))?;
    hosts::parse(&source, &text, slots)
}

// Whether a host starts this program in time. A launcher that fails is tried once more: of several `mpirun` of Open MPI 4 that
// start together, one in some hundreds finds the folder that it makes for itself made by another, and ends.
fn probe(line: &Line, host: &Host, limit: Duration, stop: &Stop) -> Result<(), String> {
    let words = line.doctor(slice::from_ref(host), &[]);
    let mut ended = report(&words, limit, stop)?;
    if ended.status != Some(0) && !stop.asked() {
        ended = report(&words, limit, stop)?;
    }
    match ended.status {
        Some(0) => Ok(()),
        _ => Err(unsaid(&ended)),
    }
}

fn unsaid(ended: &Ended) -> String {
    let said = blame::sentence(&ended.report).unwrap_or_default();
    format!("no report: {}, {said}", ended.words())
}

// Runs a command that reports and ends; a run that is asked to stop does not wait for it.
fn report(words: &[String], limit: Duration, stop: &Stop) -> Result<Ended, String> {
    let (begun, mut late) = (Instant::now(), false);
    let wish = || {
        late = begun.elapsed() > limit;
        match late || stop.asked() {
            true => Wish::Kill,
            false => Wish::GoOn,
        }
    };
    let ended = child::run(words, Voice::Quiet, wish).map_err(|error| error.to_string())?;
    match late {
        true => Err(format!("no report within {} s", limit.as_secs_f64())),
        false => Ok(ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    // A launcher that starts nothing on `down`, fails the first time on `shaky`, and whose comparison finds the second host slow.
    fn launcher(dir: &Path) -> Line {
        let script = r#"case "$*" in *down*) echo 'fascicle: no route to it' >&2; exit 1 ;; esac
case "$*" in *shaky*) mkdir "$0.shaken" && exit 1 ;; esac
case "$*" in *late*) sleep 60 ;; esac
case "$*" in *--nodes*) echo '{"ranks": [{"rank": 0, "node": 0}, {"rank": 1, "node": 1}], "slow": ["b"], "slow_nodes": [1]}'; exit 1 ;; esac"#;
        let path = dir.join("launcher");
        fs::write(&path, script).unwrap();
        let words = [
            "sh",
            &path.to_string_lossy(),
            "{hosts}",
            "fascicle",
            "train",
        ];
        Line::new(words.map(str::to_owned).into()).unwrap()
    }

    fn left(roster: &Roster) -> String {
        let names: Vec<_> = roster.left().into_iter().map(|host| host.name).collect();
        names.join(" ")
    }

    #[test]
    fn hosts_that_do_not_answer_or_are_slow_are_left_out_and_return() {
        let dir = tempfile::tempdir().unwrap();
        let (line, stop) = (launcher(dir.path()), Stop::default());
        let mut journal = Journal::new(dir.path());
        let file = dir.path().join("hosts");
        let write = |names: &str| fs::write(&file, names).unwrap();
        write("a b down late");
        let mut roster = Roster::new(HostList::File(file.clone(), Some(1))).unwrap();
        let mut limits = Limits {
            restarts: 0,
            stall: Duration::from_secs(10),
            probe: Duration::from_secs(1),
            screen: None,
            exclude_slow: false,
        };
        roster.screen(&line, limits, &stop, &mut journal);
        assert_eq!(left(&roster), "a b");
        assert_eq!(
            roster.out_in_words(),
            "; left out: down (no report: exit status 1, fascicle: no route to it), late (no report within 1 s)"
        );
        limits.screen = Some(0.5);
        roster.screen(&line, limits, &stop, &mut journal);
        assert_eq!(left(&roster), "a");
        limits.screen = None;
        roster.leave_out("a", "named twice".into(), false, &mut journal);
        roster.screen(&line, limits, &stop, &mut journal);
        assert_eq!(left(&roster), "b", "one that was named does not return");

        // A list that is wrong at the moment changes nothing.
        write("a b:x");
        assert!(!roster.has_moved());
        roster.renew();
        assert_eq!(left(&roster), "b");
        write("b shaky");
        assert!(roster.has_moved());
        roster.renew();
        roster.screen(&line, limits, &stop, &mut journal);
        assert_eq!(left(&roster), "b shaky", "a launcher may fail once");
        assert!(dir.path().join("launcher.shaken").is_dir());
    }

    #[test]
    fn a_run_that_is_asked_to_stop_waits_for_no_host() {
        let dir = tempfile::tempdir().unwrap();
        let (line, stop) = (launcher(dir.path()), Stop::default());
        let hosts = hosts::parse("", "late:1,b:1", None).unwrap();
        let mut roster = Roster::new(HostList::Fixed(hosts)).unwrap();
        let limits = Limits {
            restarts: 0,
            stall: Duration::from_secs(60),
            probe: Duration::from_secs(60),
            screen: Some(0.5),
            exclude_slow: false,
        };
        stop.ask();
        let begun = Instant::now();
        roster.screen(&line, limits, &stop, &mut Journal::new(dir.path()));
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert_eq!(left(&roster), "late b", "nothing is known of them");
    }
}
