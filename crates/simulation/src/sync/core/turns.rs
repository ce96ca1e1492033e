//! Who gets the turn, and how time passes when nobody can take it.

use super::super::random::mix;
use super::{Core, Doing, Halt};
use std::thread::Thread;

impl Core {
    /// Gives the turn to a thread that can run, and returns it. Lets time pass if there is none.
    pub(in super::super) fn pass_on(&mut self) -> Option<Thread> {
        let is_over = self
            .settings
            .most_points
            .is_some_and(|most| self.points > most)
            || self
                .settings
                .most_time
                .is_some_and(|most| self.now() > most);
        if is_over {
            self.halted.get_or_insert(Halt::Endless(self.describe()));
        }
        while self.halted.is_none() {
            self.expire();
            if let Some(thread) = self.choose() {
                self.turn = thread;
                self.trace = mix(self.trace ^ mix(self.now_ns ^ ((thread as u64) << 48)));
                return self.threads[thread].system.clone();
            }
            match self.next_event() {
                Some(time) => self.now_ns = time.max(self.now_ns + 1),
                None => self.halted = Some(Halt::Deadlock(self.describe())),
            }
        }
        None
    }

    fn choose(&mut self) -> Option<usize> {
        let can_run = |core: &Core, thread: usize| {
            core.threads[thread].doing == Doing::Runs && !core.is_held_up(thread)
        };
        let chosen = self.any(can_run)?;
        match self.settings.slow {
            Some(slow) if self.threads[chosen].process == slow && self.random.below(8) > 0 => {
                self.any(can_run)
            }
            _ => Some(chosen),
        }
    }

    // Ends waits whose limits have passed.
    fn expire(&mut self) {
        for index in 0..self.alive.len() {
            let thread = self.alive[index];
            if let Doing::Waits {
                until: Some(until), ..
            } = self.threads[thread].doing
                && until <= self.now_ns
            {
                self.wake(thread, true);
            }
        }
    }

    // The time of the next deadline, or at which a process continues.
    fn next_event(&self) -> Option<u64> {
        let events = self.alive.iter().filter_map(|thread| {
            let thread = &self.threads[*thread];
            let process = &self.processes[thread.process];
            let at = match thread.doing {
                _ if process.is_dead => return None,
                Doing::Runs => self.now_ns,
                Doing::Waits { until, .. } => until?,
                Doing::Ended => return None,
            };
            Some(at.max(process.stopped_until))
        });
        events.min()
    }

    fn describe(&self) -> String {
        let threads = self.threads.iter().filter_map(|thread| {
            let process = &self.processes[thread.process];
            let what = match thread.doing {
                Doing::Runs => "runs",
                Doing::Waits { what, .. } => what,
                Doing::Ended => return None,
            };
            let dead = if process.is_dead { ", dead" } else { "" };
            Some(format!("{} ({what}{dead})", thread.name))
        });
        threads.collect::<Vec<_>>().join(", ")
    }

    /// Any of the threads of which this holds.
    pub(super) fn any(&mut self, is_one: impl Fn(&Core, usize) -> bool) -> Option<usize> {
        let num = self
            .alive
            .iter()
            .filter(|thread| is_one(self, **thread))
            .count();
        if num == 0 {
            return None;
        }
        let chosen = self.random.below(num as u64) as usize;
        let mut those = self.alive.iter().filter(|thread| is_one(self, **thread));
        those.nth(chosen).copied()
    }
}
