//! How the members of a group find it: a process-wide table from ids to groups with members.

use super::communicator::HostCommunicator;
use super::group::{Counters, Group, Key, Ticket};
use super::member::{Member, Run};
use hal::sync::{LazyLock, Mutex};
use hal::{Collective, Communicator, Error, GroupId, Join, Result, lock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static GROUPS: LazyLock<Mutex<BTreeMap<Vec<u8>, Arc<Group>>>> = LazyLock::new(Mutex::default);

/// An id that no other group of this process has.
pub(crate) fn create_group() -> GroupId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    GroupId([mark(std::process::id()), number.to_le_bytes().into()].concat())
}

// The prefix of a process's ids.
fn mark(process: u32) -> Vec<u8> {
    [b"cpu".as_slice(), &process.to_le_bytes()].concat()
}

/// Joins a group; returns once all its ranks have.
///
/// # Errors
/// [`Error::Invalid`] for an id of another process, or a rank that joins twice; [`Error::Mismatch`] if ranks
/// name different members; [`Error::Timeout`] and [`Error::Aborted`].
pub(crate) fn join(join: Join) -> Result<Box<dyn Communicator>> {
    check(&join)?;
    let group = admit(&join)?;
    let size = group.size();
    let member = Member {
        group,
        rank: join.rank,
        timeout: join.timeout,
        abort: join.abort,
    };
    let communicator = HostCommunicator::new(member, Counters::new(size));
    let ticket = Ticket {
        key: Key::Join,
        place: join.rank,
        call: Collective::Barrier,
    };
    // SAFETY: a barrier has no buffers.
    unsafe { Run::new(communicator.member(), vec![ticket]).execute() }?;
    Ok(Box::new(communicator))
}

fn check(join: &Join) -> Result<()> {
    let (rank, size) = (join.rank, join.members.len());
    if rank >= size {
        return Err(Error::invalid(
            "join",
            format!("rank {rank} of {} with {size} ranks", join.label),
            "a rank of the group",
        ));
    }
    if join.id.0.starts_with(b"cpu") && !join.id.0.starts_with(&mark(std::process::id())) {
        let found = format!("an id of {} that another process made", join.label);
        return Err(Error::invalid(
            "join",
            found,
            "one of this process: ranks of the cpu vendor are its threads",
        ));
    }
    Ok(())
}

// The group with that id; the first member to arrive creates it.
fn admit(join: &Join) -> Result<Arc<Group>> {
    let mut groups = lock(&GROUPS);
    let new = || Arc::new(Group::new(join.label.clone(), join.members.clone()));
    let group = groups.get(&join.id.0).cloned().unwrap_or_else(new);
    if group.members != join.members {
        let error = different_members(&group, join);
        group.fail(error.clone());
        return Err(error);
    }
    if !group.admit(join.rank) {
        let found = format!("rank {} of {} a second time", join.rank, join.label);
        return Err(Error::invalid("join", found, "each rank once"));
    }
    groups.insert(join.id.0.clone(), group.clone());
    Ok(group)
}

fn different_members(group: &Group, join: &Join) -> Error {
    let call = |members: &[usize]| format!("join with members {members:?}");
    let one = (group.members[0], call(&group.members));
    let other = (join.members[join.rank], call(&join.members));
    Error::Mismatch {
        group: group.label.clone(),
        sequence: 0,
        one,
        other,
    }
}

/// A member leaves for good; the last one removes the group from the table.
pub(super) fn leave(member: &Member, counters: Counters) {
    let mut groups = lock(&GROUPS);
    if member.group.leave(member.rank, counters) {
        groups.retain(|_, group| !Arc::ptr_eq(group, &member.group));
    }
}
