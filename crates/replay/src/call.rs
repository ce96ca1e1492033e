//! The names of channels, and a call of a group as a frame: what it was, the hash of what the rank sent, and what it received.

use hal::{Collective, Join, Operand};
use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The channel of a group.
pub(crate) fn group_name(join: &Join) -> String {
    format!("group {} of {:?}", join.label, join.members)
}

/// The channel of an exchange.
pub(crate) fn exchange_name(label: &str, members: &[usize]) -> String {
    format!("exchange {label} of {members:?}")
}

/// What a call was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Name and operands of each operation; an operand is its number of elements and its type.
    pub(crate) operations: Vec<(String, Vec<(usize, String)>)>,
    /// The hash of what the rank sent.
    pub(crate) sent: u64,
}

impl Call {
    pub(crate) fn of(collectives: &[Collective], sent: u64) -> Call {
        let operation = |collective: &Collective| {
            let mut operands = Vec::new();
            collective.operands(&mut |operand| {
                operands.push((operand.slice.len, operand.slice.dtype.name().to_owned()));
            });
            (collective.name().to_owned(), operands)
        };
        Call {
            operations: collectives.iter().map(operation).collect(),
            sent,
        }
    }
}

/// All operands of a call that have elements.
pub(crate) fn operands(collectives: &[Collective]) -> Vec<Operand> {
    let mut all = Vec::new();
    for collective in collectives {
        collective.operands(&mut |operand| all.push(operand));
    }
    all.retain(|operand| operand.slice.len > 0);
    all
}

/// The hash of what several operands hold.
pub(crate) fn hash<'a>(parts: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.for_each(|part| part.hash(&mut hasher));
    hasher.finish()
}

/// Byte strings as the bytes of a frame: their lengths, then their bytes.
pub(crate) fn packed(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = (parts.len() as u64).to_le_bytes().to_vec();
    for part in parts {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    }
    bytes
}

/// The byte strings of a frame; `None` if it holds none.
pub(crate) fn unpacked(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let number = |at: &mut usize| {
        let found = bytes.get(*at..*at + 8)?;
        *at += 8;
        usize::try_from(u64::from_le_bytes(found.try_into().ok()?)).ok()
    };
    let mut at = 0;
    let count = number(&mut at)?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let len = number(&mut at)?;
        parts.push(bytes.get(at..at.checked_add(len)?)?.to_vec());
        at += len;
    }
    Some(parts)
}
