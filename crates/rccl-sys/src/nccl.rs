//! The functions of NCCL and RCCL that the project calls.
//!
//! Source: <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html>,
//! <https://rocm.docs.amd.com/projects/rccl/en/latest/api-reference/library-specification.html>.

use crate::{
    function_table,
    types::{Comm, Config, DataType, Redop, Status, UniqueId},
};
use std::ffi::{c_char, c_int, c_void};

function_table! {
    /// NCCL's or RCCL's functions.
    pub struct Nccl;
    required {
        fn ncclGetVersion(version: *mut c_int) -> Status;
        fn ncclGetUniqueId(id: *mut UniqueId) -> Status;
        fn ncclGetErrorString(status: Status) -> *const c_char;
        fn ncclCommInitRank(comm: *mut Comm, size: c_int, id: UniqueId, rank: c_int) -> Status;
        fn ncclCommDestroy(comm: Comm) -> Status;
        fn ncclCommAbort(comm: Comm) -> Status;
        fn ncclCommGetAsyncError(comm: Comm, status: *mut Status) -> Status;
        fn ncclAllReduce(
            send: *const c_void,
            recv: *mut c_void,
            count: usize,
            data_type: DataType,
            op: Redop,
            comm: Comm,
            stream: *mut c_void,
        ) -> Status;
        fn ncclReduce(
            send: *const c_void,
            recv: *mut c_void,
            count: usize,
            data_type: DataType,
            op: Redop,
            root: c_int,
            comm: Comm,
            stream: *mut c_void,
        ) -> Status;
        fn ncclReduceScatter(
            send: *const c_void,
            recv: *mut c_void,
            recv_count: usize,
            data_type: DataType,
            op: Redop,
            comm: Comm,
            stream: *mut c_void,
        ) -> Status;
        fn ncclAllGather(
            send: *const c_void,
            recv: *mut c_void,
            send_count: usize,
            data_type: DataType,
            comm: Comm,
            stream: *mut c_void,
        ) -> Status;
        fn ncclBroadcast(
            send: *const c_void,
            recv: *mut c_void,
            count: usize,
            data_type: DataType,
            root: c_int,
            comm: Comm,
            stream: *mut c_void,
        ) -> Status;
        fn ncclSend(
            send: *const c_void,
            count: usize,
            data_type: DataType,
            peer: c_int,
            comm: Comm,
            stream: *mut c_void,
        ) -> Status;
        fn ncclRecv(
            recv: *mut c_void,
            count: usize,
            data_type: DataType,
            peer: c_int,
            comm: Comm,
            stream: *mut c_void,
        ) -> Status;
        fn ncclGroupStart() -> Status;
        fn ncclGroupEnd() -> Status;
    }
    optional {
        fn ncclCommInitRankConfig(
            comm: *mut Comm,
            size: c_int,
            id: UniqueId,
            rank: c_int,
            config: *mut Config,
        ) -> Status;
        fn ncclCommFinalize(comm: Comm) -> Status;
        fn ncclCommSplit(comm: Comm, color: c_int, key: c_int, new: *mut Comm, config: *mut Config) -> Status;
        fn ncclGetLastError(comm: Comm) -> *const c_char;
        fn ncclMemAlloc(pointer: *mut *mut c_void, bytes: usize) -> Status;
        fn ncclMemFree(pointer: *mut c_void) -> Status;
        fn ncclCommRegister(
            comm: Comm,
            buffer: *mut c_void,
            bytes: usize,
            handle: *mut *mut c_void,
        ) -> Status;
        fn ncclCommDeregister(comm: Comm, handle: *mut c_void) -> Status;
        fn ncclCommInitRankScalable(
            comm: *mut Comm,
            size: c_int,
            rank: c_int,
            num_ids: c_int,
            ids: *mut UniqueId,
            config: *mut Config,
        ) -> Status;
    }
}

impl Nccl {
    /// The version, as 22304 for 2.23.4; `None` if the call fails.
    pub fn version(&self) -> Option<c_int> {
        let mut version = 0;
        // SAFETY: the pointer is that of a live variable.
        let status = unsafe { (self.ncclGetVersion)(&mut version) };
        (status == crate::types::status::SUCCESS).then_some(version)
    }
}
