//! Which ranks, hosts and links are slower than the others, or than a machine's description says.

use super::measure::Seen;
use crate::numbers::{Spread, counted, figures};
use grid::machine::{GemmShape, Machine, Placement, Route, Variant};
use hal::VendorId;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use train::speed::Workload;

/// What was found of a job's nodes, and what of it is slow.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Nodes {
    /// What each rank found.
    pub(super) ranks: Vec<Seen>,
    /// GB/s each way of each pair of nodes, with all their ranks together.
    pub(super) links: Vec<Link>,
    /// The median of each quantity.
    pub(super) medians: Quantities,
    /// What the machine's description says of each, if one was given.
    pub(super) expected: Option<Quantities>,
    /// The fraction of these below which something is slow.
    pub(super) within: f64,
    /// What is, in words.
    pub(super) slow: Vec<String>,
    /// The numbers of the nodes that are to blame for it.
    pub(super) slow_nodes: BTreeSet<usize>,
}

/// A pair of nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Link {
    /// Numbers of the nodes.
    pub(super) nodes: (usize, usize),
    /// GB/s each way.
    pub(super) gbps: f64,
}

/// A number for each quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Quantities {
    /// Tflop/s of a rank.
    pub(super) tflops: f64,
    /// GB/s of a rank's copy.
    pub(super) copy_gbps: f64,
    /// GiB of a rank.
    pub(super) free_gib: f64,
    /// GB/s of a pair of nodes, if there is one.
    pub(super) link_gbps: Option<f64>,
}

impl Nodes {
    /// Compares each number with the median, and with a machine's.
    pub(super) fn new(
        ranks: Vec<Seen>,
        vendor: VendorId,
        machine: Option<&Machine>,
        within: f64,
    ) -> Nodes {
        let links = pairs(&ranks);
        let median = |of: &dyn Fn(&Seen) -> f64| {
            Spread::of(&ranks.iter().map(of).collect::<Vec<_>>()).median
        };
        let speeds: Vec<f64> = links.iter().map(|link| link.gbps).collect();
        let medians = Quantities {
            tflops: median(&|seen| seen.tflops),
            copy_gbps: median(&|seen| seen.copy_gbps),
            free_gib: median(&|seen| seen.free_gib),
            link_gbps: (!speeds.is_empty()).then(|| Spread::of(&speeds).median),
        };
        let mut nodes = Nodes {
            expected: machine.map(|machine| expected(&ranks, vendor, machine)),
            ranks,
            links,
            medians,
            within,
            slow: Vec::new(),
            slow_nodes: BTreeSet::new(),
        };
        nodes.judge_ranks();
        nodes.judge_links();
        nodes
    }

    // What a number falls short of: the median, or the description.
    fn short(&self, found: f64, of: impl Fn(&Quantities) -> f64) -> Option<String> {
        let standards = [
            ("the median is", Some(&self.medians)),
            ("the machine's is", self.expected.as_ref()),
        ];
        standards.into_iter().find_map(|(name, standard)| {
            let is_short = |standard: &f64| found < self.within * standard;
            let standard = standard.map(&of).filter(is_short)?;
            Some(format!("{name} {}", figures(standard)))
        })
    }

    fn judge_ranks(&mut self) {
        type Quantity = (&'static str, fn(&Seen) -> f64, fn(&Quantities) -> f64);
        let quantities: [Quantity; 3] = [
            ("Tflop/s", |seen| seen.tflops, |all| all.tflops),
            ("GB/s of a copy", |seen| seen.copy_gbps, |all| all.copy_gbps),
            ("GiB free", |seen| seen.free_gib, |all| all.free_gib),
        ];
        for seen in &self.ranks {
            for (unit, of, standard) in quantities {
                if let Some(short) = self.short(of(seen), standard) {
                    let (rank, host, found) = (seen.rank, &seen.host, figures(of(seen)));
                    let text = format!("rank {rank} on {host}: {found} {unit}, {short}");
                    self.slow.push(text);
                    self.slow_nodes.insert(seen.node);
                }
            }
        }
    }

    // If all links of a host are slow, the host is at fault. Other slow links are reported one by one, and neither end is blamed.
    fn judge_links(&mut self) {
        let hosts = self.hosts();
        // Of each node the number of its links, and the slow ones.
        let mut of_node: BTreeMap<usize, (usize, Vec<f64>)> = BTreeMap::new();
        let mut slow = Vec::new();
        for Link { nodes, gbps } in &self.links {
            let short = self.short(*gbps, |all| all.link_gbps.unwrap_or(0.0));
            for node in [nodes.0, nodes.1] {
                let (links, slow) = of_node.entry(node).or_default();
                *links += 1;
                slow.extend(short.as_ref().map(|_| *gbps));
            }
            slow.extend(short.map(|short| (*nodes, *gbps, short)));
        }
        of_node.retain(|_, (links, slow)| *links > 1 && slow.len() == *links);
        for (node, (links, speeds)) in &of_node {
            let is_its =
                |(nodes, ..): &&((usize, usize), f64, String)| nodes.0 == *node || nodes.1 == *node;
            let short = slow.iter().find(is_its).map_or("", |(.., short)| short);
            self.slow.push(format!(
                "{}: all {}, {} GB/s and less, {short}",
                hosts[node],
                counted(*links, "link"),
                figures(Spread::of(speeds).max)
            ));
            self.slow_nodes.insert(*node);
        }
        for ((a, b), gbps, short) in slow {
            if !of_node.contains_key(&a) && !of_node.contains_key(&b) {
                let (a, b, gbps) = (&hosts[&a], &hosts[&b], figures(gbps));
                self.slow
                    .push(format!("{a} and {b}: {gbps} GB/s each way, {short}"));
            }
        }
    }

    /// The hosts by their numbers.
    pub(super) fn hosts(&self) -> BTreeMap<usize, String> {
        self.ranks
            .iter()
            .map(|seen| (seen.node, seen.host.clone()))
            .collect()
    }
}

// The speed of each pair of nodes: what their ranks exchanged at the same time. Both ends of a message have timed it; the
// slower counts.
fn pairs(ranks: &[Seen]) -> Vec<Link> {
    let mut sums: BTreeMap<(usize, usize), [f64; 2]> = BTreeMap::new();
    for seen in ranks {
        for (other, gbps) in &seen.links {
            // The list has every rank, in their order.
            let Some(other) = ranks.get(*other) else {
                continue;
            };
            let (nodes, end) = match seen.node < other.node {
                true => ((seen.node, other.node), 0),
                false => ((other.node, seen.node), 1),
            };
            sums.entry(nodes).or_default()[end] += gbps;
        }
    }
    let link = |(nodes, ends): (_, [f64; 2])| Link {
        nodes,
        gbps: ends[0].min(ends[1]),
    };
    sums.into_iter().map(link).collect()
}

fn expected(ranks: &[Seen], vendor: VendorId, machine: &Machine) -> Quantities {
    let Workload { size, dtype, .. } = Workload::thorough(vendor);
    let shape = GemmShape {
        m: size,
        n: size,
        k: size,
        dtype: dtype.name(),
        variant: Variant::Nn,
        bytes: 3 * size * size * dtype.bytes(),
    };
    let mut per_node: BTreeMap<usize, usize> = BTreeMap::new();
    ranks
        .iter()
        .for_each(|seen| *per_node.entry(seen.node).or_default() += 1);
    let most = per_node.values().copied().max().unwrap_or(1);
    let placement = Placement::new(ranks.len(), most);
    let route = Route::strided(most, 2, placement);
    let link = most as f64 * machine.message_bandwidth(route) / 1e9;
    Quantities {
        tflops: shape.flop() / machine.product.seconds(&shape, &machine.device, true) / 1e12,
        copy_gbps: machine.device.kernel_bandwidth("copy", "layout") / 1e9,
        free_gib: machine.device.memory_bytes() as f64 / f64::from(1 << 30),
        link_gbps: (per_node.len() > 1).then_some(link),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Three nodes of two ranks.
    fn ranks(change: impl Fn(&mut Seen)) -> Vec<Seen> {
        let one = |rank: usize| {
            let node = rank / 2;
            let others = (0..3).filter(|other| *other != node);
            let mut seen = Seen {
                rank,
                host: ["a", "b", "c"][node].into(),
                node,
                tflops: 10.0,
                copy_gbps: 100.0,
                free_gib: 32.0,
                links: others.map(|other| (2 * other + rank % 2, 5.0)).collect(),
            };
            change(&mut seen);
            seen
        };
        (0..6).map(one).collect()
    }

    fn slow(change: impl Fn(&mut Seen)) -> (Vec<String>, Vec<usize>) {
        let nodes = Nodes::new(ranks(change), VendorId::CPU, None, 0.8);
        (nodes.slow, nodes.slow_nodes.into_iter().collect())
    }

    #[test]
    fn equal_nodes_have_no_fault() {
        assert_eq!(slow(|_| ()), (vec![], vec![]));
        // Within the tolerance.
        assert_eq!(
            slow(|seen| seen.tflops += seen.rank as f64 * 0.1),
            (vec![], vec![])
        );
        let nodes = Nodes::new(ranks(|_| ()), VendorId::CPU, None, 0.8);
        let pairs: Vec<_> = nodes
            .links
            .iter()
            .map(|link| (link.nodes, link.gbps))
            .collect();
        assert_eq!(pairs, [((0, 1), 10.0), ((0, 2), 10.0), ((1, 2), 10.0)]);
    }

    #[test]
    fn a_slow_rank_is_named_with_its_host_and_numbers() {
        let (found, nodes) = slow(|seen| {
            if seen.rank == 3 {
                (seen.tflops, seen.free_gib) = (4.0, 20.0);
            }
        });
        assert_eq!(
            found,
            [
                "rank 3 on b: 4 Tflop/s, the median is 10",
                "rank 3 on b: 20 GiB free, the median is 32"
            ]
        );
        assert_eq!(nodes, [1]);
    }

    #[test]
    fn a_host_with_slow_links_is_told_from_a_slow_link() {
        let slower = |node: usize, with: Option<usize>| {
            slow(move |seen| {
                let own = seen.node;
                for (other, gbps) in &mut seen.links {
                    let ends = [own, *other / 2];
                    if ends.contains(&node) && with.is_none_or(|with| ends.contains(&with)) {
                        *gbps = 1.0;
                    }
                }
            })
        };
        // Of three links of three nodes two are slow, and the median with them: the description of a machine would tell.
        let (found, nodes) = slower(2, Some(0));
        assert_eq!(found, ["a and c: 2 GB/s each way, the median is 10"]);
        assert!(nodes.is_empty());
        let mut machine = Machine::find("laptop").unwrap();
        (machine.links.nics, machine.links.devices_per_nic) = (1, 1);
        machine.links.injection_gbps.value = 5.0;
        machine.product.efficiency.clear();
        let seen = ranks(|seen| {
            let own = seen.node;
            for (other, gbps) in &mut seen.links {
                if own == 2 || *other / 2 == 2 {
                    *gbps = 1.0;
                }
            }
        });
        let judged = Nodes::new(seen, VendorId::CPU, Some(&machine), 0.8);
        let links: Vec<_> = judged
            .slow
            .iter()
            .filter(|text| text.contains("link"))
            .collect();
        assert_eq!(
            links,
            ["c: all 2 links, 2 GB/s and less, the machine's is 10"]
        );
        assert!(judged.text(VendorId::CPU).contains("slow: c: all 2 links"));
    }
}
