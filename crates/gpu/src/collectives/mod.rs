//! Collectives: by NCCL or RCCL ([`library`]), or by copies and kernels between ranks of this process ([`staged`]).

mod library;
mod staged;

use crate::{context::Context, driver::library_version, kernels::Module, table::Tables};
use hal::{CollectiveBackend, Communicator, Error, GroupId, Join, Result};
use std::sync::Arc;

/// The backend that runs the collectives, for the start-up report.
pub(crate) fn description(tables: &Tables, collectives: CollectiveBackend) -> String {
    match (collectives, &tables.collectives) {
        (CollectiveBackend::Staged, _) => "staged copies within this process".into(),
        (CollectiveBackend::Library, Ok((name, table))) => {
            format!("{name} {}", library_version(table))
        }
        (CollectiveBackend::Library, Err(missing)) => {
            format!("no library ({} not found)", missing.library)
        }
    }
}

/// Makes the id of a group. Its first byte names the backend that runs the collectives.
///
/// # Errors
/// [`Error::Invalid`] without the library; [`Error::Vendor`].
pub(crate) fn create_group(context: &Context, collectives: CollectiveBackend) -> Result<GroupId> {
    let (tag, id) = match collectives {
        CollectiveBackend::Library => (LIBRARY, library::create_id(context)?),
        CollectiveBackend::Staged => (STAGED, staged::create_id()),
    };
    Ok(GroupId([vec![tag], id].concat()))
}

const LIBRARY: u8 = b'L';
const STAGED: u8 = b'S';

/// Joins a group that the library serves.
///
/// # Errors
/// As [`hal::Device::join`].
pub(crate) fn join_library(context: &Arc<Context>, join: Join) -> Result<Box<dyn Communicator>> {
    let id = id(&join, LIBRARY)?.to_vec();
    library::join(context, &id, join)
}

/// Joins a group of ranks of this process.
///
/// # Errors
/// As [`hal::Device::join`].
pub(crate) fn join_staged(
    context: &Arc<Context>,
    module: &Arc<Module>,
    join: Join,
) -> Result<Box<dyn Communicator>> {
    let id = id(&join, STAGED)?.to_vec();
    staged::join(context, module, &id, join)
}

fn id(join: &Join, tag: u8) -> Result<&[u8]> {
    match join.id.0.split_first() {
        Some((first, id)) if *first == tag => Ok(id),
        _ => Err(Error::invalid(
            format!("join {} (rank {})", join.label, join.members[join.rank]),
            "an id that was made for other collectives",
            "the same `device.collectives` on all ranks",
        )),
    }
}
