//! Vectors of a value of which each rank holds a part: tokens of every sequence over Context, runs over X.
//!
//! No model states where this happens. Operations that treat vectors alike work on what a rank holds; any other
//! operation, and a model that asks for the tensor, gets all vectors, which are then gathered. [`tokens`] has context
//! parallelism, and [`runs`] sequence parallelism, which spreads the vectors of a rank's tokens once more.

mod convert;
mod heads;
mod runs;
mod tokens;

pub(crate) use heads::Neighbours;
pub(crate) use tokens::Holders;

use crate::Context;
use grid::{Axis, shard_range};
use std::{ops::Range, rc::Rc};
use tensor::{Result, Tensor};

/// Along which axes each rank has its own part of the vectors. Along the others all ranks have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Along Context.
    pub(crate) tokens: bool,
    /// Along X.
    pub(crate) runs: bool,
}

impl Share {
    /// All ranks have all vectors.
    pub(crate) const NONE: Share = Share {
        tokens: false,
        runs: false,
    };

    /// Ranks of Context have their tokens, and all ranks of X the same.
    pub(crate) const TOKENS: Share = Share {
        tokens: true,
        runs: false,
    };

    /// The axes.
    pub(crate) fn axes(self) -> impl Iterator<Item = Axis> {
        let tokens = self.tokens.then_some(Axis::Context);
        tokens.into_iter().chain(self.runs.then_some(Axis::X))
    }
}

/// The vectors of a value, of which each rank holds a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    // The dims of all vectors: rows, and what is between rows and features, beginning with tokens.
    leading: Rc<[usize]>,
    share: Share,
}

impl Spread {
    /// Of a value with these dims before its features, as far as each rank gets a part. Also over a single rank, so that
    /// the work of a model can be counted there.
    pub(crate) fn of(context: &Context, leading: &[usize], wanted: Share) -> Option<Spread> {
        let ranks = context.degree(Axis::Context);
        let tokens = match leading {
            [rows, tokens, ..] => *rows > 0 && *tokens >= 2 * ranks,
            _ => false,
        };
        let mut spread = Spread {
            leading: leading.into(),
            share: Share {
                tokens: wanted.tokens && tokens,
                runs: false,
            },
        };
        let enough = spread.vectors(context) >= context.degree(Axis::X);
        spread.share.runs = wanted.runs && context.settings().sequence_parallel && enough;
        (spread.share != Share::NONE).then_some(spread)
    }

    /// The same vectors, spread along fewer axes; `None` along none.
    pub(crate) fn only(&self, share: Share) -> Option<Spread> {
        let share = Share {
            tokens: self.share.tokens && share.tokens,
            runs: self.share.runs && share.runs,
        };
        (share != Share::NONE).then(|| Spread {
            share,
            ..self.clone()
        })
    }

    /// The dims of all vectors.
    pub(crate) fn leading(&self) -> &[usize] {
        &self.leading
    }

    /// Along which axes they are spread.
    pub(crate) fn share(&self) -> Share {
        self.share
    }

    /// Number of vectors of this rank's tokens: those that the ranks of X hold together.
    pub(crate) fn vectors(&self, context: &Context) -> usize {
        match self.share.tokens {
            true => self.vectors_of(&Holders::own(context)),
            false => self.leading.iter().product(),
        }
    }

    /// This rank's run of those.
    pub(crate) fn own(&self, context: &Context) -> Range<usize> {
        let vectors = self.vectors(context);
        match self.share.runs {
            true => shard_range(vectors, context.degree(Axis::X), context.index(Axis::X)),
            false => 0..vectors,
        }
    }

    /// Runs of vectors that this rank holds one after the other and that follow each other among all vectors: where each
    /// begins in what it holds, its length, and where it begins among all.
    pub(crate) fn pieces(&self, context: &Context) -> Vec<(usize, usize, usize)> {
        let own = self.own(context);
        if !self.share.tokens {
            return vec![(0, own.len(), own.start)];
        }
        let (rest, mut pieces) = (self.vectors_of_token(), Vec::new());
        for (vectors, tokens) in self.own_chunks(context) {
            for row in 0..self.leading[0] {
                let start = vectors.start + row * tokens.len() * rest;
                let held = start.max(own.start)..(start + tokens.len() * rest).min(own.end);
                if !held.is_empty() {
                    let first = (row * self.leading[1] + tokens.start) * rest;
                    let among_all = first + held.start - start;
                    pieces.push((held.start - own.start, held.len(), among_all));
                }
            }
        }
        pieces
    }

    // The shape of `columns` features of this rank's tokens.
    fn shape(&self, context: &Context, columns: usize) -> Vec<usize> {
        match self.share.tokens {
            true => vec![self.vectors(context), columns],
            false => self.whole_shape(columns),
        }
    }

    // And of all.
    fn whole_shape(&self, columns: usize) -> Vec<usize> {
        [&self.leading[..], &[columns]].concat()
    }

    /// The elements of what this rank holds as a matrix.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for another number of elements.
    pub(crate) fn run(&self, context: &Context, elements: &Tensor) -> Result<Tensor> {
        let vectors = self.own(context).len();
        elements.reshape(&[vectors, elements.num_elements() / vectors.max(1)])
    }
}
