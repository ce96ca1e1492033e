//! Changes what a rank holds of a value, with its gradient.

use super::{Share, Spread};
use crate::{Context, DTensor, counters::Subject};
use tensor::{Result, Stream, Tensor, Var};

type Move = fn(&Spread, &Context, &Tensor) -> Result<Tensor>;

fn layout(context: &Context) -> (Subject, Stream) {
    (Subject::Layout, context.device().compute())
}

fn gather_runs(spread: &Spread, context: &Context, x: &Tensor) -> Result<Tensor> {
    let (subject, compute) = layout(context);
    spread.gather_runs(context, (subject, &compute), x)
}

fn gather_tokens(spread: &Spread, context: &Context, x: &Tensor) -> Result<Tensor> {
    let (subject, compute) = layout(context);
    spread.gather_tokens(context, (subject, &compute), x)
}

impl Spread {
    /// All vectors, from what all ranks hold.
    ///
    /// # Errors
    /// Those of the collectives.
    pub(crate) fn gather(
        &self,
        context: &Context,
        place: (Subject, &Stream),
        held: &Tensor,
    ) -> Result<Tensor> {
        let part = self.gather_runs(context, place, held)?;
        self.gather_tokens(context, place, &part)
    }

    /// A copy of what this rank holds of `whole`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub(crate) fn cut(&self, context: &Context, whole: &Tensor) -> Result<Tensor> {
        match self.share {
            Share {
                tokens: true,
                runs: true,
            } => self.cut_runs(context, &self.cut_tokens(context, whole)?),
            Share { tokens: true, .. } => self.cut_tokens(context, whole),
            _ => self.cut_runs(context, whole),
        }
    }
}

impl DTensor {
    /// All vectors of a spread value. Every rank computes the same gradient of them, and keeps its part of it.
    pub(in crate::layers) fn gathered(&self) -> Result<Var> {
        let held = self.of_tokens()?;
        Ok(match held.spread() {
            Some(spread) => {
                held.moved(spread, "gather tokens", gather_tokens, Spread::cut_tokens)?
            }
            None => held.into_held(),
        })
    }

    /// The same value with all vectors of this rank's tokens on every rank of X.
    ///
    /// # Errors
    /// Those of the collective.
    pub(crate) fn of_tokens(&self) -> Result<DTensor> {
        let Some(spread) = self.spread().filter(|spread| spread.share().runs) else {
            return Ok(self.clone());
        };
        let var = self.moved(spread, "gather vectors", gather_runs, Spread::cut_runs)?;
        let place = (self.features(), self.cut());
        DTensor::spread_over(self.pass(), var, place, spread.only(Share::TOKENS))
    }

    /// The same value with its vectors spread as those of `other`.
    ///
    /// # Errors
    /// Those of the collectives.
    pub(crate) fn spread_like(&self, other: &DTensor) -> Result<DTensor> {
        self.spread_as(other.spread())
    }

    /// The same value with its vectors spread so, or all of them.
    ///
    /// # Errors
    /// Those of the collectives.
    pub(crate) fn spread_as(&self, wanted: Option<&Spread>) -> Result<DTensor> {
        if self.spread() == wanted {
            return Ok(self.clone());
        }
        let place = (self.features(), self.cut());
        let mut x = self.of_tokens()?;
        let of_tokens = wanted.and_then(|wanted| wanted.only(Share::TOKENS));
        if x.share().tokens != of_tokens.is_some() {
            x = match of_tokens {
                Some(spread) => {
                    let var = x.moved(&spread, "cut tokens", Spread::cut_tokens, gather_tokens)?;
                    DTensor::spread_over(x.pass(), var, place, spread)?
                }
                None => DTensor::spread_over(x.pass(), x.var()?.clone(), place, None)?,
            };
        }
        match wanted.filter(|wanted| wanted.share().runs) {
            Some(spread) => {
                let var = x.moved(spread, "spread vectors", Spread::cut_runs, gather_runs)?;
                DTensor::spread_over(x.pass(), var, place, spread.clone())
            }
            None => Ok(x),
        }
    }

    // What `there` makes of what this rank holds; `back` does the same to its gradient.
    fn moved(&self, spread: &Spread, name: &'static str, there: Move, back: Move) -> Result<Var> {
        let (context, spread) = (self.context().clone(), spread.clone());
        let out = there(&spread, &context, self.held())?;
        let inputs = [self.held_var()];
        Ok(Var::record_one(name, &inputs, out, false, move |d_out| {
            Ok(vec![Some(back(&spread, &context, &d_out)?)])
        }))
    }
}
