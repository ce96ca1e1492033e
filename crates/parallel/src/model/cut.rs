//! The segments that each pipeline stage holds, and the wires that cross between parts.

use super::{Model, Route};
use crate::{
    Parameter,
    pipeline::schedule::{Stages, balance},
};
use std::{borrow::Cow, collections::BTreeMap, ops::Range};
use tensor::{Error, Result};

/// A model cut into parts, which lie on [`Stages`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    stages: Stages,
    parts: Vec<Range<usize>>,
    wires: Vec<Wire>,
    /// The indices of the wires that enter each segment, and the objective, which counts as the last one.
    entering: Vec<Vec<usize>>,
    /// The indices of the wires that each segment makes.
    leaving: Vec<Vec<usize>>,
    links: Vec<Link>,
}

/// A tensor that a segment makes, with all segments that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    pub(crate) name: Cow<'static, str>,
    pub(crate) from: usize,
    pub(crate) to: Vec<usize>,
}

/// The wires from one part to a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The part that sends.
    pub from: usize,
    /// The part that receives.
    pub to: usize,
    /// The indices of the wires, each once however many segments of the receiving part use it.
    pub wires: Vec<usize>,
}

impl Link {
    /// Whether it passes over parts.
    pub(crate) fn skips(&self) -> bool {
        self.to != self.from + 1
    }
}

impl Cut {
    /// Cuts a model into parts of these numbers of segments, or without them so that the largest cost of a part is minimal.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a model without segments, more parts than segments, no stages or chunks, numbers that are not one
    /// for each part, at least 1, and all segments in sum, a cost that is negative or not a finite number, and routes that do not lead from a segment to a later one or that give a
    /// segment two wires with one name.
    pub fn new(
        model: &dyn Model,
        parameters: &[Parameter],
        stages: Stages,
        depths: Option<&[usize]>,
    ) -> Result<Cut> {
        let costs = Cut::costs(model, parameters)?;
        let routes = model.routes();
        check_routes(&routes, costs.len())?;
        let parts = match depths {
            Some(depths) => Cut::stated(depths, costs.len(), stages)?,
            None => Cut::parts(&costs, stages)?,
        };
        let wires = wires(&routes);
        let links = links(&parts, stages, &wires);
        let mut entering = vec![Vec::new(); costs.len() + 1];
        let mut leaving = entering.clone();
        for (number, wire) in wires.iter().enumerate() {
            leaving[wire.from].push(number);
            wire.to.iter().for_each(|to| entering[*to].push(number));
        }
        Ok(Cut {
            stages,
            parts,
            wires,
            entering,
            leaving,
            links,
        })
    }

    /// The segments of the parts that lie on this stage.
    pub(crate) fn parts_of(&self, stage: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let parts = self.parts.iter().enumerate();
        let own = parts.filter(move |(part, _)| self.stages.location(*part).stage == stage);
        own.map(|(_, segments)| segments.clone())
    }

    /// The segments of each part, so that the largest cost of a part is minimal.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more parts than segments, for no parts, and a cost that is negative or not a finite
    /// number.
    pub fn parts(costs: &[f64], stages: Stages) -> Result<Vec<Range<usize>>> {
        balance(costs, stages.num_parts()).map_err(|error| {
            let found = format!("{} stages of {} chunks", stages.number, stages.chunks);
            let needed = format!("at most {} parts in all ({error})", costs.len());
            Error::invalid("pipeline", found, needed)
        })
    }

    /// The segments of each part, if the parts have these numbers of segments, from the first part to the last.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless there is a number for each part, each is at least 1, and their sum is that of the segments.
    pub fn stated(
        depths: &[usize],
        num_segments: usize,
        stages: Stages,
    ) -> Result<Vec<Range<usize>>> {
        let mut end = 0_usize;
        let ranges = depths.iter().map(|depth| {
            let start = end;
            end = end.saturating_add(*depth);
            start..end
        });
        let ranges: Vec<Range<usize>> = ranges.collect();
        match ranges.len() == stages.num_parts() && end == num_segments && !depths.contains(&0) {
            true => Ok(ranges),
            false => {
                let needed = format!(
                    "{} numbers of at least 1 whose sum is {num_segments}, the segments of each part",
                    stages.num_parts()
                );
                Err(Error::invalid("stages", format!("{depths:?}"), needed))
            }
        }
    }

    /// The cost per row of each segment: as the model declares it, or two flop per element of a weight matrix.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a model without segments, and a cost that is negative or not a finite number.
    pub fn costs(model: &dyn Model, parameters: &[Parameter]) -> Result<Vec<f64>> {
        let number = model.num_segments();
        if number == 0 {
            return Err(Error::invalid("model", "0 segments", "at least 1"));
        }
        let mut elements = vec![0_usize; number];
        for parameter in parameters.iter().filter(|one| one.global_shape().len() > 1) {
            let own = parameter.global_shape().iter().product();
            for segment in parameter.segments() {
                if let Some(elements) = elements.get_mut(segment) {
                    *elements = elements.saturating_add(own);
                }
            }
        }
        let cost = |segment: usize| {
            let counted = || 2.0 * elements[segment].max(1) as f64;
            let cost = model.cost(segment).unwrap_or_else(counted);
            match cost.is_finite() && cost >= 0.0 {
                true => Ok(cost),
                false => {
                    let found = format!("cost {cost} of segment {segment}");
                    Err(Error::invalid("model", found, "a number from 0"))
                }
            }
        };
        (0..number).map(cost).collect()
    }

    /// The stages on which the parts lie.
    pub fn stages(&self) -> Stages {
        self.stages
    }

    /// The segments of a part.
    pub fn segments(&self, part: usize) -> Range<usize> {
        self.parts[part].clone()
    }

    /// The stage that holds a part.
    pub fn stage(&self, part: usize) -> usize {
        self.stages.location(part).stage
    }

    /// The stages that hold these segments, each once, in the order of the segments.
    pub fn stages_of(&self, segments: &[usize]) -> Vec<usize> {
        let mut stages = Vec::new();
        for segment in segments {
            let part = self.parts.iter().position(|part| part.contains(segment));
            let stage = part.map(|part| self.stage(part));
            stages.extend(stage.filter(|stage| !stages.contains(stage)));
        }
        stages
    }

    /// Number of segments of the model.
    pub fn num_segments(&self) -> usize {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// Whether a part is the last one, which ends with the objective.
    pub fn is_last(&self, part: usize) -> bool {
        part + 1 == self.parts.len()
    }

    pub(crate) fn wire(&self, number: usize) -> &Wire {
        &self.wires[number]
    }

    /// Whether the part that holds this segment passes a wire to another part, on its own stage or another one.
    pub(crate) fn hands_on(&self, segment: usize, wire: usize) -> bool {
        let holds = |part: usize| self.parts[part].contains(&segment);
        let mut links = self.links.iter();
        links.any(|link| holds(link.from) && link.wires.contains(&wire))
    }

    /// The indices of the wires that enter a segment.
    pub(crate) fn entering(&self, segment: usize) -> impl Iterator<Item = usize> {
        self.entering[segment].iter().copied()
    }

    /// The indices of the wires that a segment makes.
    pub(crate) fn leaving(&self, segment: usize) -> impl Iterator<Item = usize> {
        self.leaving[segment].iter().copied()
    }

    /// The links between parts, in the order of senders and then of receivers.
    pub fn links(&self) -> &[Link] {
        &self.links
    }
}

fn check_routes(routes: &[Route], num_segments: usize) -> Result<()> {
    for (index, route) in routes.iter().enumerate() {
        let Route { name, from, to } = route;
        if from >= to || *to > num_segments {
            let found = format!("from segment {from} to {to}");
            let needed =
                format!("an end after its beginning, of {num_segments} segments and the objective");
            return Err(Error::invalid(format!("route {name}"), found, needed));
        }
        if routes[..index]
            .iter()
            .any(|other| other.name == *name && other.to == *to)
        {
            let found = format!("two wires of that name into segment {to}");
            return Err(Error::invalid(
                format!("route {name}"),
                found,
                "a name of its own for each",
            ));
        }
    }
    Ok(())
}

fn wires(routes: &[Route]) -> Vec<Wire> {
    let mut wires: Vec<Wire> = Vec::new();
    for Route { name, from, to } in routes {
        match wires
            .iter_mut()
            .find(|wire| wire.name == *name && wire.from == *from)
        {
            Some(wire) => wire.to.push(*to),
            None => wires.push(Wire {
                name: name.clone(),
                from: *from,
                to: vec![*to],
            }),
        }
    }
    wires
}

fn links(parts: &[Range<usize>], stages: Stages, wires: &[Wire]) -> Vec<Link> {
    let mut links: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (number, wire) in wires.iter().enumerate() {
        for hop in hops(parts, stages, wire.from, &wire.to) {
            links.entry(hop).or_default().push(number);
        }
    }
    let link = |((from, to), wires)| Link { from, to, wires };
    links.into_iter().map(link).collect()
}

/// The pairs of parts between which a wire travels from one segment to others: once to each stage, whose first
/// part that reads it passes it to the next one. A pair on one stage needs no message.
pub(crate) fn hops(
    parts: &[Range<usize>],
    stages: Stages,
    from: usize,
    to: &[usize],
) -> Vec<(usize, usize)> {
    let last = parts.len() - 1;
    // The objective runs with the last part.
    let part_of = |segment: usize| {
        let found = parts.iter().position(|part| part.contains(&segment));
        found.unwrap_or(last)
    };
    let from = part_of(from);
    let mut users: Vec<usize> = to.iter().map(|to| part_of(*to)).collect();
    users.sort_unstable();
    users.dedup();
    users.retain(|part| *part != from);
    let stage = move |part: usize| stages.location(part).stage;
    let on_stage_of = |part: usize| move |other: &&usize| stage(**other) == stage(part);
    let hop = |(index, part): (usize, &usize)| {
        let earlier = users[..index].iter().rev().find(on_stage_of(*part));
        (*earlier.unwrap_or(&from), *part)
    };
    users.iter().enumerate().map(hop).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::schedule::Placement;

    #[test]
    fn stated_depths_are_the_parts_or_one_sentence() {
        let stated = |depths: &[usize]| Cut::stated(depths, 6, Stages::plain(3));
        assert_eq!(stated(&[1, 3, 2]).unwrap(), [0..1, 1..4, 4..6]);
        for wrong in [&[3, 3][..], &[1, 2, 2], &[0, 3, 3], &[1, 1, usize::MAX]] {
            let text = stated(wrong).unwrap_err().to_string();
            let needed = "needs 3 numbers of at least 1 whose sum is 6, the segments of each part";
            assert_eq!(text, format!("stages: {wrong:?}, {needed}"));
        }
    }

    #[test]
    fn a_wire_goes_once_to_each_stage() {
        let parts: Vec<Range<usize>> = (0..6).map(|part| part..part + 1).collect();
        let stages = |number| Stages {
            chunks: 6 / number,
            ..Stages::plain(number)
        };
        // Parts 1, 3 and 5 are on the second of two stages, 2 and 4 on the first.
        assert_eq!(
            hops(&parts, stages(2), 0, &[5, 1, 3]),
            [(0, 1), (1, 3), (3, 5)]
        );
        assert_eq!(
            hops(&parts, stages(2), 0, &[2, 3, 4]),
            [(0, 2), (0, 3), (2, 4)]
        );
        assert_eq!(
            hops(&parts, stages(3), 0, &[1, 3, 4, 5]),
            [(0, 1), (0, 3), (1, 4), (0, 5)]
        );
        // There and back again: parts 2 and 3 are on the third stage, 0 and 5 on the first.
        let v = Stages {
            placement: Placement::V,
            ..stages(3)
        };
        assert_eq!(hops(&parts, v, 1, &[2, 3, 4]), [(1, 2), (2, 3), (1, 4)]);
        // The objective is with the last part.
        assert_eq!(hops(&parts, stages(6), 4, &[5, 6]), [(4, 5)]);
        assert_eq!(hops(&parts, stages(6), 5, &[6]), []);
    }
}
