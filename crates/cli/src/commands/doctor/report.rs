//! The report on a job's nodes, for people.

use super::{
    judge::{Nodes, Quantities},
    measure::{MESSAGE_BYTES, Seen},
};
use crate::numbers::{Spread, counted, figures};
use hal::VendorId;
use std::fmt::Write;
use train::speed::Workload;

impl Nodes {
    /// The report for people.
    pub(super) fn text(&self, vendor: VendorId) -> String {
        let hosts = self.hosts();
        let work = Workload::thorough(vendor);
        let mut text = format!(
            "{} on {}: matmuls of {} in {}, copies of {} MiB, messages of {} MiB both ways\n",
            counted(self.ranks.len(), "rank"),
            counted(hosts.len(), "host"),
            work.size,
            work.dtype.name(),
            work.copy_bytes >> 20,
            MESSAGE_BYTES >> 20
        );
        let width = hosts.values().map(String::len).max().unwrap_or(0).max(8);
        let mut row = |name: &str, cells: [String; 5]| {
            let cells = cells
                .iter()
                .map(|cell| format!("{cell:>20}"))
                .collect::<String>();
            let _ = writeln!(text, "{name:<width$}{cells}");
        };
        row(
            "",
            [
                "ranks",
                "Tflop/s",
                "GB/s of copies",
                "GiB free",
                "GB/s of links",
            ]
            .map(str::to_owned),
        );
        for (node, host) in &hosts {
            let own: Vec<&Seen> = self
                .ranks
                .iter()
                .filter(|seen| seen.node == *node)
                .collect();
            let range = |of: &dyn Fn(&Seen) -> f64| of_range(own.iter().map(|seen| of(seen)));
            let links = self
                .links
                .iter()
                .filter(|link| link.nodes.0 == *node || link.nodes.1 == *node);
            row(
                host,
                [
                    own.len().to_string(),
                    range(&|seen| seen.tflops),
                    range(&|seen| seen.copy_gbps),
                    range(&|seen| seen.free_gib),
                    of_range(links.map(|link| link.gbps)),
                ],
            );
        }
        let mut standard = |name: &str, all: &Quantities| {
            let link = all.link_gbps.map_or_else(|| "-".into(), figures);
            let cells = [
                figures(all.tflops),
                figures(all.copy_gbps),
                figures(all.free_gib),
                link,
            ];
            let [tflops, copy, free, link] = cells;
            row(name, [String::new(), tflops, copy, free, link]);
        };
        standard("median", &self.medians);
        if let Some(expected) = &self.expected {
            standard("machine", expected);
        }
        for slow in &self.slow {
            let _ = writeln!(text, "slow: {slow}");
        }
        text.trim_end().to_owned()
    }
}

fn of_range(numbers: impl Iterator<Item = f64>) -> String {
    let numbers: Vec<f64> = numbers.collect();
    let Spread { min, max, .. } = Spread::of(&numbers);
    match numbers.as_slice() {
        [] => "-".into(),
        [one] => figures(*one),
        _ => format!("{} .. {}", figures(min), figures(max)),
    }
}
