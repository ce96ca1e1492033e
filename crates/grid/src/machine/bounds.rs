//! The bounds of every number in a machine's file, so that no cost computed from them is NaN, infinite or endless.

use super::{file::Machine, gemm::GemmModel, links::Links, quantity::Quantity};
use std::ops::RangeInclusive;

/// Positive numbers in the units of their keys; a product of any four of them is finite.
const NUMBERS: RangeInclusive<f64> = 1e-12..=1e12;
/// Times in microseconds and sizes in bytes, which may be 0.
const POINTS: RangeInclusive<f64> = 0.0..=1e18;
/// Nodes, devices, adapters and ranks.
const COUNTS: RangeInclusive<usize> = 1..=1 << 24;
/// Sides of tiles and matrices.
const SIDES: RangeInclusive<usize> = 1..=1 << 40;

type Checked = Result<(), String>;

/// Checks every number, and names the key of the first one outside its bounds.
pub(super) fn check(machine: &Machine) -> Checked {
    count("nodes", machine.nodes)?;
    count("devices_per_node", machine.devices_per_node)?;
    let device = &machine.device;
    let all = device.quantities().into_iter();
    let all = all.chain(machine.product.quantities());
    for (name, found) in all.chain(machine.links.quantities()) {
        quantity(&name, found, NUMBERS)?;
    }
    quantity("device.reserved_gib", &device.reserved_gib, 0.0..=1e12)?;
    quantity(
        "device.collective_share",
        &device.collective_share,
        0.0..=1.0,
    )?;
    if device.reserved_gib.value >= device.memory_gib.value {
        let (found, needed) = (device.reserved_gib.value, device.memory_gib.value);
        return Err(format!(
            "device.reserved_gib: found {found}, needs less than memory_gib = {needed}"
        ));
    }
    product(&machine.product)?;
    links(&machine.links)
}

fn product(product: &GemmModel) -> Checked {
    if product.tiles.is_empty() && product.points.is_empty() {
        return Err("product: found neither tiles nor points, needs one of them".into());
    }
    for (at, tile) in product.tiles.iter().enumerate() {
        let key = |name| format!("product.tiles[{at}].{name}");
        whole(&key("rows"), tile.rows, SIDES)?;
        whole(&key("columns"), tile.columns, SIDES)?;
        number(&key("speed"), tile.speed, NUMBERS)?;
    }
    for (at, point) in product.points.iter().enumerate() {
        let key = |name| format!("product.points[{at}].{name}");
        for (name, side) in [("m", point.m), ("n", point.n), ("k", point.k)] {
            whole(&key(name), side, SIDES)?;
        }
        number(&key("tflops"), point.tflops, NUMBERS)?;
    }
    Ok(())
}

fn links(links: &Links) -> Checked {
    count("links.nics", links.nics)?;
    count("links.devices_per_nic", links.devices_per_nic)?;
    for (at, row) in links.table.iter().enumerate() {
        for (name, [low, high]) in [("inner", row.inner), ("size", row.size)] {
            if low > high {
                return Err(format!(
                    "links.table[{at}].{name}: found {low} to {high}, needs the smaller number first"
                ));
            }
        }
    }
    for (at, timed) in links.measured.iter().enumerate() {
        let key = |name| format!("links.measured[{at}].{name}");
        count(&key("ranks"), timed.ranks)?;
        count(&key("inner"), timed.inner)?;
        count(&key("size"), timed.size)?;
        points(&key("points"), &timed.points)?;
        if timed.points.last().is_none_or(|[bytes, _]| *bytes <= 0.0) {
            let key = key("points");
            return Err(format!("{key}: found no size above 0, needs at least 1"));
        }
    }
    for (at, late) in links.late.iter().enumerate() {
        let key = |name| format!("links.late[{at}].{name}");
        count(&key("ranks"), late.ranks)?;
        points(&key("points"), &late.points)?;
    }
    let mut ranks = links.late.windows(2).enumerate();
    match ranks.find(|(_, pair)| pair[0].ranks >= pair[1].ranks) {
        None => Ok(()),
        Some((at, pair)) => Err(format!(
            "links.late[{}].ranks: found {}, needs more than {}, that of the entry before",
            at + 1,
            pair[1].ranks,
            pair[0].ranks
        )),
    }
}

// Pairs of numbers, the first of which do not fall.
fn points(key: &str, points: &[[f64; 2]]) -> Checked {
    let mut before = 0.0;
    for (at, [from, us]) in points.iter().enumerate() {
        number(&format!("{key}[{at}][0]"), *from, POINTS)?;
        number(&format!("{key}[{at}][1]"), *us, POINTS)?;
        if *from < before {
            return Err(format!(
                "{key}[{at}][0]: found {from}, needs at least {before}, that of the point before"
            ));
        }
        before = *from;
    }
    Ok(())
}

fn count(key: &str, found: usize) -> Checked {
    whole(key, found, COUNTS)
}

fn whole(key: &str, found: usize, taken: RangeInclusive<usize>) -> Checked {
    match taken.contains(&found) {
        true => Ok(()),
        false => Err(format!(
            "{key}: found {found}, needs {} to {}",
            taken.start(),
            taken.end()
        )),
    }
}

fn quantity(key: &str, found: &Quantity, taken: RangeInclusive<f64>) -> Checked {
    number(key, found.value, taken)?;
    match found.source.trim() {
        "" => Err(format!(
            "{key}: found no source, needs where {} comes from",
            found.value
        )),
        _ => Ok(()),
    }
}

fn number(key: &str, found: f64, taken: RangeInclusive<f64>) -> Checked {
    match taken.contains(&found) {
        true => Ok(()),
        false => Err(format!(
            "{key}: found {found:?}, needs {:?} to {:?}",
            taken.start(),
            taken.end()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Lateness, Operation, links::Timed};

    fn refusal(change: impl FnOnce(&mut Machine)) -> String {
        let mut machine = Machine::find("perlmutter").unwrap();
        change(&mut machine);
        Machine::parse(&machine.to_toml(), "mine.toml")
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn every_kind_of_number_has_bounds() {
        let timed = |points| Timed {
            ranks: 4,
            inner: 1,
            size: 4,
            operation: Operation::AllReduce,
            points,
        };
        let late = |ranks| Lateness {
            ranks,
            points: vec![],
        };
        type Change = Box<dyn FnOnce(&mut Machine)>;
        let changes: [(Change, &str); 12] = [
            (
                Box::new(|m| m.nodes = 0),
                "nodes: found 0, needs 1 to 16777216",
            ),
            (
                Box::new(|m| m.links.devices_per_nic = 0),
                "links.devices_per_nic: found 0",
            ),
            (
                Box::new(|m| m.product.tiles[1].rows = 0),
                "product.tiles[1].rows: found 0",
            ),
            (
                Box::new(|m| m.product.tiles[0].speed = 0.0),
                "product.tiles[0].speed: found 0.0",
            ),
            (
                Box::new(|m| m.device.collective_share.value = -5.0),
                "device.collective_share: found -5.0",
            ),
            (
                Box::new(|m| m.device.launch.host_us.value = 1e308),
                "device.launch.host_us: found 1e308",
            ),
            (
                Box::new(|m| m.links.peer_gbps.value = f64::NAN),
                "links.peer_gbps: found NaN",
            ),
            (
                Box::new(|m| m.links.peer_gbps.value = -1.0),
                "links.peer_gbps: found -1.0, needs 1e-12 to 1000000000000.0",
            ),
            (
                Box::new(|m| m.device.reserved_gib.value = 1e6),
                "device.reserved_gib: found 1000000, needs less than memory_gib",
            ),
            (
                Box::new(move |m| m.links.measured = vec![timed(vec![[8.0, 1.0], [4.0, 2.0]])]),
                "links.measured[0].points[1][0]: found 4, needs at least 8",
            ),
            (
                Box::new(move |m| m.links.measured = vec![timed(vec![])]),
                "links.measured[0].points: found no size above 0",
            ),
            (
                Box::new(move |m| m.links.late = vec![late(4), late(2)]),
                "links.late[1].ranks: found 2, needs more than 4",
            ),
        ];
        for (change, needed) in changes {
            let found = refusal(change);
            assert!(found.starts_with("machine file mine.toml: "), "{found}");
            assert!(found.contains(needed), "{found}, not {needed}");
        }
    }
}
