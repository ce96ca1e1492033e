//! Runs the segments of one part, whose wires stay on this rank.

use super::saver::PartSaver;
use crate::{
    DTensor, Pass,
    layers::{Loss, recompute},
    memory::{PlaceKind, SegmentMemory},
    model::{Cut, Input, MicroBatch, Model, Wires},
    work::{Ledger, SegmentWork, WireWork},
};
use std::{ops::Range, rc::Rc};
use tensor::{Error, Result, Tensor};

/// A model with its cut, as one rank runs it.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) model: Rc<dyn Model>,
    pub(crate) cut: Rc<Cut>,
    /// What each segment does with what it keeps.
    pub(crate) memory: Rc<[SegmentMemory]>,
    /// Runs of segments that are recomputed as one; all of a run agree on their memory.
    pub(crate) recomputed: Rc<[Range<usize>]>,
}

/// Wires by index, while they are alive on this rank.
#[derive(Default)]
pub(super) struct Live(Vec<(usize, DTensor)>);

impl Live {
    pub(super) fn put(&mut self, wire: usize, tensor: DTensor) {
        self.0.push((wire, tensor));
    }

    /// The tensors that wires hold.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.0.iter().flat_map(|(_, wire)| wire.tensors())
    }

    pub(super) fn get(&self, wire: usize) -> Result<&DTensor> {
        let found = self.0.iter().find(|(number, _)| *number == wire);
        found.map(|(_, tensor)| tensor).ok_or_else(|| missing(wire))
    }

    // At its last use it returns the tensor itself, so that the user may overwrite its memory.
    fn take(&mut self, wire: usize, is_last: bool) -> Result<DTensor> {
        if !is_last {
            return self.get(wire).cloned();
        }
        let index = self.0.iter().position(|(number, _)| *number == wire);
        index
            .map(|index| self.0.swap_remove(index).1)
            .ok_or_else(|| missing(wire))
    }
}

fn missing(wire: usize) -> Error {
    Error::invalid(
        "pipeline",
        format!("wire {wire} used before it is made"),
        "a bug of ours",
    )
}

impl Program {
    /// Runs the segments of a part; afterwards the wires that it makes for later parts, and for the objective,
    /// are alive.
    pub(super) fn forward(
        &self,
        part: usize,
        pass: &Pass,
        batch: &MicroBatch,
        live: &mut Live,
        saver: &mut PartSaver<'_>,
    ) -> Result<()> {
        let segments = self.cut.segments(part);
        // The objective counts as a segment of the last part.
        let held = segments.start..segments.end + usize::from(self.cut.is_last(part));
        let mut next = segments.start;
        while next < segments.end {
            let run = self.run_at(next, segments.end);
            next = saver.segment(self.place(next), live, |live| match run {
                Some(run) => {
                    self.recompute(&run, &held, pass, batch, live)?;
                    Ok(run.end)
                }
                None => {
                    self.segment(next, &held, pass, batch, live)?;
                    Ok(next + 1)
                }
            })?;
        }
        Ok(())
    }

    /// Runs all segments forward, and returns the work of each and the wires between them.
    pub(crate) fn count(
        &self,
        pass: &Pass,
        batch: &MicroBatch,
    ) -> Result<(Vec<SegmentWork>, Vec<WireWork>)> {
        let (mut live, all) = (Live::default(), 0..self.cut.num_segments());
        let held = all.start..all.end + 1;
        let (mut segments, mut wires) = (Vec::new(), Vec::new());
        for segment in all {
            self.segment(segment, &held, pass, batch, &mut live)?;
            segments.push(pass.ledger().map(Ledger::take).unwrap_or_default());
            for number in self.cut.leaving(segment) {
                let tensor = live.get(number)?;
                wires.push(WireWork {
                    from: segment,
                    to: self.cut.wire(number).to.clone(),
                    elements: tensor.held().num_elements() / batch.rows().len().max(1),
                    place: tensor.place(),
                    wants_gradient: tensor.held_var().wants_gradient(),
                });
            }
        }
        Ok((segments, wires))
    }

    /// Takes the wires that enter the objective.
    pub(super) fn outputs(&self, live: &mut Live) -> Result<Wires> {
        let mut wires = Wires::new();
        for number in self.cut.entering(self.cut.num_segments()) {
            wires = wires.with(self.cut.wire(number).name.clone(), live.take(number, true)?);
        }
        Ok(wires)
    }

    /// The loss of a micro-batch.
    pub(super) fn objective(
        &self,
        pass: &Pass,
        batch: &MicroBatch,
        live: &mut Live,
    ) -> Result<Loss> {
        let wires = self.outputs(live)?;
        self.model.objective(&Input::new(pass, batch), wires)
    }

    /// Where what a segment keeps is between forward and backward.
    pub(super) fn place(&self, segment: usize) -> PlaceKind {
        self.memory[segment].place
    }

    // The run of recomputed segments that starts at `segment`, as far as this part holds it.
    fn run_at(&self, segment: usize, end: usize) -> Option<Range<usize>> {
        let run = self.recomputed.iter().find(|run| run.contains(&segment))?;
        Some(segment..run.end.min(end))
    }

    // Whether a wire is needed after this segment: by the segments `held`, or by others that get it from here.
    fn is_needed_after(&self, number: usize, segment: usize, held: &Range<usize>) -> bool {
        let wire = self.cut.wire(number);
        let goes_on = held.contains(&wire.from) || self.cut.hands_on(segment, number);
        wire.to
            .iter()
            .any(|to| *to > segment && (goes_on || *to < held.end))
    }

    fn segment(
        &self,
        segment: usize,
        held: &Range<usize>,
        pass: &Pass,
        batch: &MicroBatch,
        live: &mut Live,
    ) -> Result<()> {
        let mut entering = Wires::new();
        for number in self.cut.entering(segment) {
            let is_last = !self.is_needed_after(number, segment, held);
            entering = entering.with(
                self.cut.wire(number).name.clone(),
                live.take(number, is_last)?,
            );
        }
        let mut made = self
            .model
            .forward(segment, &Input::new(pass, batch), entering)?;
        for number in self.cut.leaving(segment) {
            let name = &self.cut.wire(number).name;
            let tensor = made.take(name).map_err(|_| {
                let operation = format!("segment {segment}");
                Error::invalid(
                    operation,
                    format!("no wire {name}"),
                    "one, as declared by its routes",
                )
            })?;
            pass.observe(segment, name, &tensor)?;
            live.put(number, tensor);
        }
        match made.iter().next() {
            None => Ok(()),
            Some((name, _)) => {
                let found = format!("a wire {name} without a route");
                Err(Error::invalid(
                    format!("segment {segment}"),
                    found,
                    "a route for each wire that it returns",
                ))
            }
        }
    }

    fn recompute(
        &self,
        run: &Range<usize>,
        held: &Range<usize>,
        pass: &Pass,
        batch: &MicroBatch,
        live: &mut Live,
    ) -> Result<()> {
        let wires = |numbers: &mut dyn Iterator<Item = usize>| {
            let mut found: Vec<usize> = numbers.collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        let from_outside = |number: &usize| !run.contains(&self.cut.wire(*number).from);
        let entering = run.clone().flat_map(|segment| self.cut.entering(segment));
        let entering = wires(&mut entering.filter(from_outside));
        let used_later = |number: &usize| self.cut.wire(*number).to.iter().any(|to| *to >= run.end);
        let leaving = run.clone().flat_map(|segment| self.cut.leaving(segment));
        let leaving = wires(&mut leaving.filter(used_later));
        let last = run.end - 1;
        let take = |number: &usize| live.take(*number, !self.is_needed_after(*number, last, held));
        let inputs = entering.iter().map(take).collect::<Result<Vec<_>>>()?;
        let (program, batch, run) = (self.clone(), batch.clone(), run.clone());
        let made = leaving.clone();
        let block = move |pass: &Pass, inputs: Vec<DTensor>| {
            let mut live = Live(entering.iter().copied().zip(inputs).collect());
            for segment in run.clone() {
                program.segment(segment, &run, pass, &batch, &mut live)?;
            }
            made.iter().map(|number| live.take(*number, true)).collect()
        };
        let outputs = recompute(pass, &inputs, Rc::new(block))?;
        leaving
            .into_iter()
            .zip(outputs)
            .for_each(|(number, tensor)| live.put(number, tensor));
        Ok(())
    }
}
