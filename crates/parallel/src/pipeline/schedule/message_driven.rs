//! The message-driven policy: no fixed order, a stage acts on the message that has arrived.

use super::{Pass, Result, ScheduleError, Stages, shape::Shape};

/// Which of the next messages, in each direction, has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// The activation of the next micro-batch to run forward. Ignored on stage 0, whose input is the data.
    pub activation: bool,
    /// The gradient of the next micro-batch to run backward. Ignored on the last stage, which computes it
    /// itself.
    pub gradient: bool,
}

/// The next action of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run this pass of this micro-batch; the policy counts it as done.
    Run(Pass, usize),
    /// Wait for a message, then ask again.
    Wait,
    /// Everything has been run.
    Done,
}

/// The decisions of one stage: backward if its gradient has arrived, otherwise forward if its activation has
/// arrived and the number in flight is below the limit, otherwise wait.
///
/// Messages of one direction are taken in the order of micro-batches, so the order within a direction is the
/// same in every run. Only the mixture of the two directions depends on timing. Weight gradients are therefore
/// accumulated in the same order in every run.
///
/// A limit smaller than the number of stages costs time but cannot deadlock, down to 1. To see this, take the
/// oldest unfinished micro-batch. A stage that it has not reached in forward has nothing in flight, because
/// younger ones queue behind it. So some stage can always run it, forward or backward. For the same reason
/// limits may differ between stages; with `num_stages - stage`, a stage keeps no more than under 1F1B.
///
/// # Source
/// AxoNN (arXiv:2110.13005), on message-driven scheduling of inter-layer parallelism.
#[derive(Clone, Debug)]
pub struct MessageDriven {
    is_first: bool,
    is_last: bool,
    num_micro_batches: usize,
    in_flight_limit: usize,
    num_forward: usize,
    num_backward: usize,
}

impl MessageDriven {
    /// The policy of one stage at the start of a training step.
    ///
    /// # Errors
    /// [`ScheduleError::Invalid`] when a count or the limit is zero, the product of the counts exceeds 4,194,304
    /// passes, or there is no such stage.
    pub fn new(
        stage: usize,
        num_stages: usize,
        num_micro_batches: usize,
        in_flight_limit: usize,
    ) -> Result<MessageDriven> {
        Shape::new(
            "message-driven",
            Stages::plain(num_stages),
            num_micro_batches,
        )?;
        if stage >= num_stages || in_flight_limit == 0 {
            return Err(ScheduleError::Invalid {
                operation: "message-driven",
                found: format!("stage {stage}, limit of {in_flight_limit} in flight"),
                needed: format!("a stage below {num_stages} and a limit of at least 1"),
            });
        }
        let (is_first, is_last) = (stage == 0, stage + 1 == num_stages);
        Ok(MessageDriven {
            is_first,
            is_last,
            num_micro_batches,
            in_flight_limit,
            num_forward: 0,
            num_backward: 0,
        })
    }

    /// Decides, and counts a decision to run as executed.
    pub fn next(&mut self, ready: Ready) -> Decision {
        if self.num_backward == self.num_micro_batches {
            Decision::Done
        } else if self.can_go_backward(ready) {
            self.num_backward += 1;
            Decision::Run(Pass::Backward, self.num_backward - 1)
        } else if self.can_go_forward(ready) {
            self.num_forward += 1;
            Decision::Run(Pass::Forward, self.num_forward - 1)
        } else {
            Decision::Wait
        }
    }

    /// Number of micro-batches that have run forward here and not yet backward.
    pub fn num_in_flight(&self) -> usize {
        self.num_forward - self.num_backward
    }

    fn can_go_backward(&self, ready: Ready) -> bool {
        self.num_in_flight() > 0 && (self.is_last || ready.gradient)
    }

    fn can_go_forward(&self, ready: Ready) -> bool {
        let any_left = self.num_forward < self.num_micro_batches;
        any_left
            && self.num_in_flight() < self.in_flight_limit
            && (self.is_first || ready.activation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Ready = Ready {
        activation: false,
        gradient: false,
    };
    const BOTH: Ready = Ready {
        activation: true,
        gradient: true,
    };

    #[test]
    fn first_stage_fills_up_to_the_limit_then_prefers_gradients() {
        let mut policy = MessageDriven::new(0, 3, 4, 2).unwrap();
        assert_eq!(policy.next(NOTHING), Decision::Run(Pass::Forward, 0));
        assert_eq!(policy.next(NOTHING), Decision::Run(Pass::Forward, 1));
        assert_eq!(policy.next(NOTHING), Decision::Wait);
        assert_eq!(policy.next(BOTH), Decision::Run(Pass::Backward, 0));
        assert_eq!(policy.num_in_flight(), 1);
    }

    #[test]
    fn last_stage_turns_around_at_once() {
        let mut policy = MessageDriven::new(1, 2, 1, 2).unwrap();
        assert_eq!(policy.next(NOTHING), Decision::Wait);
        assert_eq!(
            policy.next(Ready {
                activation: true,
                ..NOTHING
            }),
            Decision::Run(Pass::Forward, 0)
        );
        assert_eq!(policy.next(NOTHING), Decision::Run(Pass::Backward, 0));
        assert_eq!(policy.next(BOTH), Decision::Done);
    }

    #[test]
    fn impossible_arguments_are_refused() {
        let text = MessageDriven::new(2, 2, 1, 0).unwrap_err().to_string();
        let expected = "message-driven: stage 2, limit of 0 in flight, needs a stage below 2 and a limit of at least 1";
        assert_eq!(text, expected);
        assert!(MessageDriven::new(0, 2, 0, 1).is_err());
    }
}
