//! The actions of a stage.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Direction of work through the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// From the first virtual stage to the last; its messages are activations.
    Forward,
    /// From the last virtual stage to the first; its messages are gradients.
    Backward,
}

impl Pass {
    /// The other direction.
    pub fn reverse(self) -> Pass {
        match self {
            Pass::Forward => Pass::Backward,
            Pass::Backward => Pass::Forward,
        }
    }

    /// The payload of its messages, in the singular.
    pub(super) fn payload(self) -> &'static str {
        match self {
            Pass::Forward => "activation",
            Pass::Backward => "gradient",
        }
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
        })
    }
}

/// One entry of a stage's list. `chunk` is always a chunk of the acting stage, and `to` and `from` are stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
#[allow(missing_docs)] // the fields are those of the sentence above, in every variant
pub enum Action {
    /// Runs the chunk's layers.
    Forward { micro_batch: usize, chunk: usize },
    /// Runs the chunk's layers backward. In a schedule that splits backwards, only as far as the gradients of inputs need it.
    Backward { micro_batch: usize, chunk: usize },
    /// Computes the gradients of the chunk's weights, which a split backward has put off.
    Weights { micro_batch: usize, chunk: usize },
    /// Sends the output of the chunk's forward.
    SendActivation {
        micro_batch: usize,
        chunk: usize,
        to: usize,
    },
    /// Receives the input of the chunk's forward.
    RecvActivation {
        micro_batch: usize,
        chunk: usize,
        from: usize,
    },
    /// Sends the gradient of the chunk's input, the output of its backward.
    SendGradient {
        micro_batch: usize,
        chunk: usize,
        to: usize,
    },
    /// Receives the gradient of the chunk's output, the input of its backward.
    RecvGradient {
        micro_batch: usize,
        chunk: usize,
        from: usize,
    },
}

/// The role of an action in its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Receives the input, from a stage.
    Receive(usize),
    /// Computes what the pass hands on.
    Run,
    /// Computes what the pass has put off.
    PutOff,
    /// Sends the output, to a stage.
    Send(usize),
}

impl Action {
    /// The micro-batch of the action.
    pub fn micro_batch(self) -> usize {
        self.parts().0
    }

    /// The chunk of the action, on the acting stage.
    pub fn chunk(self) -> usize {
        self.parts().1
    }

    /// The direction of the work to which it belongs: messages with activations belong to the forward pass.
    pub fn pass(self) -> Pass {
        match self {
            Action::Forward { .. }
            | Action::SendActivation { .. }
            | Action::RecvActivation { .. } => Pass::Forward,
            Action::Backward { .. }
            | Action::Weights { .. }
            | Action::SendGradient { .. }
            | Action::RecvGradient { .. } => Pass::Backward,
        }
    }

    /// The stage with which it exchanges a message, if any.
    pub fn peer(self) -> Option<usize> {
        match self.role() {
            Role::Receive(peer) | Role::Send(peer) => Some(peer),
            Role::Run | Role::PutOff => None,
        }
    }

    /// Whether it runs a part forward or backward.
    pub(crate) fn is_pass(self) -> bool {
        self.role() == Role::Run
    }

    pub(super) fn role(self) -> Role {
        match self {
            Action::Forward { .. } | Action::Backward { .. } => Role::Run,
            Action::Weights { .. } => Role::PutOff,
            Action::SendActivation { to, .. } | Action::SendGradient { to, .. } => Role::Send(to),
            Action::RecvActivation { from, .. } | Action::RecvGradient { from, .. } => {
                Role::Receive(from)
            }
        }
    }

    pub(super) fn new(pass: Pass, role: Role, micro_batch: usize, chunk: usize) -> Action {
        match (pass, role) {
            (Pass::Forward, Role::Run) => Action::Forward { micro_batch, chunk },
            (Pass::Backward, Role::Run) => Action::Backward { micro_batch, chunk },
            // Only a backward puts anything off.
            (_, Role::PutOff) => Action::Weights { micro_batch, chunk },
            (Pass::Forward, Role::Send(to)) => Action::SendActivation {
                micro_batch,
                chunk,
                to,
            },
            (Pass::Backward, Role::Send(to)) => Action::SendGradient {
                micro_batch,
                chunk,
                to,
            },
            (Pass::Forward, Role::Receive(from)) => Action::RecvActivation {
                micro_batch,
                chunk,
                from,
            },
            (Pass::Backward, Role::Receive(from)) => Action::RecvGradient {
                micro_batch,
                chunk,
                from,
            },
        }
    }

    fn parts(self) -> (usize, usize) {
        match self {
            Action::Forward { micro_batch, chunk }
            | Action::Backward { micro_batch, chunk }
            | Action::Weights { micro_batch, chunk }
            | Action::SendActivation {
                micro_batch, chunk, ..
            }
            | Action::RecvActivation {
                micro_batch, chunk, ..
            }
            | Action::SendGradient {
                micro_batch, chunk, ..
            }
            | Action::RecvGradient {
                micro_batch, chunk, ..
            } => (micro_batch, chunk),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pass, payload) = (self.pass(), self.pass().payload());
        match self.role() {
            Role::Run => write!(f, "{pass}")?,
            Role::PutOff => f.write_str("weight gradients")?,
            Role::Send(to) => write!(f, "send {payload} to stage {to}")?,
            Role::Receive(from) => write!(f, "receive {payload} from stage {from}")?,
        }
        write!(
            f,
            " (micro-batch {}, chunk {})",
            self.micro_batch(),
            self.chunk()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_rebuilt_from_its_parts() {
        for pass in [Pass::Forward, Pass::Backward] {
            for role in [Role::Run, Role::Send(3), Role::Receive(5)] {
                let action = Action::new(pass, role, 7, 2);
                assert_eq!((action.pass(), action.role()), (pass, role));
                assert_eq!((action.micro_batch(), action.chunk()), (7, 2));
            }
        }
        let action = Action::new(Pass::Backward, Role::PutOff, 7, 2);
        assert_eq!(
            (action.pass(), action.role()),
            (Pass::Backward, Role::PutOff)
        );
        assert_eq!((action.micro_batch(), action.chunk()), (7, 2));
    }

    #[test]
    fn text_names_all_parts() {
        let action = Action::SendGradient {
            micro_batch: 4,
            chunk: 1,
            to: 2,
        };
        assert_eq!(
            action.to_string(),
            "send gradient to stage 2 (micro-batch 4, chunk 1)"
        );
    }
}
