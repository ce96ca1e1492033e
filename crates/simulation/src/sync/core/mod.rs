//! The scheduler: which thread has the turn, what the others wait for, and what time it is.

mod faults;
mod turns;

use super::faults::Fault;
use super::random::Random;
use std::thread::Thread;
use std::time::Duration;

/// The most nanoseconds that pass between two points of a thread that works.
const LONGEST_STEP_NS: u64 = 2_000;

/// How a simulation runs.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Decides who has the turn, and how long steps take.
    pub seed: u64,
    /// What happens to processes.
    pub faults: Vec<Fault>,
    /// A process that rarely has the turn while others want it.
    pub slow: Option<usize>,
    /// The points after which a simulation counts as endless, if it has a limit.
    pub most_points: Option<u64>,
    /// The time after which it does.
    pub most_time: Option<Duration>,
}

/// Why a simulation has ended before its body did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// No thread can run, now or later. Names each thread and what it waits for.
    Deadlock(String),
    /// The threads did not end.
    Endless(String),
    /// As a fault demanded.
    PowerCut,
}

/// What a thread does.
#[derive(Debug, PartialEq)]
enum Doing {
    Runs,
    Waits {
        key: usize,
        until: Option<u64>,
        what: &'static str,
    },
    Ended,
}

#[derive(Debug)]
struct Member {
    name: String,
    process: usize,
    doing: Doing,
    /// Whether its last wait ended at its limit.
    expired: bool,
    /// Locks that it holds.
    held: u32,
    // Of the system; nothing until the thread has begun.
    system: Option<Thread>,
}

#[derive(Clone, Debug, Default)]
struct Process {
    points: u64,
    is_dead: bool,
    stopped_until: u64,
    ahead: u64,
}

/// The state of a simulation. The thread that has the turn changes it.
#[derive(Debug)]
pub(super) struct Core {
    random: Random,
    settings: Settings,
    threads: Vec<Member>,
    /// Those that have not ended.
    alive: Vec<usize>,
    processes: Vec<Process>,
    pub(super) turn: usize,
    pub(super) halted: Option<Halt>,
    now_ns: u64,
    points: u64,
    /// Points left until the next one at which the turn may pass on.
    quiet: u64,
    /// The mean number of points between two such.
    pace: u64,
    trace: u64,
    num_faults: usize,
}

impl Core {
    pub(super) fn new(settings: Settings) -> Core {
        let mut random = Random::new(settings.seed);
        let pace = random.one_of(&[10, 30, 100, 300, 1000]);
        Core {
            random,
            settings,
            threads: Vec::new(),
            alive: Vec::new(),
            processes: Vec::new(),
            turn: 0,
            halted: None,
            now_ns: 0,
            points: 0,
            quiet: 0,
            pace,
            trace: 0,
            num_faults: 0,
        }
    }

    /// Adds a thread, which may run from now on, and returns its number.
    pub(super) fn add(&mut self, name: String, process: usize) -> usize {
        if self.processes.len() <= process {
            self.processes.resize(process + 1, Process::default());
        }
        self.alive.push(self.threads.len());
        self.threads.push(Member {
            name,
            process,
            doing: Doing::Runs,
            expired: false,
            held: 0,
            system: None,
        });
        self.threads.len() - 1
    }

    pub(super) fn set_system(&mut self, thread: usize, system: Thread) {
        self.threads[thread].system = Some(system);
    }

    pub(super) fn process_of(&self, thread: usize) -> usize {
        self.threads[thread].process
    }

    pub(super) fn hold(&mut self, thread: usize, more: i32) {
        let held = &mut self.threads[thread].held;
        *held = held
            .checked_add_signed(more)
            .expect("as many locks as were taken");
    }

    pub(super) fn is_ended(&self, thread: usize) -> bool {
        self.threads[thread].doing == Doing::Ended
    }

    /// Whether no lock is held by a thread that will never run again.
    pub(super) fn leaves_no_lock(&self) -> bool {
        self.threads.iter().all(|thread| thread.held == 0)
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns)
    }

    pub(super) fn points(&self) -> u64 {
        self.points
    }

    pub(super) fn num_faults(&self) -> usize {
        self.num_faults
    }

    pub(super) fn trace(&self) -> u64 {
        self.trace
    }

    /// The clock of a thread's process.
    pub(super) fn clock(&self, thread: usize) -> Duration {
        let ahead = self.processes[self.threads[thread].process].ahead;
        Duration::from_nanos(self.now_ns + ahead)
    }

    /// A thread passes a point; returns whether the turn may pass on.
    pub(super) fn pass_point(&mut self, thread: usize) -> bool {
        self.points += 1;
        let process = self.threads[thread].process;
        self.processes[process].points += 1;
        self.now_ns += 1 + self.random.below(LONGEST_STEP_NS);
        if self.quiet > 0 && self.settings.faults.is_empty() {
            self.quiet -= 1;
            return false;
        }
        self.meet_faults();
        let is_held_up = self.is_held_up(thread);
        if self.quiet > 0 && !is_held_up && self.halted.is_none() {
            self.quiet -= 1;
            return false;
        }
        self.quiet = self.next_quiet();
        true
    }

    // Handing the turn over is what a simulation costs. So threads mostly run on for long, as on a real machine, but at times the
    // turn passes at nearly every point: bugs need a few switches at the right places.
    fn next_quiet(&mut self) -> u64 {
        match self.random.below(4) {
            0 => self.random.below(3),
            _ => self.random.below(2 * self.pace),
        }
    }

    /// A thread waits from now on.
    pub(super) fn begin_wait(
        &mut self,
        thread: usize,
        what: &'static str,
        key: usize,
        limit: Option<Duration>,
    ) {
        self.points += 1;
        let process = self.threads[thread].process;
        self.processes[process].points += 1;
        let ns = |limit: Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let until = limit.map(|limit| self.now_ns.saturating_add(ns(limit)));
        self.threads[thread].doing = Doing::Waits { key, until, what };
        self.meet_faults();
        // Condition variables may wake for no reason.
        if what == "a notification" && self.random.below(64) == 0 {
            self.wake(thread, false);
        }
    }

    /// Whether the last wait of a thread ended at its limit.
    pub(super) fn has_expired(&self, thread: usize) -> bool {
        self.threads[thread].expired
    }

    fn wake(&mut self, thread: usize, expired: bool) {
        let thread = &mut self.threads[thread];
        (thread.doing, thread.expired) = (Doing::Runs, expired);
    }

    fn waits_for(&self, thread: usize, of: usize) -> bool {
        matches!(self.threads[thread].doing, Doing::Waits { key, .. } if key == of)
    }

    /// Wakes all that wait for `key`.
    pub(super) fn wake_all(&mut self, key: usize) {
        for index in 0..self.alive.len() {
            let thread = self.alive[index];
            if self.waits_for(thread, key) {
                self.wake(thread, false);
            }
        }
    }

    /// Wakes one that waits for `key`.
    pub(super) fn wake_one(&mut self, key: usize) {
        if let Some(thread) = self.any(|core, thread| core.waits_for(thread, key)) {
            self.wake(thread, false);
        }
    }

    /// A thread is over.
    pub(super) fn end(&mut self, thread: usize) {
        self.threads[thread].doing = Doing::Ended;
        self.alive.retain(|other| *other != thread);
    }
}
