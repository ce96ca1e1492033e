//! The points as a table for people.

use crate::point::{Point, Run};
use std::fmt::Write;

/// One line per point, in the order of devices.
pub fn text(points: &[Point]) -> String {
    let mut text = format!(
        "{:>8}  {:<14} {:<10} {:<16} {:>10} {:>11} {:>7} {:>10}  run\n",
        "devices", "model", "", "settings", "s/batch", "Pflop/s", "% peak", "memory"
    );
    for point in points {
        let memory = point
            .memory_gib
            .map_or("-".into(), |gib| format!("{gib:.1} GiB"));
        let _ = writeln!(
            text,
            "{:>8}  {:<14} {:<10} {:<16} {:>10.3} {:>11} {:>7.1} {memory:>10}  {}",
            point.devices,
            point.model,
            format!("{:?}", point.kind).to_lowercase(),
            point.settings,
            point.step_s,
            pflops(point.pflops),
            point.percent_of_peak,
            point
                .run
                .as_ref()
                .map_or_else(|| "not published".into(), how)
        );
    }
    text
}

// Toys reach a billionth of a machine's speed.
fn pflops(pflops: f64) -> String {
    if pflops < 0.1 {
        format!("{pflops:.2e}")
    } else {
        format!("{pflops:.1}")
    }
}

/// A short description of how a point is run.
pub fn how(run: &Run) -> String {
    let mut words = vec![run.grid.clone(), format!("order {}", run.order)];
    words.push(format!("{} micro-batches", run.micro_batches));
    let choices = [
        (run.recompute, "recompute"),
        (run.sharding.shards_state(), "sharded optimiser"),
        (run.sharding.shards_gradients(), "sharded gradients"),
        (run.keep_gathered, "gathered weights kept"),
        (run.sequence_parallel, "sequence parallel"),
    ];
    words.extend(
        choices
            .iter()
            .filter(|(chosen, _)| *chosen)
            .map(|(_, word)| (*word).to_owned()),
    );
    if !run.grid.contains("pipeline=1") {
        words.push(run.schedule.clone());
    }
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{point::PointKind, points::tests::point};

    #[test]
    fn a_row_has_its_numbers() {
        let text = text(&[point(4096, PointKind::Measured, 8.765)]);
        let row = text.lines().nth(1).unwrap();
        for word in [
            "4096",
            "gpt-5b",
            "measured",
            "ours",
            "8.765",
            "70.0",
            "45.0",
            "not published",
        ] {
            assert!(row.contains(word), "{word}: {row}");
        }
        assert_eq!([620.1, 4.2e-5].map(pflops), ["620.1", "4.20e-5"]);
    }
}
