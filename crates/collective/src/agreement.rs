//! Whether all ranks have pushed the same gradients in the same order: the complete step, compared on the host.

use crate::{AxisGroup, Reduced};
use tensor::{Error, Result};

/// Compares the gradients of a step over the ranks of a group. Collective.
///
/// # Cost
/// An exchange of 8 bytes between the hosts; of all names only where ranks differ.
/// # Errors
/// [`Error::Invalid`] on every rank with the first difference; those of the exchange.
pub(crate) fn compare(group: &AxisGroup, gradients: &[Reduced]) -> Result<()> {
    let text = describe(gradients);
    let exchange = group.exchange("order of gradients")?;
    let hashes = exchange.all_gather(&hash(&text).to_le_bytes())?;
    if hashes.iter().all(|other| *other == hashes[0]) {
        return Ok(());
    }
    let all = exchange.all_gather(text.as_bytes())?;
    let texts: Vec<_> = all
        .iter()
        .map(|text| String::from_utf8_lossy(text))
        .collect();
    let own = group.rank();
    let Some(rank) = (0..texts.len()).find(|&rank| texts[rank] != texts[own]) else {
        let found = "hashes that differ though the names do not";
        return Err(Error::invalid("gradients", found, "one order on all ranks"));
    };
    let (ours, theirs) = (lines(&texts[own]), lines(&texts[rank]));
    let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
    let at = |lines: &[&str]| lines.get(same).copied().unwrap_or(END).to_owned();
    Err(Error::invalid(
        format!("gradient {} of a step", same + 1),
        format!(
            "{} on rank {own} and {} on rank {rank} of the group",
            at(&ours),
            at(&theirs)
        ),
        "the same on every rank: all push the same gradients in the same order",
    ))
}

const END: &str = "the end of the step";

fn describe(gradients: &[Reduced]) -> String {
    let line = |gradient: &Reduced| {
        let (name, length) = (gradient.name(), gradient.num_elements());
        format!("{name} ({length} of {})\n", gradient.dtype())
    };
    gradients.iter().map(line).collect()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

// FNV-1a, 64 bits (Fowler, Noll and Vo): mistakes are to be found, not attacks.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
