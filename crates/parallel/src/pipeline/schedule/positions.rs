//! Finds every action in a stage's list, and checks that the right ones occur once each, in an order that
//! respects their dependencies on the same stage.

use super::{
    Action, ChunkLocation, Pass, Result, Schedule, ScheduleError, action::Role, shape::Shape,
};

const NOWHERE: usize = usize::MAX;

/// The position of each action in the list of one stage.
pub(super) struct Positions {
    shape: Shape,
    splits_backward: bool,
    stage: usize,
    table: Vec<usize>,
}

impl Positions {
    /// Reads the list of one stage.
    ///
    /// # Errors
    /// For an action that does not belong there, occurs twice, or is missing.
    pub fn new(schedule: &Schedule, shape: Shape, stage: usize) -> Result<Positions> {
        let table = vec![NOWHERE; 7 * shape.stages.chunks * shape.num_micro_batches];
        let mut positions = Positions {
            shape,
            splits_backward: schedule.splits_backward,
            stage,
            table,
        };
        for (index, action) in schedule.stages[stage].iter().enumerate() {
            positions.belongs(index, *action)?;
            positions.insert(index, *action)?;
        }
        positions.is_complete()?;
        Ok(positions)
    }

    /// Checks that each action of the list comes after its dependencies on the same stage.
    pub fn check_order(&self, list: &[Action]) -> Result<()> {
        for (index, action) in list.iter().enumerate() {
            for needs in self.shape.needs(self.stage, *action) {
                let needs_index = self.table[self.slot(needs)];
                if needs_index > index {
                    let (stage, action) = (self.stage, *action);
                    return Err(ScheduleError::Order {
                        stage,
                        action,
                        index,
                        needs,
                        needs_index,
                    });
                }
            }
        }
        Ok(())
    }

    fn belongs(&self, index: usize, action: Action) -> Result<()> {
        let needed = self.wanted(action);
        if needed == Ok(Some(action)) {
            return Ok(());
        }
        let needed = match needed {
            Ok(Some(right)) => right.to_string(),
            Ok(None) if action.role() == Role::PutOff => {
                "none, because the backward computes them".to_string()
            }
            Ok(None) => "no message at this end of the pipeline".to_string(),
            Err(bounds) => bounds,
        };
        Err(ScheduleError::Misplaced {
            stage: self.stage,
            index,
            action,
            needed,
        })
    }

    /// The action as it should be: with the right peer, `None` if no message is due or nothing was put off, or the bounds
    /// that it violates.
    fn wanted(&self, action: Action) -> std::result::Result<Option<Action>, String> {
        let (micro_batch, chunk, pass) = (action.micro_batch(), action.chunk(), action.pass());
        let num_micro_batches = self.shape.num_micro_batches;
        let num_chunks = self.shape.stages.chunks;
        if micro_batch >= num_micro_batches || chunk >= num_chunks {
            return Err(format!(
                "a micro-batch below {num_micro_batches} and a chunk below {num_chunks}"
            ));
        }
        let at = ChunkLocation {
            stage: self.stage,
            chunk,
        };
        Ok(match action.role() {
            Role::Run => Some(action),
            Role::PutOff => self.splits_backward.then_some(action),
            Role::Send(_) => self.shape.send(at, pass, micro_batch),
            Role::Receive(_) => self.shape.receive(at, pass, micro_batch),
        })
    }

    fn insert(&mut self, index: usize, action: Action) -> Result<()> {
        let slot = self.slot(action);
        match std::mem::replace(&mut self.table[slot], index) {
            NOWHERE => Ok(()),
            first => Err(ScheduleError::Duplicate {
                stage: self.stage,
                action,
                first,
                second: index,
            }),
        }
    }

    fn is_complete(&self) -> Result<()> {
        for pass in [Pass::Forward, Pass::Backward] {
            for chunk in 0..self.shape.stages.chunks {
                (0..self.shape.num_micro_batches).try_for_each(|i| self.has_all(pass, chunk, i))?;
            }
        }
        Ok(())
    }

    fn has_all(&self, pass: Pass, chunk: usize, micro_batch: usize) -> Result<()> {
        let stage = self.stage;
        let weights = Action::Weights { micro_batch, chunk };
        let mut due = self
            .shape
            .actions(ChunkLocation { stage, chunk }, pass, micro_batch)
            .chain((pass == Pass::Backward && self.splits_backward).then_some(weights));
        match due.find(|action| self.table[self.slot(*action)] == NOWHERE) {
            None => Ok(()),
            Some(action) => {
                let waiting = self.shape.counterpart(stage, action);
                Err(ScheduleError::Missing {
                    stage,
                    action,
                    waiting,
                })
            }
        }
    }

    fn slot(&self, action: Action) -> usize {
        let role = match action.role() {
            Role::Receive(_) => 0,
            Role::Run => 1,
            Role::Send(_) => 2,
            Role::PutOff => 3,
        };
        let kind = 3 * action.pass() as usize + role;
        (kind * self.shape.stages.chunks + action.chunk()) * self.shape.num_micro_batches
            + action.micro_batch()
    }
}
