//! The libraries whose caller chooses the algorithm of a GEMM, and that end a GEMM with a bias and GELU.
//!
//! cuBLASLt and hipBLASLt match call for call, except for numbers and the layout of one result, so one table serves
//! both. Objects of the library describe a GEMM. We ask the library once for its algorithms, and pass one of them to each
//! run.

mod functions;

pub use functions::*;

use super::{Named, Opaque, Outcome, Status, Statuses};
use hal::DType;
use std::ffi::c_int;

/// The numbers in which the libraries differ.
#[derive(Clone, Copy, Debug)]
pub struct LtValues {
    /// The factor as stored, and its transpose.
    pub operations: [c_int; 2],
    /// Sums in f32.
    pub compute_f32: c_int,
    /// The statuses of a search that found nothing for a GEMM.
    pub refusals: &'static [Status],
    /// Attributes of a GEMM: whether A and B are transposed.
    pub transposed: [c_int; 2],
    /// Attribute of a GEMM: its epilogue.
    pub epilogue: c_int,
    /// Attribute of a GEMM: the bias's address.
    pub bias: c_int,
    /// Attribute of a GEMM: the bias's element type.
    pub bias_type: c_int,
    /// Attribute of a GEMM: the address to store the input of GELU at.
    pub sum: c_int,
    /// Attribute of a GEMM: the leading dimension of that input.
    pub sum_leading: c_int,
    /// Preferences for the alignments of A, B, C and D in bytes, where the library has them.
    pub alignments: Option<[c_int; 4]>,
    /// The preference for how parts of a sum are added, and its value for "in the type of the sums", where the library has
    /// it. Other ways round parts to C's type, so an algorithm would decide how precise a result is.
    pub reduction: Option<(c_int, u32)>,
    /// Bytes of the result of a search, which begins with an algorithm.
    pub result_bytes: usize,
    /// Offset in bytes of an algorithm's status in the result of a search.
    pub status_offset: usize,
}

/// The preference for the most bytes of workspace, in both libraries.
pub const MAX_WORKSPACE: c_int = 1;
/// The epilogue that does nothing, in both libraries.
pub const EPILOGUE_NONE: u32 = 1;
/// The epilogue that adds a bias, in both libraries.
pub const EPILOGUE_BIAS: u32 = 4;
/// The epilogue that applies GELU and stores its input.
pub const EPILOGUE_GELU: u32 = 160;
/// The epilogue that adds a bias, applies GELU and stores the input of GELU.
pub const EPILOGUE_GELU_BIAS: u32 = 164;

/// One vendor's library.
#[derive(Clone, Debug)]
pub struct Lt {
    /// Name and version, as in `cuBLASLt 13.1.0`; the name alone where only a handle knows the version.
    pub(crate) version: String,
    get_version: Option<Named<GetVersion>>,
    pub(crate) functions: LtFunctions,
    pub(crate) statuses: Statuses,
    pub(crate) values: LtValues,
}

impl Lt {
    /// The library of that name and version. Where its version takes a handle, `version` is the name, and `get_version`
    /// stores major * 100000 + minor * 100 + patch.
    ///
    /// # Safety
    /// The functions are those of the library, and the numbers its own.
    pub unsafe fn new(
        version: String,
        get_version: Option<Named<GetVersion>>,
        functions: LtFunctions,
        statuses: Statuses,
        values: LtValues,
    ) -> Lt {
        Lt {
            version,
            get_version,
            functions,
            statuses,
            values,
        }
    }

    /// Name and version of the library of a handle.
    ///
    /// # Safety
    /// The handle is live.
    pub(crate) unsafe fn version_of(&self, handle: Opaque) -> Outcome<String> {
        let Some(get) = self.get_version else {
            return Ok(self.version.clone());
        };
        let mut number = 0;
        // SAFETY: the caller vouches for the handle; the function writes a live variable.
        let status = unsafe { (get.function)(handle, &mut number) };
        self.check(get.name, status)?;
        let (major, minor, patch) = (number / 100_000, number / 100 % 1000, number % 100);
        Ok(format!("{} {major}.{minor}.{patch}", self.version))
    }

    /// A type's number, which is the same in both libraries. `None` for a type that they do not multiply.
    pub fn data_type(dtype: DType) -> Option<c_int> {
        match dtype {
            DType::F32 => Some(0),
            DType::F16 => Some(2),
            DType::Bf16 => Some(14),
            DType::F64 | DType::I32 | DType::U32 | DType::U8 => None,
        }
    }

    /// A status as an outcome.
    pub(crate) fn check(&self, call: &'static str, status: Status) -> Outcome<()> {
        self.statuses.check(call, status)
    }
}
