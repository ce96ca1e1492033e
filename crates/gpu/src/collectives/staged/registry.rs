//! How the ranks of this process find their group.

use super::group::Group;
use hal::sync::{LazyLock, Mutex};
use hal::{Error, Join, Result, lock};
use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

/// An id that no other group of this process has.
pub(crate) fn create_id() -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    [
        number.to_le_bytes(),
        u64::from(std::process::id()).to_le_bytes(),
    ]
    .concat()
}

// Groups that have members. A group ends when its last member leaves.
static GROUPS: LazyLock<Mutex<Vec<Entry>>> = LazyLock::new(Mutex::default);

// The id of a group, and the group.
type Entry = (Vec<u8>, Weak<Group>);

/// The group with that id; the first rank to join creates it.
///
/// # Errors
/// [`Error::Invalid`] for a group of another process.
pub(super) fn group(id: &[u8], join: &Join) -> Result<Arc<Group>> {
    let mut groups = lock(&GROUPS);
    groups.retain(|(_, group)| group.strong_count() > 0);
    if let Some(group) = groups
        .iter()
        .find(|(name, _)| name == id)
        .and_then(|(_, group)| group.upgrade())
    {
        return Ok(group);
    }
    let here = u64::from(std::process::id()).to_le_bytes();
    if !id.ends_with(&here) {
        let needed = "one of this process: staged collectives do not leave it";
        return Err(Error::invalid(
            format!("join {}", join.label),
            "a group of another process",
            needed,
        ));
    }
    let group = Arc::new(Group::new(join));
    groups.push((id.to_vec(), Arc::downgrade(&group)));
    Ok(group)
}
