//! PipeDream-2BW: 1F1B that goes on from one step into the next, because two versions of the weights are there.

use super::{
    Action, Report, Result, Schedule, ScheduleError, Stages, check, one_forward_one_backward,
    program::Task, shape::Shape,
};

/// Steps that the list shows: one that begins with nothing ahead, one like all in between, and one that leaves nothing ahead.
const STEPS: usize = 3;

/// A schedule whose stages begin a step before the one before it has ended.
///
/// Batch t computes with the weights of update t-1, so a stage that has run its last backward of batch t-1 need not wait for
/// that batch's update. It ends a step with some passes of the next batch, which is *ahead*. These are as many as the
/// stage has time for until the first stage, which ends last, has run its last backward; all stages then update together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlapped {
    /// Micro-batches of a step.
    pub num_micro_batches: usize,
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

/// 1F1B over the micro-batches of several steps, and where each stage ends a step.
///
/// A stage ends it where it has run its last backward of the step, and what fits into the time that the first stage still
/// needs for its own, if a backward takes twice as long as a forward: stage s is then 2 s forwards ahead. The idle time of a step is
/// then one forward, whatever the number of stages. A stage keeps as many activations as under 1F1B, min(3m, p - s).
///
/// # Errors
/// [`ScheduleError::Invalid`] when a count is zero, there are fewer micro-batches than stages, which would need a third
/// version of the weights, or the passes of three steps exceed 4,194,304.
/// # Source
/// Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training (arXiv:2006.09503), section 3.1.
pub fn pipedream_2bw(num_stages: usize, num_micro_batches: usize) -> Result<Overlapped> {
    let invalid = |needed: &str| {
        Err(ScheduleError::Invalid {
            operation: "pipedream-2bw",
            found: format!("{num_stages} stages, {num_micro_batches} micro-batches"),
            needed: needed.to_string(),
        })
    };
    if num_micro_batches < num_stages {
        return invalid("at least as many micro-batches as stages");
    }
    let Some(all) = num_micro_batches.checked_mul(STEPS) else {
        return invalid("fewer micro-batches");
    };
    let shape = Shape::new("pipedream-2bw", Stages::plain(num_stages), all)?;
    let steps = one_forward_one_backward(num_stages, all)?;
    let end = |stage: usize, step: usize| {
        let last = Task::backward((step + 1) * num_micro_batches - 1, 0);
        end_of(&steps.stages[stage], last, passes_ahead(stage))
    };
    let ends = (0..shape.stages.number).map(|stage| [end(stage, 0), end(stage, 1)]);
    Ok(Overlapped {
        num_micro_batches,
        ends: ends.collect(),
        alone: one_forward_one_backward(num_stages, num_micro_batches)?,
        steps,
    })
}

// Passes that end within 2 `stage` units of time, if forwards take one unit, backwards two, and both alternate.
fn passes_ahead(stage: usize) -> usize {
    let time = 2 * stage;
    2 * (time / 3) + usize::from(!time.is_multiple_of(3))
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

impl Overlapped {
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

/// Checks the steps as [`check`](super::check()) does, and what makes two versions of the weights suffice.
///
/// # Errors
/// Those of [`check`](super::check()); [`ScheduleError::Invalid`] for a stage that ends a step before its last backward of it or
/// after a pass of the batch after the next, that leaves other passes ahead in the second step than in the first, or that is
/// ahead of the stage from which it receives.
pub fn check_overlapped(overlapped: &Overlapped) -> Result<Report> {
    let report = check(&overlapped.steps)?;
    let m = overlapped.num_micro_batches;
    let invalid = |stage: usize, found: String, needed: &str| {
        Err(ScheduleError::Invalid {
            operation: "check",
            found: format!("stage {stage}: {found}"),
            needed: needed.to_string(),
        })
    };
    for (stage, [first, second]) in overlapped.ends.iter().copied().enumerate() {
        let list = &overlapped.steps.stages[stage];
        for (step, end) in [first, second].into_iter().enumerate() {
            let (Some(done), Some(rest)) = (list.get(..end), list.get(end..)) else {
                return invalid(stage, format!("an end at {end}"), "one within its list");
            };
            let of_step = |action: &&Action| action.micro_batch() < (step + 1) * m;
            if let Some(late) = rest.iter().find(of_step) {
                let needed = "it before the step ends";
                return invalid(stage, format!("{late} after step {step}"), needed);
            }
            let third = |action: &&Action| action.micro_batch() >= (step + 2) * m;
            if let Some(early) = done.iter().find(third) {
                let needed = "at most two versions of the weights";
                return invalid(stage, format!("{early} in step {step}"), needed);
            }
        }
        let shifted = |step: StepAction| (step.action.pass(), step.action.micro_batch());
        let passes = |ahead: bool, next: bool| {
            let list = overlapped.step(stage, ahead, next).into_iter();
            let runs = list.filter(|step| step.action.peer().is_none());
            let next = runs.filter(|step| step.is_next);
            next.map(shifted).collect::<Vec<_>>()
        };
        if passes(false, true) != passes(true, true) {
            let needed = "the same at the end of every step";
            return invalid(stage, "other passes ahead".to_string(), needed);
        }
    }
    for stage in 1..overlapped.ends.len() {
        let ([forwards, backwards], before) =
            (overlapped.ahead(stage), overlapped.ahead(stage - 1));
        if forwards > before[0] || backwards < before[1] {
            let found = format!("{forwards} forwards and {backwards} backwards ahead");
            let needed = format!("at most {} and at least {}", before[0], before[1]);
            return invalid(stage, found, &needed);
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sizes_check_and_keep_what_1f1b_keeps() {
        for num_stages in 1..=9 {
            for num_micro_batches in num_stages..=20 {
                let overlapped = pipedream_2bw(num_stages, num_micro_batches).unwrap();
                let report = check_overlapped(&overlapped).unwrap();
                for (stage, peak) in report.peak_live.into_iter().enumerate() {
                    assert_eq!(peak, num_stages - stage);
                }
            }
        }
        let text = pipedream_2bw(4, 3).unwrap_err().to_string();
        assert_eq!(
            text,
            "pipedream-2bw: 4 stages, 3 micro-batches, needed at least as many micro-batches as stages"
        );
    }

    // When each stage begins and ends its steps: all begin together, because an update waits for the norm of all gradients.
    fn step_ends(overlapped: &Overlapped, [forward, backward]: [f64; 2]) -> Vec<f64> {
        let num_stages = overlapped.ends.len();
        let mut clocks = vec![0.0_f64; num_stages];
        let mut done = std::collections::HashMap::new();
        let mut ends = Vec::new();
        for step in 0..STEPS {
            let mut left: Vec<_> = (0..num_stages)
                .map(|stage| {
                    let [first, second] = overlapped.ends[stage];
                    let list = &overlapped.steps.stages[stage];
                    let list = [&list[..first], &list[first..second], &list[second..]][step];
                    let runs = list.iter().filter(|action| action.peer().is_none());
                    runs.copied().collect::<std::collections::VecDeque<_>>()
                })
                .collect();
            while left.iter().any(|list| !list.is_empty()) {
                let mut advanced = false;
                for stage in 0..num_stages {
                    while let Some(action) = left[stage].front().copied() {
                        let is_forward = matches!(action, Action::Forward { .. });
                        let source = match is_forward {
                            true => stage.checked_sub(1),
                            false => Some(stage + 1).filter(|next| *next < num_stages),
                        };
                        let key = |stage| (is_forward, action.micro_batch(), stage);
                        let input = match source.map(|source| done.get(&key(source))) {
                            Some(None) => break,
                            Some(Some(at)) => *at,
                            None => 0.0,
                        };
                        let took = if is_forward { forward } else { backward };
                        clocks[stage] = clocks[stage].max(input) + took;
                        done.insert(key(stage), clocks[stage]);
                        left[stage].pop_front();
                        advanced = true;
                    }
                }
                assert!(
                    advanced,
                    "a stage waits in step {step} for what comes after it"
                );
            }
            let end = clocks.iter().copied().fold(0.0, f64::max);
            clocks.fill(end);
            ends.push(end);
        }
        ends
    }

    #[test]
    fn a_step_in_between_idles_for_one_forward_whatever_the_stages() {
        for num_stages in 2..=9 {
            for num_micro_batches in num_stages..=20 {
                let overlapped = pipedream_2bw(num_stages, num_micro_batches).unwrap();
                let ends = step_ends(&overlapped, [1.0, 2.0]);
                let works = 3.0 * num_micro_batches as f64;
                assert_eq!(
                    ends[1] - ends[0],
                    works + 1.0,
                    "{num_stages}x{num_micro_batches}"
                );
                // With backwards as long as forwards, or longer, less than half of the bubble of 1F1B is left.
                for times in [[1.0, 1.0], [1.0, 3.0]] {
                    let ends = step_ends(&overlapped, times);
                    let pass = times[0] + times[1];
                    let idle = ends[1] - ends[0] - pass * num_micro_batches as f64;
                    assert!(
                        2.0 * idle <= pass * (num_stages - 1) as f64,
                        "{idle} for {times:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_end_at_another_place_is_refused_with_its_stage() {
        let good = pipedream_2bw(4, 6).unwrap();
        let refused = |change: fn(&mut Overlapped)| {
            let mut overlapped = good.clone();
            change(&mut overlapped);
            check_overlapped(&overlapped).unwrap_err().to_string()
        };
        let early =
            refused(|overlapped| overlapped.ends[2] = overlapped.ends[2].map(|end| end - 12));
        assert!(
            early.contains("stage 2: ") && early.ends_with("needed it before the step ends"),
            "{early}"
        );
        let far = refused(|overlapped| overlapped.ends[0][0] += 30);
        assert!(
            far.contains("stage 0: ")
                && far.ends_with("needed at most two versions of the weights"),
            "{far}"
        );
        let uneven = refused(|overlapped| overlapped.ends[3][1] += 2);
        assert!(uneven.contains("stage 3: other passes ahead"), "{uneven}");
        let ahead =
            refused(|overlapped| overlapped.ends[3] = overlapped.ends[3].map(|end| end + 6));
        assert!(
            ahead.contains("stage 3: ") && ahead.contains("ahead, needed at most"),
            "{ahead}"
        );
    }
}
