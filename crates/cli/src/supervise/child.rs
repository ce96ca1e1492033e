//! One start of the supervised command: its process group, the end of its report, and how it is asked to end.

use super::blame;
use crate::{failure::Failure, output};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How a start ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Its exit status, unless a signal ended it.
    pub(crate) status: Option<i32>,
    /// That signal.
    pub(crate) signal: Option<i32>,
    /// The last lines that it wrote to stderr.
    pub(crate) report: Vec<String>,
    /// What a [quiet](Voice::Quiet) one wrote to stdout.
    pub(crate) result: String,
}

/// Who reads what a start writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    /// The user: its stdout is this program's, and its stderr passes through.
    Aloud,
    /// This program alone.
    Quiet,
}

/// What a start is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To continue.
    GoOn,
    /// To end after its step, with a checkpoint. Launchers hand this signal (SIGUSR1) on to their processes.
    Stop,
    /// To end now.
    Kill,
}

/// Time between two looks at a start.
const LOOK: Duration = Duration::from_millis(50);
/// Time between the signal that asks a group to end and the one that ends it.
const LEAVE: Duration = Duration::from_secs(10);
/// Time after which a command that was asked to end is asked again: a launcher that is still starting its processes may lose the
/// signal, and a run that has heard it ignores another.
const AGAIN: Duration = Duration::from_secs(10);
/// Lines and bytes of a report that are kept.
const MOST_LINES: usize = 100;
const MOST_BYTES: u64 = 4096;
/// Bytes of a result: a report of many hosts and their links.
const MOST_RESULT: u64 = 256 << 20;

impl Ended {
    /// What it said of its failure. What a signal ended has not said why, and a run that was asked to stop has not failed.
    pub(crate) fn reason(&self) -> Option<&str> {
        let expected = [0, i32::from(Failure::STOPPED)];
        self.status.filter(|status| !expected.contains(status))?;
        blame::sentence(&self.report)
    }

    /// How it ended, in words.
    pub(crate) fn words(&self) -> String {
        match (self.status, self.signal) {
            (Some(status), _) => format!("exit status {status}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown".into(),
        }
    }
}

/// The groups of all commands that run.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends all commands that run, at once.
pub(crate) fn end_all() {
    for group in running().iter() {
        kill_process_group(*group, Signal::KILL).ok();
    }
}

/// Runs the command until it ends; `wish` says what it is asked, at every look.
///
/// # Errors
/// Those of the system, such as a program that does not exist.
pub(crate) fn run(
    words: &[String],
    voice: Voice,
    mut wish: impl FnMut() -> Wish,
) -> io::Result<Ended> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    // A group of its own: a Ctrl-C reaches this program alone, which asks the run to stop in its own words.
    command.process_group(0);
    if voice == Voice::Quiet {
        command.stdout(Stdio::piped());
    }
    let mut child = command.spawn()?;
    let (lines, reader) = kept(&mut child, voice);
    let result = child.stdout.take().map(|pipe| {
        thread::spawn(move || {
            let mut text = Vec::new();
            // What was read before an error is no JSON, which its reader finds out.
            pipe.take(MOST_RESULT).read_to_end(&mut text).ok();
            String::from_utf8_lossy(&text).into_owned()
        })
    });
    let group = Pid::from_child(&child);
    running().push(group);
    let (mut asked, mut killed) = (None::<Instant>, None::<Instant>);
    let status = loop {
        // Its number may belong to another process once it has been waited for.
        let mut all = running();
        if let Some(status) = child.try_wait()? {
            all.retain(|other| *other != group);
            break status;
        }
        drop(all);
        // A process that has ended in the meantime cannot be signalled, which the next look shows.
        match wish() {
            Wish::Stop if asked.is_none_or(|asked| asked.elapsed() > AGAIN) => {
                asked = Some(Instant::now());
                kill_process(group, Signal::USR1).ok();
            }
            Wish::Kill => {
                let begun = *killed.get_or_insert_with(|| {
                    kill_process_group(group, Signal::TERM).ok();
                    Instant::now()
                });
                if begun.elapsed() > LEAVE {
                    kill_process_group(group, Signal::KILL).ok();
                }
            }
            _ => {}
        }
        thread::sleep(LOOK);
    };
    // A process that was left behind may hold the pipe open.
    let end = Instant::now();
    let is_read = || reader.is_finished() && result.as_ref().is_none_or(JoinHandle::is_finished);
    while !is_read() && end.elapsed() < Duration::from_secs(1) {
        thread::sleep(LOOK / 10);
    }
    let result = result.filter(JoinHandle::is_finished);
    let report = lines.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Ended {
        status: status.code(),
        signal: status.signal(),
        report: report.iter().cloned().collect(),
        result: result
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default(),
    })
}

type Lines = Arc<Mutex<VecDeque<String>>>;

// Hands stderr on, and keeps its last lines.
fn kept(child: &mut Child, voice: Voice) -> (Lines, JoinHandle<()>) {
    let (lines, pipe) = (Lines::default(), child.stderr.take());
    let kept = lines.clone();
    let reader = thread::spawn(move || {
        let Some(pipe) = pipe else { return };
        let mut pipe = BufReader::new(pipe);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            // A line without an end is taken in parts.
            match pipe.by_ref().take(MOST_BYTES).read_until(b'\n', &mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim_end_matches(['\n', '\r']);
            if voice == Voice::Aloud {
                output::note(line);
            }
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_back(line.to_owned());
            if kept.len() > MOST_LINES {
                kept.pop_front();
            }
        }
    });
    (lines, reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, wish: impl FnMut() -> Wish) -> Ended {
        run(&["sh", "-c", script].map(str::to_owned), Voice::Quiet, wish).unwrap()
    }

    #[test]
    fn a_start_ends_with_its_status_and_its_last_words() {
        let ended = shell(
            "for i in $(seq 200); do echo line $i >&2; done; exit 7",
            || Wish::GoOn,
        );
        assert_eq!(
            (ended.status, ended.words()),
            (Some(7), "exit status 7".into())
        );
        assert_eq!(ended.report.len(), MOST_LINES);
        assert_eq!(ended.report.last().map(String::as_str), Some("line 200"));
        let ended = shell("kill -9 $$", || Wish::GoOn);
        assert_eq!((ended.status, ended.words()), (None, "signal 9".into()));
        assert!(
            run(&["/no/such/program".to_owned()], Voice::Quiet, || {
                Wish::GoOn
            })
            .is_err()
        );
    }

    #[test]
    fn a_quiet_start_gives_its_result() {
        let ended = shell("seq 100000; echo fault >&2", || Wish::GoOn);
        assert_eq!(ended.result.lines().count(), 100_000);
        assert_eq!(ended.report, ["fault"]);
    }

    #[test]
    fn it_is_not_asked_again_at_once_and_may_take_its_time() {
        let script = "n=0; trap 'n=$((n + 1))' USR1; i=0; while [ $i -lt 20 ]; do sleep 0.05; i=$((i + 1)); done; exit $((n + 10))";
        let begun = Instant::now();
        let wish = || match begun.elapsed() > Duration::from_millis(200) {
            true => Wish::Stop,
            false => Wish::GoOn,
        };
        assert_eq!(shell(script, wish).status, Some(11));
    }

    #[test]
    fn a_start_that_hangs_is_ended_with_its_children() {
        let begun = Instant::now();
        let ended = shell("sleep 1000 & wait", || Wish::Kill);
        assert_eq!(ended.signal, Some(15));
        assert!(begun.elapsed() < LEAVE, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_process_that_is_left_behind_does_not_hold_the_supervisor() {
        let begun = Instant::now();
        let ended = shell("sleep 5 & exit 4", || Wish::GoOn);
        assert_eq!(ended.status, Some(4));
        assert!(
            begun.elapsed() < Duration::from_secs(4),
            "{:?}",
            begun.elapsed()
        );
    }
}
