//! What follows from the counts of a schedule: the actions of each stage, and what each of them needs.

use super::{Action, ChunkLocation, Pass, Result, ScheduleError, Stages, action::Role};
use hal::error::Counted;

/// The most passes that one schedule may hold in one direction. Far above any real run; it turns a mistyped
/// number into an error before memory is allocated.
const MAX_PASSES: usize = 1 << 22;

/// What determines the actions of a schedule; a schedule chooses only their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub stages: Stages,
    pub num_micro_batches: usize,
}

impl Shape {
    pub fn new(operation: &'static str, stages: Stages, num_micro_batches: usize) -> Result<Shape> {
        let Stages {
            number: num_stages,
            chunks: num_chunks,
            ..
        } = stages;
        let found = format!(
            "{}, {}, {}",
            Counted(num_stages, "stage"),
            Counted(num_chunks, "chunk"),
            Counted(num_micro_batches, "micro-batch")
        );
        let passes = num_stages
            .checked_mul(num_chunks)
            .and_then(|n| n.checked_mul(num_micro_batches));
        let needed = match passes {
            Some(0) => "at least 1 of each".to_string(),
            Some(n) if n <= MAX_PASSES => {
                return Ok(Shape {
                    stages,
                    num_micro_batches,
                });
            }
            _ => format!("a product of at most {MAX_PASSES}"),
        };
        Err(ScheduleError::Invalid {
            operation,
            found,
            needed,
        })
    }

    /// The source of this pass's input: `None` at the start of the pass.
    pub fn source(self, at: ChunkLocation, pass: Pass) -> Option<ChunkLocation> {
        let here = self.stages.part(at);
        let there = match pass {
            Pass::Forward => here.checked_sub(1)?,
            Pass::Backward => here + 1,
        };
        (there < self.stages.num_parts()).then(|| self.stages.location(there))
    }

    /// The destination of this pass's output: `None` at its end.
    pub fn target(self, at: ChunkLocation, pass: Pass) -> Option<ChunkLocation> {
        self.source(at, pass.reverse())
    }

    /// The stages between which messages of this pass travel, in order, each pair once. A single stage would be its own
    /// neighbour, and sends nothing.
    pub fn neighbours(self, pass: Pass) -> Vec<(usize, usize)> {
        let Stages { number, chunks, .. } = self.stages;
        // All pairs occur between the parts of the first two chunks.
        let parts = (0..number * chunks.min(2)).map(|part| self.stages.location(part));
        let hop = |at: ChunkLocation| Some((at.stage, self.target(at, pass)?.stage));
        let mut pairs: Vec<_> = parts
            .filter_map(hop)
            .filter(|(from, to)| from != to)
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// The receive before this pass, if its input comes from another stage.
    pub fn receive(self, at: ChunkLocation, pass: Pass, micro_batch: usize) -> Option<Action> {
        let source = self
            .source(at, pass)
            .filter(|source| source.stage != at.stage)?;
        Some(Action::new(
            pass,
            Role::Receive(source.stage),
            micro_batch,
            at.chunk,
        ))
    }

    /// The send after this pass, if its output goes to another stage.
    pub fn send(self, at: ChunkLocation, pass: Pass, micro_batch: usize) -> Option<Action> {
        let target = self
            .target(at, pass)
            .filter(|target| target.stage != at.stage)?;
        Some(Action::new(
            pass,
            Role::Send(target.stage),
            micro_batch,
            at.chunk,
        ))
    }

    /// All actions of one pass at one location, in their required order.
    pub fn actions(
        self,
        at: ChunkLocation,
        pass: Pass,
        micro_batch: usize,
    ) -> impl Iterator<Item = Action> {
        let run = Action::new(pass, Role::Run, micro_batch, at.chunk);
        let (receive, send) = (
            self.receive(at, pass, micro_batch),
            self.send(at, pass, micro_batch),
        );
        receive.into_iter().chain([run]).chain(send)
    }

    /// The other end of a message: the stage, and its action. `None` for a computation.
    pub fn counterpart(self, stage: usize, action: Action) -> Option<(usize, Action)> {
        let (at, pass) = (
            ChunkLocation {
                stage,
                chunk: action.chunk(),
            },
            action.pass(),
        );
        let (other, role) = match action.role() {
            Role::Run | Role::PutOff => return None,
            Role::Send(_) => (self.target(at, pass)?, Role::Receive(stage)),
            Role::Receive(_) => (self.source(at, pass)?, Role::Send(stage)),
        };
        Some((
            other.stage,
            Action::new(pass, role, action.micro_batch(), other.chunk),
        ))
    }

    /// The actions that must come before this one on the same stage.
    pub fn needs(self, stage: usize, action: Action) -> impl Iterator<Item = Action> {
        let (at, pass, micro_batch) = (
            ChunkLocation {
                stage,
                chunk: action.chunk(),
            },
            action.pass(),
            action.micro_batch(),
        );
        let run = |pass, chunk| Action::new(pass, Role::Run, micro_batch, chunk);
        let [input, own] = match action.role() {
            Role::Receive(_) => [None, None],
            Role::Send(_) | Role::PutOff => [None, Some(run(pass, at.chunk))],
            Role::Run => {
                let local = self.source(at, pass).filter(|source| source.stage == stage);
                let input = self
                    .receive(at, pass, micro_batch)
                    .or(local.map(|source| run(pass, source.chunk)));
                [
                    input,
                    (pass == Pass::Backward).then(|| run(Pass::Forward, at.chunk)),
                ]
            }
        };
        input.into_iter().chain(own)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Placement;
    use super::*;

    fn stages(number: usize, chunks: usize) -> Stages {
        Stages {
            number,
            chunks,
            placement: Placement::Wrap,
        }
    }

    #[test]
    fn a_v_turns_around_on_the_last_stage() {
        let stages = Stages {
            placement: Placement::V,
            ..stages(3, 2)
        };
        let shape = Shape::new("test", stages, 1).unwrap();
        let at = ChunkLocation { stage: 2, chunk: 0 };
        assert_eq!(shape.send(at, Pass::Forward, 0), None);
        let next = ChunkLocation { stage: 2, chunk: 1 };
        assert_eq!(shape.target(at, Pass::Forward), Some(next));
        let pairs = [(0, 1), (1, 0), (1, 2), (2, 1)];
        for pass in [Pass::Forward, Pass::Backward] {
            assert_eq!(shape.neighbours(pass), pairs);
        }
    }

    #[test]
    fn messages_wrap_from_the_last_stage_to_the_first() {
        let shape = Shape::new("test", stages(3, 2), 1).unwrap();
        let send = shape
            .send(ChunkLocation { stage: 2, chunk: 0 }, Pass::Forward, 0)
            .unwrap();
        assert_eq!(
            send,
            Action::SendActivation {
                micro_batch: 0,
                chunk: 0,
                to: 0
            }
        );
        let receive = Action::RecvActivation {
            micro_batch: 0,
            chunk: 1,
            from: 2,
        };
        assert_eq!(shape.counterpart(2, send), Some((0, receive)));
        assert_eq!(shape.counterpart(0, receive), Some((2, send)));
    }

    #[test]
    fn one_stage_hands_over_without_messages() {
        let shape = Shape::new("test", stages(1, 3), 1).unwrap();
        let at = ChunkLocation { stage: 0, chunk: 1 };
        assert_eq!(shape.actions(at, Pass::Forward, 0).count(), 1);
        let needs: Vec<_> = shape
            .needs(
                0,
                Action::Backward {
                    micro_batch: 0,
                    chunk: 1,
                },
            )
            .collect();
        let expected = [
            Action::Backward {
                micro_batch: 0,
                chunk: 2,
            },
            Action::Forward {
                micro_batch: 0,
                chunk: 1,
            },
        ];
        assert_eq!(needs, expected);
    }

    #[test]
    fn absurd_sizes_are_refused_with_their_numbers() {
        let text = Shape::new("gpipe", stages(usize::MAX, 2), 3)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("2 chunks") && text.contains("4194304"),
            "{text}"
        );
        let text = Shape::new("gpipe", stages(4, 1), 0)
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "gpipe: 4 stages, 1 chunk, 0 micro-batches, needs at least 1 of each"
        );
    }
}
