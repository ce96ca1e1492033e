//! When faults come, and what they do to processes.

use super::super::faults::{Fault, FaultKind};
use super::{Core, Doing, Halt};
use std::time::Duration;

impl Core {
    pub(super) fn meet_faults(&mut self) {
        let due = |fault: &Fault, core: &Core| {
            let process = core.processes.get(fault.process);
            process.is_some_and(|process| process.points >= fault.after) && core.is_ready(fault)
        };
        let Some(index) = self
            .settings
            .faults
            .iter()
            .position(|fault| due(fault, self))
        else {
            return;
        };
        let fault = self.settings.faults.swap_remove(index);
        self.num_faults += 1;
        let now_ns = self.now_ns;
        let process = &mut self.processes[fault.process];
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match fault.kind {
            FaultKind::Kill => process.is_dead = true,
            FaultKind::Stop(time) => process.stopped_until = now_ns + ns(time),
            FaultKind::Jump(time) => process.ahead += ns(time),
            FaultKind::PowerCut => self.halted = Some(Halt::PowerCut),
        }
    }

    // Whether a fault that is due can come now.
    fn is_ready(&self, fault: &Fault) -> bool {
        let mut of_process = self
            .threads
            .iter()
            .filter(|thread| thread.process == fault.process);
        match fault.kind {
            FaultKind::Kill => of_process.all(|thread| match thread.doing {
                Doing::Runs => false,
                Doing::Waits { .. } => thread.held == 0,
                Doing::Ended => true,
            }),
            FaultKind::PowerCut => self.leaves_no_lock(),
            FaultKind::Stop(_) | FaultKind::Jump(_) => true,
        }
    }

    /// Whether the process of a thread is stopped or dead.
    pub(super) fn is_held_up(&self, thread: usize) -> bool {
        let process = &self.processes[self.threads[thread].process];
        process.is_dead || process.stopped_until > self.now_ns
    }
}
