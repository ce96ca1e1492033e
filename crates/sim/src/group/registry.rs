//! Finds the hub of a group: a process-wide table from ids to groups with members.

use super::{communicator::SimCommunicator, hub::Hub, meeting::Patience};
use crate::state::Shared;
use hal::{Communicator, Error, GroupId, Join, Result, lock};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

fn hubs() -> &'static Mutex<HashMap<Vec<u8>, Arc<Hub>>> {
    static HUBS: OnceLock<Mutex<HashMap<Vec<u8>, Arc<Hub>>>> = OnceLock::new();
    HUBS.get_or_init(Mutex::default)
}

/// An id that no other group of this process has.
pub(crate) fn create() -> GroupId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    GroupId(format!("sim {}", NEXT.fetch_add(1, Ordering::Relaxed)).into_bytes())
}

/// Joins a group. Joining waits for nobody: work waits for a late member where it needs that member's time.
///
/// # Errors
/// [`Error::Invalid`] for a rank outside the group, a rank that joins twice, or a group of several live ranks
/// without an id; [`Error::Mismatch`] if ranks name different members.
pub(crate) fn join(shared: &Arc<Shared>, join: Join) -> Result<Box<dyn Communicator>> {
    let size = join.members.len();
    if join.rank >= size {
        let found = format!("rank {} of {} with {size} ranks", join.rank, join.label);
        return Err(Error::invalid("join", found, "a rank of the group"));
    }
    let live = live_members(shared, &join.members);
    let shape = shared.costs.group(&join.members);
    let patience = Patience {
        timeout: join.timeout,
        abort: join.abort.clone(),
    };
    let hub = if live.len() > 1 {
        Some(admit(shared, &join, live)?)
    } else {
        None
    };
    Ok(Box::new(SimCommunicator::new(
        shared.clone(),
        &join,
        shape,
        hub,
        patience,
    )))
}

// Indices of the members that are threads.
fn live_members(shared: &Shared, members: &[usize]) -> Vec<usize> {
    let is_live = |rank: &usize| {
        shared
            .live
            .as_ref()
            .is_none_or(|live| live.binary_search(rank).is_ok())
    };
    (0..members.len())
        .filter(|index| is_live(&members[*index]))
        .collect()
}

// The hub with that id; the first member to join creates it.
fn admit(shared: &Shared, join: &Join, live: Vec<usize>) -> Result<Arc<Hub>> {
    let found = |what: &str| format!("rank {} of {} {what}", join.rank, join.label);
    if join.id.0.is_empty() {
        let needed = format!(
            "an id that its {} live ranks share: its first rank must be live",
            live.len()
        );
        return Err(Error::invalid("join", found("without an id"), needed));
    }
    let mut hubs = lock(hubs());
    let new = || Arc::new(Hub::new(join.label.clone(), join.members.clone(), live));
    let hub = hubs.entry(join.id.0.clone()).or_insert_with(new).clone();
    if hub.members != join.members {
        let call = |members: &[usize]| format!("join with members {members:?}");
        let first = (hub.live[0], call(&hub.members));
        return Err(hub.mismatch(
            0,
            first,
            (join.rank.min(hub.members.len() - 1), call(&join.members)),
        ));
    }
    match hub.admit(join.rank, shared.host.clone()) {
        true => Ok(hub),
        false => Err(Error::invalid(
            "join",
            found("a second time"),
            "each rank once",
        )),
    }
}

/// A member has left; the last one removes the group.
pub(super) fn leave(id: &GroupId, hub: &Hub) {
    if hub.leave() {
        lock(hubs()).remove(&id.0);
    }
}
