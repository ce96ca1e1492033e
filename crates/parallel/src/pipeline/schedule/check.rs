//! The checker: whether a list of actions is a valid schedule, and its memory cost.

use super::{
    Action, Deadlock, Result, Schedule, ScheduleError,
    channels::check_channels,
    execute::{Sends, execute},
    positions::Positions,
    times::Times,
};

/// The checker's findings about a valid schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// For each stage, the largest number of chunk-forwards that were done and whose backward was not yet done, with the
    /// gradients of weights that it put off.
    pub peak_live: Vec<usize>,
    /// Messages of both directions.
    pub num_messages: usize,
    /// Where the stages would be stuck if each send blocked its stage until it is received; `None` if they
    /// would not be.
    ///
    /// Our engine queues its sends, so this does not matter to it. It matters to a program that issues blocking
    /// sends in the order of the list.
    pub stuck_if_sends_block: Option<Deadlock>,
}

impl Report {
    /// Whether the schedule also finishes with blocking sends in the order of the list.
    pub fn is_safe_with_blocking_sends(&self) -> bool {
        self.stuck_if_sends_block.is_none()
    }
}

/// Checks the rules that every schedule must keep.
///
/// Each micro-batch passes forward and backward once through each chunk. Each pass comes after what it reads.
/// Each receive has one send, in the same order at both ends of a channel. And the stages finish, where sends
/// are queued for each neighbour and direction (each queue may itself block) and receives block.
///
/// # Errors
/// [`ScheduleError`], for the first broken rule, with stage, action and micro-batch; [`ScheduleError::Invalid`] for
/// impossible counts.
pub fn check(schedule: &Schedule) -> Result<Report> {
    let shape = schedule.shape("check")?;
    has_a_list_for_each_stage(schedule)?;
    for (stage, list) in schedule.stages.iter().enumerate() {
        Positions::new(schedule, shape, stage)?.check_order(list)?;
    }
    check_channels(schedule, shape)?;
    run(schedule, Sends::Queued).map_err(ScheduleError::Deadlock)?;
    Ok(report(schedule))
}

fn has_a_list_for_each_stage(schedule: &Schedule) -> Result<()> {
    let (found, needed) = (schedule.stages.len(), schedule.num_stages);
    if found == needed {
        return Ok(());
    }
    let (found, needed) = (
        format!("{found} lists of actions"),
        format!("{needed}, one for each stage"),
    );
    Err(ScheduleError::Invalid {
        operation: "check",
        found,
        needed,
    })
}

fn run(schedule: &Schedule, sends: Sends) -> std::result::Result<(), Deadlock> {
    execute(schedule, sends, &Times::UNIT).map(|_| ())
}

fn report(schedule: &Schedule) -> Report {
    let actions = schedule.stages.iter().flatten();
    Report {
        peak_live: schedule
            .stages
            .iter()
            .map(|list| peak_live(list, schedule.splits_backward))
            .collect(),
        num_messages: actions.filter(|action| action.peer().is_some()).count() / 2,
        stuck_if_sends_block: run(schedule, Sends::Blocking).err(),
    }
}

/// The list has each backward after its forward, so the count never goes below zero.
fn peak_live(list: &[Action], splits_backward: bool) -> usize {
    let mut live = 0;
    let mut peak = 0;
    for action in list {
        match action {
            Action::Forward { .. } => live += 1,
            Action::Backward { .. } if !splits_backward => live -= 1,
            Action::Weights { .. } => live -= 1,
            _ => {}
        }
        peak = peak.max(live);
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::super::*;

    #[test]
    fn one_after_the_other_with_blocking_sends_is_stuck_under_1f1b_only() {
        assert!(
            check(&gpipe(3, 4).unwrap())
                .unwrap()
                .is_safe_with_blocking_sends()
        );
        let report = check(&one_forward_one_backward(3, 4).unwrap()).unwrap();
        // Stage 0 sends an activation to stage 1, which sends a gradient to stage 0, and neither receives.
        let stuck = report.stuck_if_sends_block.unwrap().to_string();
        assert!(
            stuck.starts_with("stage 0 waits at position 5 to send activation to stage 1"),
            "{stuck}"
        );
        assert_eq!(report.num_messages, 16);
    }

    #[test]
    fn a_list_too_few_is_named() {
        let mut schedule = gpipe(3, 1).unwrap();
        schedule.stages.pop();
        let text = check(&schedule).unwrap_err().to_string();
        assert_eq!(
            text,
            "check: 2 lists of actions, needs 3, one for each stage"
        );
    }

    #[test]
    fn a_wrong_peer_and_a_message_out_of_place_are_named() {
        let mut schedule = gpipe(3, 1).unwrap();
        schedule.stages[0][1] = Action::SendActivation {
            micro_batch: 0,
            chunk: 0,
            to: 2,
        };
        let text = check(&schedule).unwrap_err().to_string();
        assert_eq!(
            text,
            "check: stage 0, position 1: found send activation to stage 2 (micro-batch 0, chunk 0), \
             needs send activation to stage 1 (micro-batch 0, chunk 0)"
        );
        schedule.stages[0][1] = Action::RecvActivation {
            micro_batch: 0,
            chunk: 0,
            from: 2,
        };
        let text = check(&schedule).unwrap_err().to_string();
        assert!(
            text.ends_with("needs no message at this end of the pipeline"),
            "{text}"
        );
    }

    #[test]
    fn a_missing_send_names_both_ends() {
        let mut schedule = gpipe(2, 2).unwrap();
        schedule.stages[0].remove(1);
        let text = check(&schedule).unwrap_err().to_string();
        assert_eq!(
            text,
            "check: stage 0: no send activation to stage 1 (micro-batch 0, chunk 0), needs once \
             for stage 1 to receive activation from stage 0 (micro-batch 0, chunk 0)"
        );
    }
}
