//! Sums of matrix products that contract features which an axis cuts.

use super::{Features, Wire, add};
use crate::{
    Context, Group, Purpose, Reproducible,
    counters::Subject,
    layers::{Weight, spread::Spread},
};
use grid::Axis;
use hal::Counts;
use std::rc::Rc;
use tensor::{ReduceOp, Result, Stream, Tensor, ops, ops::Transpose};

/// A matrix product of this rank's part of `len` contracted features.
pub(crate) struct Product<'a> {
    pub(crate) a: &'a Tensor,
    pub(crate) b: &'a Weight,
    pub(crate) transpose: Transpose,
    pub(crate) len: usize,
}

/// The sum of matrix products, each of which contracts features that `axis` cuts, on every rank of it; or if its vectors are
/// spread over the axis, each rank's run of them.
pub(crate) struct ProductSum<'a> {
    context: &'a Context,
    axis: Axis,
    group: Option<Rc<Group>>,
    stream: Stream,
    // How the vectors of the result are spread over the axis.
    spread: Option<&'a Spread>,
    by_nodes: bool,
    // The sum of this rank's products, or its part of the sum of all ranks' ones; and the shape of the result.
    sum: Option<(Tensor, Vec<usize>)>,
}

impl<'a> ProductSum<'a> {
    /// An empty sum, whose collectives run on `stream`.
    ///
    /// # Errors
    /// Those of joining the group.
    pub(crate) fn new(
        context: &'a Context,
        axis: Axis,
        stream: Stream,
        spread: Option<&'a Spread>,
    ) -> Result<ProductSum<'a>> {
        let group = context.group(axis, Purpose::Main)?;
        let by_nodes = group.is_some() && context.settings().reproducible == Reproducible::Grid;
        Ok(ProductSum {
            context,
            axis,
            group,
            stream,
            spread,
            by_nodes,
            sum: None,
        })
    }

    /// Adds a product.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) when sizes do not fit, and for reproducible sums when a shard does not
    /// end with a leaf; those of the collectives.
    pub(crate) fn add(&mut self, product: &Product) -> Result<()> {
        let &Product {
            a, b, transpose, ..
        } = product;
        let sum = self.sum.take();
        let sum = match (self.wire(), sum) {
            (None, None) => (b.product(a, transpose)?, product.shape()),
            (None, Some((sum, shape))) => {
                ops::matmul_into(a, &b.block()?, transpose, &sum, 1.0, 1.0)?;
                (sum, shape)
            }
            (Some(wire), sum) => {
                let features = Features::of(self.context, self.axis, product.len)?;
                let own = product.nodes(self.context, &features)?;
                let (dtype, shape) = (a.dtype(), product.shape());
                let counts = self.counts(wire, &shape);
                let part = wire.sum(&own, dtype.accumulator(), &features.held, &counts)?;
                match sum {
                    Some((sum, shape)) => {
                        add(&self.stream, &sum, &part)?;
                        (sum, shape)
                    }
                    None if part.dtype() == dtype => (part, shape),
                    None => {
                        let sum = self.context.buffer(dtype, part.shape())?;
                        ops::cast_into_on(&self.stream, &part, &sum)?;
                        (sum, shape)
                    }
                }
            }
        };
        self.sum = Some(sum);
        Ok(())
    }

    // The elements of the result that each rank sums.
    fn counts(&self, wire: Wire<'_>, shape: &[usize]) -> Counts {
        match (self.spread, shape.last()) {
            (Some(spread), Some(columns)) => spread.counts(self.context, *columns),
            _ => wire.parts(shape.iter().product()),
        }
    }

    fn wire(&self) -> Option<Wire<'_>> {
        let group = self.group.as_deref().filter(|_| self.by_nodes)?;
        Some(Wire {
            context: self.context,
            group,
            subject: Subject::Linear,
            stream: &self.stream,
        })
    }

    /// The sum; `None` of no products.
    ///
    /// # Cost
    /// An all-reduce of the result, or a reduce-scatter if its vectors are spread.
    /// # Errors
    /// Those of the collectives.
    pub(crate) fn finish(mut self) -> Result<Option<Tensor>> {
        let Some((sum, shape)) = self.sum.take() else {
            return Ok(None);
        };
        match (self.wire(), &self.group) {
            (Some(_), _) if let Some(spread) = self.spread => {
                spread.run(self.context, &sum).map(Some)
            }
            (Some(wire), _) => {
                let whole = Tensor::empty(sum.device(), sum.dtype(), &shape)?;
                wire.gather(&sum, &wire.parts(whole.num_elements()), &whole)?;
                Ok(Some(whole))
            }
            (None, _) if let Some(spread) = self.spread => {
                let place = (Subject::Linear, &self.stream);
                spread.sum_runs(self.context, place, &sum).map(Some)
            }
            (None, Some(group)) => {
                let (context, op) = (self.context, ReduceOp::Sum);
                group.all_reduce(context, Subject::Linear, &self.stream, &sum, op)?;
                Ok(Some(sum))
            }
            (None, None) => Ok(Some(sum)),
        }
    }
}

impl Product<'_> {
    fn shape(&self) -> Vec<usize> {
        let [rows, columns] = self.b.sizes();
        let columns = match self.transpose {
            Transpose::Second => rows,
            _ => columns,
        };
        [&self.a.shape()[..self.a.shape().len() - 1], &[columns]].concat()
    }

    fn nodes(&self, context: &Context, features: &Features) -> Result<Vec<Tensor>> {
        let (own, leaf) = (features.own(), features.leaf);
        let node = || context.buffer(self.a.dtype().accumulator(), &self.shape());
        if own.len() == 1 {
            let node = node()?;
            self.b.node(self.a, self.transpose, &node, leaf)?;
            return Ok(vec![node]);
        }
        let block = self.b.block()?;
        own.into_iter()
            .map(|features| {
                let (start, len) = (features.start, features.len());
                let a = ops::columns(self.a, start, len)?;
                let b = match self.transpose {
                    Transpose::Second => ops::columns(&block, start, len)?,
                    _ => block.rows(start, len)?,
                };
                let node = node()?;
                ops::matmul_node_into(&a, &b, self.transpose, &node, [1.0, 0.0], leaf)?;
                Ok(node)
            })
            .collect()
    }
}
