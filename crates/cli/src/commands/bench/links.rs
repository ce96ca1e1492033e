//! Times of collectives and messages between ranks of one or several nodes, with all sibling groups active at
//! once.

use crate::numbers::Spread;
use bootstrap::World;
use grid::{
    Axis, AxisOrder, Degrees, Grid,
    machine::{Operation, links::Timed},
};
use hal::Counts;
use parallel::{Context, Group, Hierarchical, Purpose, Settings, counters::Subject};
use std::{rc::Rc, time::Instant};
use tensor::{DType, Device, ReduceOp, Tensor};

const OPERATIONS: [Operation; 4] = [
    Operation::AllReduce,
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::Message,
];

/// Groups of `size` ranks whose neighbours are `inner` positions apart. Ranks of a node have neighbouring
/// positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupShape {
    /// Positions between neighbours.
    pub(crate) inner: usize,
    /// Ranks per group.
    pub(crate) size: usize,
}

impl GroupShape {
    /// Every kind of group whose size and distance divide a world of `ranks`.
    pub(crate) fn all(ranks: usize) -> Vec<GroupShape> {
        let divisors =
            |number: usize| (1..=number).filter(move |divisor| number.is_multiple_of(*divisor));
        let of =
            move |size: usize| divisors(ranks / size).map(move |inner| GroupShape { inner, size });
        divisors(ranks)
            .filter(|size| *size > 1)
            .flat_map(of)
            .collect()
    }
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Sizes of whole buffers in bytes, ascending, with the number of back-to-back calls for each.
    sizes: &'static [(usize, usize)],
    /// Microseconds that a row may take. Over slow links there are fewer calls, and the largest sizes are
    /// skipped.
    row_us: f64,
}

/// Enough to compare axes, in a second or two.
pub(crate) const PROBE: Effort = Effort {
    sizes: &[(4 << 10, 8), (128 << 10, 4), (1 << 20, 2)],
    row_us: 60e3,
};

/// Measurements for a machine's description.
pub(crate) const FULL: Effort = Effort {
    sizes: &[
        (1 << 10, 100),
        (16 << 10, 50),
        (256 << 10, 20),
        (1 << 20, 10),
        (8 << 20, 3),
    ],
    row_us: 1e6,
};

impl Effort {
    // Calls in a row for the size at `index`, judged by the point before it. `None` if a single call would
    // take too long.
    fn calls(&self, index: usize, before: Option<&[f64; 2]>) -> usize {
        let (bytes, calls) = self.sizes[index];
        let us = before.map_or(0.0, |[bytes_before, us]| us * bytes as f64 / bytes_before);
        match us > self.row_us {
            true => 0,
            false => calls.min((self.row_us / us.max(1e-3)) as usize).max(1),
        }
    }
}

/// Seconds of each collective, and of a message between neighbours, in groups of these kinds. The same on
/// every rank.
pub(crate) fn measure_links(
    world: &World,
    device: &Device,
    kinds: &[GroupShape],
    effort: Effort,
) -> train::Result<Vec<Timed>> {
    let mut measured = Vec::new();
    for kind in kinds {
        let context = context(world, device, *kind)?;
        let ranks = context
            .mapping()
            .node_sizes()
            .into_iter()
            .max()
            .unwrap_or(1);
        let Some(group) = context.group(Axis::Y, Purpose::Main)? else {
            continue;
        };
        for operation in OPERATIONS {
            let points = points(&context, &group, operation, effort)?;
            measured.push(Timed {
                ranks,
                inner: kind.inner,
                size: kind.size,
                operation,
                points,
            });
        }
    }
    Ok(measured)
}

fn points(
    context: &Context,
    group: &Rc<Group>,
    operation: Operation,
    effort: Effort,
) -> train::Result<Vec<[f64; 2]>> {
    let mut points: Vec<[f64; 2]> = Vec::new();
    for (index, (bytes, _)) in effort.sizes.iter().enumerate() {
        let calls = effort.calls(index, points.last());
        if calls == 0 {
            break;
        }
        let bytes = bytes.next_multiple_of(4 * group.size());
        points.push([
            bytes as f64,
            Probe::new(context, group, bytes)?.us(operation, calls)?,
        ]);
    }
    Ok(points)
}

// A grid whose Y axis has groups of the given kind.
fn context(world: &World, device: &Device, kind: GroupShape) -> train::Result<Context> {
    let (x, y) = (kind.inner, kind.size);
    let degrees = Degrees {
        x,
        y,
        z: world.size() / (x * y),
        ..Degrees::default()
    };
    let grid = Grid::for_ranks(degrees, AxisOrder::default(), world.size())?;
    let settings = Settings {
        hierarchical: Hierarchical::Off,
        ..Settings::default()
    };
    Ok(Context::new(world.clone(), grid, device.clone(), settings)?)
}

struct Probe<'a> {
    context: &'a Context,
    group: &'a Rc<Group>,
    whole: Tensor,
    part: Tensor,
}

impl<'a> Probe<'a> {
    fn new(context: &'a Context, group: &'a Rc<Group>, bytes: usize) -> train::Result<Probe<'a>> {
        let zeros = |count| Tensor::zeros(context.device(), DType::F32, &[count]);
        Ok(Probe {
            context,
            group,
            whole: zeros(bytes / 4)?,
            part: zeros(bytes / 4 / group.size())?,
        })
    }

    // Microseconds per call on the slowest rank; the median of three rounds.
    fn us(&self, operation: Operation, calls: usize) -> train::Result<f64> {
        let mut rounds = Vec::new();
        self.calls(operation, 1)?;
        for _ in 0..3 {
            self.context.world().everyone().barrier()?;
            let begun = Instant::now();
            self.calls(operation, calls)?;
            rounds.push(begun.elapsed().as_secs_f64() * 1e6 / calls as f64);
        }
        let middle = Spread::of(&rounds).median;
        let told = self
            .context
            .world()
            .everyone()
            .all_gather(&middle.to_le_bytes())?;
        let times = told
            .iter()
            .filter_map(|bytes| bytes.as_slice().try_into().ok())
            .map(f64::from_le_bytes);
        Ok(times.fold(0.0, f64::max))
    }

    fn calls(&self, operation: Operation, calls: usize) -> train::Result<()> {
        let stream = self.context.device().compute();
        (0..calls).try_for_each(|call| self.call(operation, call))?;
        Ok(stream.synchronize()?)
    }

    fn call(&self, operation: Operation, call: usize) -> hal::Result<()> {
        let (context, group, subject) = (self.context, self.group, Subject::Layout);
        let (stream, counts) = (
            context.device().compute(),
            Counts::Even(self.part.num_elements()),
        );
        match operation {
            Operation::AllGather => {
                group.all_gather(context, subject, &stream, &self.part, &self.whole, &counts)
            }
            Operation::ReduceScatter => {
                group.reduce_scatter(context, subject, &stream, &self.whole, &self.part, &counts)
            }
            Operation::Message => self.message(call),
            _ => group.all_reduce(context, subject, &stream, &self.whole, ReduceOp::Sum),
        }
    }

    // Pairs of neighbours send there and back; in a group of odd size one rank is idle.
    fn message(&self, call: usize) -> hal::Result<()> {
        let (context, group) = (self.context, self.group);
        let (stream, subject, other) = (
            context.device().compute(),
            Subject::Pipeline,
            group.rank() ^ 1,
        );
        match (call + group.rank()) % 2 {
            _ if other >= group.size() => Ok(()),
            0 => group.send(context, subject, &stream, &self.whole, other),
            _ => group.recv(context, subject, &stream, &self.whole, other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_groups_divide_the_world() {
        let all: Vec<_> = GroupShape::all(6)
            .into_iter()
            .map(|kind| (kind.inner, kind.size))
            .collect();
        assert_eq!(all, [(1, 2), (3, 2), (1, 3), (2, 3), (1, 6)]);
        assert!(GroupShape::all(1).is_empty());
    }

    #[test]
    fn slow_links_are_given_fewer_calls() {
        let effort = Effort {
            sizes: &[(1024, 100), (4096, 100), (16384, 100)],
            row_us: 1000.0,
        };
        assert_eq!(effort.calls(0, None), 100);
        assert_eq!(effort.calls(1, Some(&[1024.0, 1.0])), 100);
        assert_eq!(effort.calls(1, Some(&[1024.0, 25.0])), 10);
        assert_eq!(effort.calls(2, Some(&[4096.0, 200.0])), 1);
        assert_eq!(effort.calls(2, Some(&[4096.0, 300.0])), 0);
    }
}
