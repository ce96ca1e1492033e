//! What a person sees while a run is in progress: a bar on a terminal, otherwise an occasional line.

use crate::{
    ending::indented,
    layout,
    numbers::{duration, figures, grouped},
    output,
    report::Facts,
    step_numbers::{SmoothedLoss, line},
};
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    io::{IsTerminal, stderr},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};
use train::{
    Observer,
    digest::StepDigest,
    metrics::{Record, Throughput},
    run::{SampleRecord, SlowRank, SpeedRecord, Started, StoreCopy},
    trainer::CheckpointDone,
};

/// Minimum time between two lines where there is no terminal.
const QUIET: Duration = Duration::from_secs(5);

/// The shortest wait for a checkpoint that is reported.
const LONG_WAIT: Duration = Duration::from_millis(100);

/// Columns of the bar itself.
const BAR: usize = 12;

/// Shows a run's progress on stderr.
#[derive(Debug)]
pub(crate) struct Progress {
    // Of a run of another process there are none.
    facts: Option<Facts>,
    state: Mutex<BarState>,
}

#[derive(Debug)]
struct BarState {
    throughput: Throughput,
    loss: SmoothedLoss,
    num_steps: u64,
    tokens_per_step: u64,
    bar: Option<ProgressBar>,
    last_line: Option<Instant>,
    has_told_local: bool,
}

impl Progress {
    /// Before the run; `facts` are printed when it begins.
    pub(crate) fn new(facts: Facts) -> Progress {
        let state = BarState {
            throughput: Throughput::new(0),
            loss: SmoothedLoss::default(),
            num_steps: 0,
            tokens_per_step: 0,
            bar: None,
            last_line: None,
            has_told_local: false,
        };
        Progress {
            facts: Some(facts),
            state: Mutex::new(state),
        }
    }

    /// Of a run of another process that has done these steps.
    pub(crate) fn of_another(num_steps: u64, past: &[Record]) -> Progress {
        let first_step = past.last().map_or(0, |record| record.step);
        let mut state = BarState {
            throughput: Throughput::new(num_steps),
            loss: SmoothedLoss::default(),
            num_steps,
            tokens_per_step: 0,
            bar: stderr().is_terminal().then(|| bar(first_step, num_steps)),
            last_line: None,
            has_told_local: false,
        };
        past.iter().for_each(|record| state.count_another(record));
        if let Some(last) = past.last() {
            state.show(last);
        }
        Progress {
            facts: None,
            state: Mutex::new(state),
        }
    }

    /// Shows a step of it.
    pub(crate) fn show(&self, record: &Record) {
        let mut state = self.state();
        state.count_another(record);
        state.show(record);
    }

    /// Prints a line, above the bar if there is one.
    pub(crate) fn say(&self, line: &str) {
        self.state().say(line);
    }

    /// Removes the bar, because the run is over.
    pub(crate) fn leave(&self) {
        if let Some(bar) = self.state().bar.take() {
            bar.finish_and_clear();
        }
    }

    fn state(&self) -> MutexGuard<'_, BarState> {
        hal::lock(&self.state)
    }
}

impl Observer for Progress {
    fn started(&self, started: &Started) {
        let mut state = self.state();
        if let Some(facts) = &self.facts {
            state.say(&facts.beginning(started));
        }
        state.throughput = Throughput::new(started.num_steps - started.first_step);
        (state.num_steps, state.tokens_per_step) =
            (started.num_steps, started.tokens_per_step as u64);
        state.bar = stderr()
            .is_terminal()
            .then(|| bar(started.first_step, started.num_steps));
    }

    fn step(&self, record: &Record) {
        let mut state = self.state();
        state.count(record);
        state.show(record);
    }

    fn digest(&self, digest: &StepDigest) {
        if digest.phases.iter().all(|phase| phase.covered()[0] == 1.0) {
            return self.say(
                "digests: no rank holds what another holds, so there are no copies to compare",
            );
        }
        self.say("elements by copies on several ranks, which are compared at each digest:");
        for phase in &digest.phases {
            let [one, two, more] = phase.covered().map(|part| 100.0 * part);
            self.say(&format!(
                "  {:<10} one {one:3.0} % (a fault shows in `fascicle diff` alone), two {two:3.0} % (it ends the run), \
                 more {more:3.0} % (and names the rank)",
                phase.name
            ));
        }
    }

    fn sample(&self, sample: &SampleRecord) {
        self.say(&format!(
            "after step {} the model writes:\n{}",
            grouped(sample.step),
            indented(sample.text.trim_matches('\n'))
        ));
    }

    fn straggler(&self, slow: &SlowRank, record: &SpeedRecord) {
        self.say(&straggler(slow, record));
    }

    fn checkpoint(&self, done: &CheckpointDone) {
        let waited = match done.waited >= LONG_WAIT {
            true => format!(", for which training waited {}", duration(done.waited)),
            false => String::new(),
        };
        self.say(&format!("checkpoint {}{waited}", done.path.display()));
    }

    // A run may make one after every step, so only the first is reported: it says where they are.
    fn local_checkpoint(&self, done: &CheckpointDone) {
        if !std::mem::replace(&mut self.state().has_told_local, true) {
            self.say(&format!(
                "local checkpoint of step {}: {} on this node, kept until the next; later ones are not reported",
                grouped(done.step),
                done.path.display()
            ));
        }
    }

    fn stored(&self, copy: &StoreCopy) {
        let (step, took) = (copy.step, duration(copy.took));
        self.say(&format!("copied to {}/step-{step:08} in {took}", copy.url));
    }

    fn waits_for_store(&self, url: &str, most: Duration) {
        let most = duration(most);
        self.say(&format!(
            "waiting for the last copies to {url}, at most {most}"
        ));
    }

    fn trouble(&self, error: &train::Error) {
        self.say(&format!("warning: {error}; the run continues without it"));
    }
}

impl BarState {
    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(line)),
            None => output::note(line),
        }
    }

    fn count(&mut self, record: &Record) {
        let elapsed = Duration::try_from_secs_f64(record.step_s).unwrap_or_default();
        self.throughput.update(self.tokens_per_step, elapsed);
        self.loss.update(record.loss);
    }

    // The tokens of a step of another process follow from its record.
    fn count_another(&mut self, record: &Record) {
        self.tokens_per_step = (record.tokens_per_s * record.step_s).round() as u64;
        self.count(record);
    }

    fn show(&mut self, record: &Record) {
        match self.bar.clone() {
            Some(bar) => self.move_bar(&bar, record),
            None => self.line(record),
        }
    }

    fn move_bar(&self, bar: &ProgressBar, record: &Record) {
        bar.set_position(record.step);
        let place = format!("{}/{} ", grouped(record.step), grouped(self.num_steps));
        let room = layout::of_notes().map(|columns| columns.saturating_sub(BAR + 1 + place.len()));
        bar.set_message(self.numbers(record, room));
        if record.val_loss.is_some() {
            self.say(&self.sentence(record));
        }
    }

    fn line(&mut self, record: &Record) {
        let is_due = self.last_line.is_none_or(|last| last.elapsed() >= QUIET);
        if is_due || record.val_loss.is_some() || record.step == self.num_steps {
            self.last_line = Some(Instant::now());
            self.say(&self.sentence(record));
        }
    }

    fn sentence(&self, record: &Record) -> String {
        format!(
            "step {} of {}: {}",
            grouped(record.step),
            grouped(self.num_steps),
            self.numbers(record, None)
        )
    }

    fn numbers(&self, record: &Record, columns: Option<usize>) -> String {
        line(record, (&self.loss, &self.throughput), columns)
    }
}

fn straggler(slow: &SlowRank, record: &SpeedRecord) -> String {
    format!(
        "warning: after step {} rank {} on {} is slow, as in the {} measurements before: {} Tflop/s and {} GB/s of copies, the \
         medians are {} and {}",
        grouped(record.step),
        slow.rank,
        slow.host,
        slow.times - 1,
        figures(slow.tflops),
        figures(slow.copy_gbps),
        figures(record.tflops),
        figures(record.copy_gbps)
    )
}

fn bar(first_step: u64, num_steps: u64) -> ProgressBar {
    let template = format!("{{bar:{BAR}}} {{human_pos}}/{{human_len}} {{msg}}");
    let style =
        ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(num_steps).with_style(style.progress_chars("=> "));
    bar.set_position(first_step);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(step: u64, val_loss: Option<f64>) -> Record {
        Record {
            step,
            loss: 2.5,
            grad_norm: 1.0,
            lr: 1e-3,
            tokens_per_s: 4096.0,
            step_s: 0.5,
            val_loss,
            ..Record::default()
        }
    }

    #[test]
    fn a_line_names_its_step_and_a_step_that_validates_has_one() {
        let mut state = BarState {
            throughput: Throughput::new(10),
            loss: SmoothedLoss::default(),
            num_steps: 10,
            tokens_per_step: 2048,
            bar: None,
            last_line: None,
            has_told_local: false,
        };
        state.count(&record(1, None));
        assert_eq!(
            state.sentence(&record(1, None)),
            "step 1 of 10: mean loss 2.5000 nats, rate 1.00e-3, gradient 1, 4,096 tokens/s, 4.5 s left"
        );
        (2..=10).for_each(|step| state.count(&record(step, None)));
        assert_eq!(
            state.sentence(&record(10, Some(2.25))),
            "step 10 of 10: mean loss 2.5000 nats, validation 2.2500, rate 1.00e-3, gradient 1, 4,096 tokens/s"
        );
    }
}
