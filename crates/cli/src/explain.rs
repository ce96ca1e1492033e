//! What a step does on each axis, for `train --explain`.

use crate::{failure::Outcome, timeline::Timeline};
use grid::{Axis, Grid};
use hal::error::Bytes;
use parallel::{Counters, report::Report};
use serde::Serialize;
use std::fmt::Write;
use train::Config;

/// One step, explained, as seen by one rank.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Explanation {
    grid: String,
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
    traffic: Vec<Traffic>,
}

#[derive(Clone, Debug, Serialize)]
struct Traffic {
    operation: &'static str,
    subject: String,
    calls: u64,
    /// Bytes of the whole buffers.
    bytes: u64,
    /// Bytes that a ring would have this rank send.
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
    /// From what `rank` counted and noted in one step.
    pub(crate) fn new(
        config: &Config,
        rank: usize,
        counters: &Counters,
        report: &Report,
    ) -> Outcome<Explanation> {
        let grid = config.grid()?;
        let used = Axis::ALL.into_iter().filter(|&axis| grid.degree(axis) > 1);
        Ok(Explanation {
            grid: grid.degrees().to_string(),
            rank,
            coordinates: grid.coordinates(rank).to_string(),
            axes: used.map(|axis| axis_use(&grid, axis, rank, counters)).collect(),
            layout_changes: changes(report),
            schedule: Timeline::new(config)?,
        })
    }

    /// For people.
    pub(crate) fn text(&self, columns: usize) -> String {
        let mut text = format!(
            "one step on grid {}, as rank {} at {} sees it\n",
            self.grid, self.rank, self.coordinates
        );
        if self.axes.is_empty() {
            text += "\none rank: no collective runs, and nothing is sent\n";
        }
        self.axes.iter().for_each(|axis| text += &axis.text());
        text += &self.changes_text();
        self.schedule.iter().for_each(|timeline| text += &timeline.text(columns));
        text.trim_end().to_owned()
    }

    fn changes_text(&self) -> String {
        if self.layout_changes.is_empty() {
            return "\nlayout changes: none, every layer reads what the one before emits\n".into();
        }
        let mut text = "\nlayout changes that the library inserted\n".to_owned();
        for change in &self.layout_changes {
            let cut = |axis: Option<&str>| axis.map_or("whole".into(), |axis| format!("cut by {axis}"));
            let cost = match change.gathered_bytes {
                0 => "a local cut".into(),
                bytes => format!("an all-gather of {}", Bytes(bytes)),
            };
            let (place, from, to) = (&change.place, cut(change.from), cut(change.to));
            let times = if change.times == 1 { "once".into() } else { format!("{} times", change.times) };
            writeln!(text, "  {place}: features {from} -> {to}, {cost}, {times}").unwrap_or_default();
        }
        text
    }
}

fn axis_use(grid: &Grid, axis: Axis, rank: usize, counters: &Counters) -> AxisUse {
    let degree = grid.degree(axis);
    let of_axis = counters.iter().filter(|(counted, ..)| *counted == axis);
    let traffic = of_axis.map(|(_, operation, subject, count)| Traffic {
        operation: operation.name(),
        subject: format!("{subject:?}").to_lowercase(),
        calls: count.calls,
        bytes: count.bytes,
        ring_bytes: operation.ring_bytes(count.bytes, degree) as u64,
    });
    AxisUse {
        axis: axis.name(),
        degree,
        role: axis.role(),
        members: grid.group(rank, axis),
        traffic: traffic.collect(),
    }
}

impl AxisUse {
    fn text(&self) -> String {
        let members: Vec<String> = self.members.iter().map(usize::to_string).collect();
        let mut text =
            format!("\n{}={}: ranks {}\n  {}\n", self.axis, self.degree, members.join(", "), self.role);
        for line in &self.traffic {
            let (bytes, ring) =
                (Bytes(line.bytes as usize).to_string(), Bytes(line.ring_bytes as usize).to_string());
            let sent = if line.ring_bytes > 0 { format!(", a ring sends {ring}") } else { String::new() };
            let (operation, subject) = (line.operation, &line.subject);
            let calls = if line.calls == 1 { "call " } else { "calls" };
            writeln!(text, "  {operation:<15}{subject:<11}{:>6} {calls} {bytes:>11}{sent}", line.calls)
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
    use parallel::{Operation, counters::Subject, report::Redistribution};

    fn config() -> Config {
        let mut config = Config::default();
        config.model.vocabulary = 256;
        config
    }

    fn explained(config: &Config) -> Explanation {
        let (mut counters, mut report) = (Counters::default(), Report::default());
        counters.add(Axis::Z, Operation::AllGather, Subject::Linear, 4 << 20);
        counters.add(Axis::Z, Operation::AllGather, Subject::Linear, 4 << 20);
        let place = "blocks.0.mlp.up".into();
        report.note(Redistribution { place, from: Some(Axis::X), to: None, gathered_bytes: 2048 });
        Explanation::new(config, 0, &counters, &report).unwrap()
    }

    #[test]
    fn each_axis_is_told_with_members_and_traffic() {
        let text = explained(&config()).text(80);
        for part in [
            "one step on grid x=2,y=1,z=2,data=1,pipeline=2, as rank 0 at x=0,y=0,z=0,data=0,pipeline=0 sees it",
            "\nz=2: ranks 0, 2\n  cuts the sequences of the batch",
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
        let alone = Explanation::new(&config, 0, &Counters::default(), &Report::default()).unwrap().text(80);
        assert!(alone.contains("no collective runs") && !alone.contains("schedule"), "{alone}");
    }
}
