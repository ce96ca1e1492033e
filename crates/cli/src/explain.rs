//! The work of a step on each axis, for `train --explain`.
//!
//! `seen` holds what a rank counts and measures. `span` computes where an axis lies on the nodes and how
//! long its traffic should take there.

mod seen;
mod span;

pub(crate) use seen::Seen;

use crate::{failure::Outcome, report as beginning, timeline::Timeline};
use grid::Axis;
use hal::error::Bytes;
use parallel::report::Report;
use serde::Serialize;
use span::{AxisSpan, Expected};
use std::fmt::Write;
use train::{Config, placement::Volume};

/// One step, explained from the view of one rank.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Explanation {
    grid: String,
    order: String,
    /// Sizes and choices of the model.
    model: String,
    /// What the bits of a run depend on, and why.
    bits: String,
    /// What `training.memory = "auto"` chose and why, in sentences.
    memory: Vec<String>,
    /// The source of the expected seconds.
    expected_by: String,
    /// A sentence about an axis with much traffic that the nodes split.
    warning: Option<String>,
    rank: usize,
    coordinates: String,
    axes: Vec<AxisUse>,
    layout_changes: Vec<Change>,
    schedule: Option<Timeline>,
}

#[derive(Clone, Debug, Serialize)]
struct AxisUse {
    axis: &'static str,
    degree: usize,
    role: &'static str,
    members: Vec<usize>,
    place: AxisSpan,
    /// Seconds per step that this axis should take if nothing overlaps, and their share of the step.
    expected_s: Option<f64>,
    share: Option<f64>,
    formulas: Vec<Formula>,
    traffic: Vec<Traffic>,
}

/// Bytes of the linear layers of all stages, or over Context of attention, by formula and as counted.
#[derive(Clone, Debug, Serialize)]
struct Formula {
    operation: &'static str,
    of: &'static str,
    bytes: u64,
    counted: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Traffic {
    operation: &'static str,
    subject: String,
    calls: u64,
    /// Bytes of the whole buffers.
    bytes: u64,
    /// Whether the collective runs in levels: inside each node, across nodes, and back.
    in_levels: bool,
    /// Bytes that this rank would send in a ring.
    ring_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Change {
    place: String,
    from: Option<&'static str>,
    to: Option<&'static str>,
    gathered_bytes: usize,
    times: usize,
}

impl Explanation {
    /// Built from one rank's view of one step.
    pub(crate) fn new(
        config: &Config,
        seen: &Seen,
        (why_run, memory): (Option<String>, Vec<String>),
    ) -> Outcome<Explanation> {
        let volumes = train::placement::volumes(config)?;
        let expected = Expected::new(config, seen)?;
        let used: Vec<Axis> = Axis::ALL
            .into_iter()
            .filter(|&axis| seen.grid.degree(axis) > 1)
            .collect();
        let communication_s = used
            .iter()
            .filter_map(|&axis| expected.seconds(seen, axis))
            .sum();
        let total_s = expected.total(communication_s);
        Ok(Explanation {
            grid: seen.grid.degrees().to_string(),
            order: seen.grid.order().to_string(),
            model: config.model.describe(),
            bits: beginning::bits(config, why_run.as_deref()),
            memory,
            expected_by: expected.source().to_owned(),
            warning: train::placement::warning(config, &seen.grid, &seen.mapping)?,
            rank: seen.rank,
            coordinates: seen
                .grid
                .coordinates(seen.mapping.position_of(seen.rank))
                .to_string(),
            axes: used
                .iter()
                .map(|&axis| axis_use(&volumes, seen, axis, expected.seconds(seen, axis), total_s))
                .collect(),
            layout_changes: changes(&seen.report),
            schedule: Timeline::new(config)?,
        })
    }

    /// For people.
    pub(crate) fn text(&self, columns: usize) -> String {
        let mut text = format!(
            "one step on grid {}, as rank {} at {} sees it\n",
            self.grid, self.rank, self.coordinates
        );
        if self.axes.iter().any(|axis| axis.expected_s.is_some()) {
            let (order, by) = (&self.order, &self.expected_by);
            writeln!(text, "order of axes {order}; expected times by {by}").unwrap_or_default();
        }
        writeln!(text, "model: {}", self.model).unwrap_or_default();
        writeln!(text, "bits: {}", self.bits).unwrap_or_default();
        if !self.memory.is_empty() {
            writeln!(text, "memory: {}", self.memory.join("; ")).unwrap_or_default();
        }
        self.warning
            .iter()
            .for_each(|warning| text += &format!("{warning}\n"));
        if self.axes.is_empty() {
            text += "\none rank: no collective runs, and nothing is sent\n";
        }
        self.axes.iter().for_each(|axis| text += &axis.text());
        text += &self.changes_text();
        self.schedule
            .iter()
            .for_each(|timeline| text += &timeline.text(columns));
        text.trim_end().to_owned()
    }

    fn changes_text(&self) -> String {
        if self.layout_changes.is_empty() {
            return "\nlayout changes: none, every layer reads what the one before emits\n".into();
        }
        let mut text = "\nlayout changes that the library inserted\n".to_owned();
        for change in &self.layout_changes {
            let cut =
                |axis: Option<&str>| axis.map_or("whole".into(), |axis| format!("cut by {axis}"));
            let cost = match change.gathered_bytes {
                0 => "a local cut".into(),
                bytes => format!("an all-gather of {}", Bytes(bytes)),
            };
            let (place, from, to) = (&change.place, cut(change.from), cut(change.to));
            let times = if change.times == 1 {
                "once".into()
            } else {
                format!("{} times", change.times)
            };
            writeln!(text, "  {place}: features {from} -> {to}, {cost}, {times}")
                .unwrap_or_default();
        }
        text
    }
}

fn axis_use(
    volumes: &[Volume],
    seen: &Seen,
    axis: Axis,
    expected_s: Option<f64>,
    total_s: f64,
) -> AxisUse {
    let degree = seen.grid.degree(axis);
    let of_axis = seen
        .counters
        .iter()
        .filter(|(counted, ..)| *counted == axis);
    let traffic = of_axis.map(|(_, operation, subject, count)| Traffic {
        operation: operation.name(),
        subject: format!("{subject:?}").to_lowercase(),
        calls: count.calls,
        bytes: count.bytes,
        in_levels: seen.report.in_levels(axis, operation) > 0,
        ring_bytes: operation.ring_bytes(count.bytes, degree) as u64,
    });
    AxisUse {
        axis: axis.name(),
        degree,
        role: axis.role(),
        members: seen.mapping.members(&seen.grid, seen.rank, &[axis]),
        place: AxisSpan::of(seen, axis),
        expected_s,
        share: expected_s.map(|seconds| {
            if total_s > 0.0 {
                seconds / total_s
            } else {
                0.0
            }
        }),
        formulas: formulas(volumes, seen, axis),
        traffic: traffic.collect(),
    }
}

fn formulas(volumes: &[Volume], seen: &Seen, axis: Axis) -> Vec<Formula> {
    let of = |&(_, operation, counted): &(Axis, parallel::Operation, u64)| {
        let alike = volumes.iter().filter(|volume| {
            (volume.axis, volume.operation, volume.subject)
                == (axis, operation, seen::subject(axis))
        });
        Formula {
            operation: operation.name(),
            of: match axis {
                Axis::Context => "attention",
                _ => "linear layers",
            },
            bytes: alike.map(|volume| volume.bytes).sum(),
            counted,
        }
    };
    seen.linear
        .iter()
        .filter(|(counted, ..)| *counted == axis)
        .map(of)
        // Where sums have the bits of every grid, other collectives run.
        .filter(|formula| formula.bytes > 0 || formula.counted > 0)
        .collect()
}

impl AxisUse {
    fn text(&self) -> String {
        let members: Vec<String> = self.members.iter().map(usize::to_string).collect();
        let mut text = format!(
            "\n{}={}: ranks {}, {}\n  {}\n",
            self.axis,
            self.degree,
            members.join(", "),
            self.place.text(),
            self.role
        );
        text += &self.expected_text();
        for line in &self.traffic {
            let (bytes, ring) = (
                Bytes(line.bytes as usize).to_string(),
                Bytes(line.ring_bytes as usize).to_string(),
            );
            let sent = if line.ring_bytes > 0 {
                format!(", a ring sends {ring}")
            } else {
                String::new()
            };
            let (operation, subject) = (line.operation, &line.subject);
            let calls = if line.calls == 1 { "call " } else { "calls" };
            let form = if line.in_levels {
                ", inside nodes and across"
            } else {
                ""
            };
            writeln!(
                text,
                "  {operation:<15}{subject:<11}{:>6} {calls} {bytes:>11}{sent}{form}",
                line.calls
            )
            .unwrap_or_default();
        }
        text
    }

    fn expected_text(&self) -> String {
        let mut text = String::new();
        if let (Some(seconds), Some(share)) = (self.expected_s, self.share) {
            let (ms, percent) = (seconds * 1e3, share * 100.0);
            writeln!(
                text,
                "  expected {ms:.2} ms per step if nothing overlaps, {percent:.0} % of its time"
            )
            .unwrap_or_default();
        }
        for Formula {
            operation,
            of,
            bytes,
            counted,
        } in &self.formulas
        {
            let (bytes, counted) = (Bytes(*bytes as usize), Bytes(*counted as usize));
            writeln!(
                text,
                "  {operation} of {of}, all stages: {bytes} by formula, {counted} counted"
            )
            .unwrap_or_default();
        }
        text
    }
}

fn changes(report: &Report) -> Vec<Change> {
    let change = |(change, times): (&parallel::report::Redistribution, usize)| Change {
        place: change.place.clone(),
        from: change.from.map(Axis::name),
        to: change.to.map(Axis::name),
        gathered_bytes: change.gathered_bytes,
        times,
    };
    report.redistributions().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use grid::Mapping;
    use parallel::{Counters, Operation, counters::Subject, report::Redistribution};

    fn config() -> Config {
        crate::testing::config(256)
    }

    fn seen(config: &Config, nodes: Vec<usize>) -> Seen {
        let (mut counters, mut report) = (Counters::default(), Report::default());
        counters.add(Axis::Z, Operation::AllGather, Subject::Linear, 4 << 20);
        counters.add(Axis::Z, Operation::AllGather, Subject::Linear, 4 << 20);
        let place = "blocks.0.mlp.up".into();
        report.note(Redistribution {
            place,
            from: Some(Axis::X),
            to: None,
            gathered_bytes: 2048,
        });
        let grid = config.grid().unwrap();
        let mapping = Mapping::by_node(&grid, nodes);
        let linear = vec![(Axis::Z, Operation::AllGather, 8 << 20)];
        Seen {
            rank: 0,
            grid,
            mapping,
            counters,
            report,
            linear,
            step_s: 1.0,
            links: Vec::new(),
        }
    }

    fn explained(config: &Config) -> Explanation {
        Explanation::new(config, &seen(config, vec![0; 8]), Default::default()).unwrap()
    }

    #[test]
    fn an_axis_across_nodes_is_told_with_its_time() {
        let mut config = config();
        config.parallel.machine = Some("laptop".into());
        let mut seen = seen(&config, vec![0, 0, 1, 1, 2, 2, 3, 3]);
        seen.report.note_levels(Axis::Z, Operation::AllGather);
        let text = Explanation::new(&config, &seen, Default::default())
            .unwrap()
            .text(80);
        for part in [
            "order of axes x,y,z,context,pipeline,data; expected times by machine laptop\n",
            "\nx=2: ranks 0, 1, inside a node\n",
            "\nz=2: ranks 0, 2, across 2 nodes\n",
            " ms per step if nothing overlaps, ",
            "  all_gather of linear layers, all stages: ",
            " by formula, 8.0 MiB counted\n",
            "a ring sends 4.0 MiB, inside nodes and across\n",
        ] {
            assert!(text.contains(part), "{part:?} not in\n{text}");
        }
    }

    #[test]
    fn each_axis_is_told_with_members_and_traffic() {
        let text = explained(&config()).text(80);
        for part in [
            "one step on grid x=2,y=1,z=2,data=1,pipeline=2, as rank 0 at x=0,y=0,z=0,data=0,pipeline=0 sees it",
            "\nz=2: ranks 0, 2, all on one node\n  cuts the sequences of the batch",
            "  all_gather     linear          2 calls     8.0 MiB, a ring sends 4.0 MiB\n",
            "  blocks.0.mlp.up: features cut by x -> whole, an all-gather of 2.0 KiB, once\n",
            "schedule 1f1b over 2 stages, 2 micro-batches",
            "  stage 0 | F0 F1 .  B0 .  B1",
            "bubble 33 % where a backward takes twice a forward; activations kept at most, by stage: 2, 1",
        ] {
            assert!(text.contains(part), "{part:?} not in\n{text}");
        }
    }

    #[test]
    fn one_rank_has_nothing_to_explain() {
        let mut config = config();
        config.parallel.grid = grid::Degrees::default();
        let grid = config.grid().unwrap();
        let mapping = Mapping::by_rank(vec![0]);
        let (counters, report) = (Counters::default(), Report::default());
        let (linear, links) = (Vec::new(), Vec::new());
        let seen = Seen {
            rank: 0,
            grid,
            mapping,
            counters,
            report,
            linear,
            step_s: 1.0,
            links,
        };
        let alone = Explanation::new(&config, &seen, Default::default())
            .unwrap()
            .text(80);
        assert!(
            alone.contains("no collective runs") && !alone.contains("schedule"),
            "{alone}"
        );
    }
}
