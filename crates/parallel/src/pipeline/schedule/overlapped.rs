//! Schedules that continue from one step into the next: a stage holds earlier versions of the weights, so it need not wait for
//! the latest one.

use super::{
    Action, Pass, Report, Result, Schedule, ScheduleError, ScheduleKind, Stages, action::Role,
    check, one_forward_one_backward, program::Task, shape::Shape,
};
use hal::error::Counted;

/// Steps that the list shows: one that begins with nothing ahead, one like all in between, and one that leaves nothing ahead.
pub(crate) const STEPS: usize = 3;

/// A schedule whose stages begin a step before the one before it has ended.
///
/// A micro-batch computes with weights that lack the latest updates, so a stage need not wait for these. It ends a step with some
/// passes of the next batch, which is *ahead*. [`pipedream_2bw`](super::pipedream_2bw()) and [`pipedream`](super::pipedream())
/// differ in how many passes these are, how often a stage updates its weights, and how many versions of them it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlapped {
    /// Micro-batches of a step.
    pub num_micro_batches: usize,
    /// Whether a stage updates its weights after each micro-batch, or once for all of a step.
    pub updates_each_micro_batch: bool,
    /// Versions of the weights that each stage holds.
    pub versions: Vec<usize>,
    /// Three steps in a row: the first begins with nothing ahead, the second is like all in between, the last leaves nothing
    /// ahead. Their micro-batches are counted through.
    pub steps: Schedule,
    /// For each stage, how many actions of its list are done at the end of the first step, and of the second.
    pub ends: Vec<[usize; 2]>,
    /// A step alone, before which nothing is ahead, and after which nothing is.
    alone: Schedule,
}

/// An action of a step, and whether it belongs to the batch of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepAction {
    /// The action; its micro-batch is counted within its batch.
    pub action: Action,
    /// Whether the batch is the next one.
    pub is_next: bool,
}

impl Overlapped {
    /// 1F1B over the micro-batches of several steps, where a stage ends each step `passes_ahead` passes after its last backward.
    /// `operation` names the schedule in errors.
    ///
    /// # Errors
    /// [`ScheduleError::Invalid`] when a count is zero, there are fewer micro-batches than stages, so that a stage would be ahead
    /// by more than a step, or the passes of three steps exceed 4,194,304.
    pub(super) fn new(
        (kind, operation): (ScheduleKind, &'static str),
        (num_stages, num_micro_batches): (usize, usize),
        passes_ahead: impl Fn(usize) -> usize,
    ) -> Result<Overlapped> {
        let invalid = |needed: &str| {
            Err(ScheduleError::Invalid {
                operation,
                found: format!(
                    "{}, {}",
                    Counted(num_stages, "stage"),
                    Counted(num_micro_batches, "micro-batch")
                ),
                needed: needed.to_string(),
            })
        };
        if num_micro_batches < num_stages {
            return invalid("at least as many micro-batches as stages");
        }
        let Some(all) = num_micro_batches.checked_mul(STEPS) else {
            return invalid("fewer micro-batches");
        };
        Shape::new(operation, Stages::plain(num_stages), all)?;
        let steps = one_forward_one_backward(num_stages, all)?;
        let end = |stage: usize, step: usize| {
            let last = Task::backward((step + 1) * num_micro_batches - 1, 0);
            end_of(&steps.stages[stage], last, passes_ahead(stage))
        };
        let ends = (0..num_stages).map(|stage| [end(stage, 0), end(stage, 1)]);
        let versions = (0..num_stages).map(|stage| kind.versions(stage, num_stages));
        Ok(Overlapped {
            num_micro_batches,
            updates_each_micro_batch: kind.updates_each_micro_batch(),
            versions: versions.collect(),
            ends: ends.collect(),
            alone: one_forward_one_backward(num_stages, num_micro_batches)?,
            steps,
        })
    }

    /// The list of a stage for a step, before which its batch was ahead or not, and after which the next one is or not.
    ///
    /// Messages that the stage has already received ahead of their pass are in the list of the step that holds the pass.
    pub fn step(&self, stage: usize, ahead: bool, next: bool) -> Vec<StepAction> {
        let [first, second] = self.ends[stage];
        let list = &self.steps.stages[stage];
        let (list, begin) = match (ahead, next) {
            (false, false) => (&self.alone.stages[stage][..], 0),
            (false, true) => (&list[..first], 0),
            (true, true) => (&list[first..second], self.num_micro_batches),
            (true, false) => (&list[second..], 2 * self.num_micro_batches),
        };
        let local = |action: &Action| {
            let micro_batch = action.micro_batch() - begin;
            let is_next = micro_batch >= self.num_micro_batches;
            let micro_batch = micro_batch - self.num_micro_batches * usize::from(is_next);
            let action = Action::new(action.pass(), action.role(), micro_batch, action.chunk());
            StepAction { action, is_next }
        };
        list.iter().map(local).collect()
    }

    /// What a stage does in the three steps, and at the end of the first two: it receives all that its neighbours have sent. Micro-batches
    /// are counted through.
    pub(crate) fn lists(&self, stage: usize) -> Vec<Vec<Action>> {
        let [first, second] = self.ends[stage];
        let list = &self.steps.stages[stage];
        let own = self.ahead(stage);
        let of = |pass, from: usize, number: usize, begin: usize| {
            let role = Role::Receive(from);
            let sent = own[number]..self.ahead(from)[number];
            sent.map(move |micro_batch| Action::new(pass, role, begin + micro_batch, 0))
        };
        let received = |begin: usize| -> Vec<Action> {
            let before = stage.checked_sub(1).into_iter();
            let behind = (stage + 1..self.steps.num_stages).take(1);
            let activations = before.flat_map(|from| of(Pass::Forward, from, 0, begin));
            let gradients = behind.flat_map(|from| of(Pass::Backward, from, 1, begin));
            activations.chain(gradients).collect()
        };
        vec![
            list[..first].to_vec(),
            received(self.num_micro_batches),
            list[first..second].to_vec(),
            received(2 * self.num_micro_batches),
            list[second..].to_vec(),
        ]
    }

    /// Micro-batches of the next batch that a stage has run forward and backward when a step ends.
    pub fn ahead(&self, stage: usize) -> [usize; 2] {
        let done = &self.steps.stages[stage][..self.ends[stage][0]];
        let is_ahead = |action: &&Action| action.micro_batch() >= self.num_micro_batches;
        let count = |of: fn(&Action) -> bool| {
            let passes = done.iter().filter(is_ahead);
            passes.filter(|action| of(action)).count()
        };
        [
            count(|action| matches!(action, Action::Forward { .. })),
            count(|action| matches!(action, Action::Backward { .. })),
        ]
    }
}

// The position after this backward and `passes` further passes, with what these send.
fn end_of(list: &[Action], last: Task, passes: usize) -> usize {
    let is_run = |action: &Action| action.peer().is_none();
    let is_last = |action: &Action| matches!(*action, Action::Backward { micro_batch, .. } if micro_batch == last.micro_batch);
    let mut end = list
        .iter()
        .position(is_last)
        .map_or(list.len(), |at| at + 1);
    for _ in 0..passes {
        let next = list[end..].iter().position(is_run);
        end = next.map_or(list.len(), |at| end + at + 1);
    }
    let is_send = |action: &&Action| {
        matches!(
            action,
            Action::SendActivation { .. } | Action::SendGradient { .. }
        )
    };
    end + list[end..].iter().take_while(is_send).count()
}

/// Checks the steps as [`check`](super::check()) does, and what makes the versions of the weights suffice.
///
/// # Errors
/// Those of [`check`](super::check()); [`ScheduleError::Invalid`] for a stage that ends a step before its last backward of it or
/// after a pass of the batch after the next, that leaves other passes ahead in the second step than in the first, or that is
/// ahead of the stage from which it receives; with an update for each micro-batch, also for one that has more of them in flight than
/// it holds versions, or ends a step with other weights than those of the step.
pub fn check_overlapped(overlapped: &Overlapped) -> Result<Report> {
    let report = check(&overlapped.steps)?;
    for stage in 0..overlapped.ends.len() {
        check_ends(overlapped, stage)?;
        if overlapped.updates_each_micro_batch {
            check_stash(overlapped, stage, report.peak_live[stage])?;
        }
    }
    for stage in 1..overlapped.ends.len() {
        let ([forwards, backwards], before) =
            (overlapped.ahead(stage), overlapped.ahead(stage - 1));
        if forwards > before[0] || backwards < before[1] {
            let found = format!("{forwards} forwards and {backwards} backwards ahead");
            let needed = format!("at most {} and at least {}", before[0], before[1]);
            refuse(stage, found, &needed)?;
        }
    }
    Ok(report)
}

fn refuse(stage: usize, found: String, needed: &str) -> Result<()> {
    Err(ScheduleError::Invalid {
        operation: "check",
        found: format!("stage {stage}: {found}"),
        needed: needed.to_string(),
    })
}

// Where a stage ends its steps.
fn check_ends(overlapped: &Overlapped, stage: usize) -> Result<()> {
    let m = overlapped.num_micro_batches;
    let list = &overlapped.steps.stages[stage];
    for (step, end) in overlapped.ends[stage].into_iter().enumerate() {
        let (Some(done), Some(rest)) = (list.get(..end), list.get(end..)) else {
            return refuse(stage, format!("an end at {end}"), "one within its list");
        };
        let of_step = |action: &&Action| action.micro_batch() < (step + 1) * m;
        if let Some(late) = rest.iter().find(of_step) {
            let needed = "it before the step ends";
            return refuse(stage, format!("{late} after step {step}"), needed);
        }
        let third = |action: &&Action| action.micro_batch() >= (step + 2) * m;
        if let Some(early) = done.iter().find(third) {
            let needed = "at most the next batch ahead";
            return refuse(stage, format!("{early} in step {step}"), needed);
        }
    }
    let shifted = |step: StepAction| (step.action.pass(), step.action.micro_batch());
    let passes = |ahead: bool, next: bool| {
        let list = overlapped.step(stage, ahead, next).into_iter();
        let runs = list.filter(|step| step.action.peer().is_none());
        let next = runs.filter(|step| step.is_next);
        next.map(shifted).collect::<Vec<_>>()
    };
    match passes(false, true) == passes(true, true) {
        true => Ok(()),
        false => {
            let needed = "the same at the end of every step";
            refuse(stage, "other passes ahead".to_string(), needed)
        }
    }
}

// A version is read from the forward of a micro-batch to its backward, which the update of the same memory follows.
fn check_stash(overlapped: &Overlapped, stage: usize, peak_live: usize) -> Result<()> {
    let versions = overlapped.versions[stage];
    if peak_live > versions {
        let found = format!("{peak_live} micro-batches between forward and backward");
        return refuse(stage, found, &format!("at most its {versions} versions"));
    }
    match overlapped.ahead(stage)[1] {
        0 => Ok(()),
        backwards => {
            let found = format!("{backwards} backwards ahead");
            refuse(stage, found, "none, because an update follows each")
        }
    }
}
