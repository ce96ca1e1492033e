//! The libraries that end a product with a bias and GELU.
//!
//! cuBLASLt and hipBLASLt match call for call, but for numbers and for the layout of one result, so one table serves
//! both. A product is described by objects of the library; the library is asked once for an algorithm, and each run
//! names that.

mod functions;

pub use functions::*;

use super::Fault;
use hal::DType;
use std::ffi::{CStr, c_int, c_void};

/// `cublasStatus_t` and `hipblasStatus_t`.
pub type Status = c_int;

/// A handle, a description of a product, of a matrix, or of what is wanted from an algorithm.
pub type Opaque = *mut c_void;

/// The numbers in which the libraries differ.
#[derive(Clone, Copy, Debug)]
pub struct LtValues {
    /// A factor as it is stored, and its transpose.
    pub operations: [c_int; 2],
    /// Sums in f32.
    pub compute_f32: c_int,
    /// The status of too little memory.
    pub alloc_failed: Status,
    /// The statuses by which a search says that the library has nothing for a product.
    pub refusals: &'static [Status],
    /// Attributes of a product: transposition of A and of B, epilogue, address and type of the bias, address and leading
    /// dimension of what goes into GELU.
    pub transposed: [c_int; 2],
    #[allow(missing_docs, reason = "above")]
    pub epilogue: c_int,
    #[allow(missing_docs, reason = "above")]
    pub bias: c_int,
    #[allow(missing_docs, reason = "above")]
    pub bias_type: c_int,
    #[allow(missing_docs, reason = "above")]
    pub sum: c_int,
    #[allow(missing_docs, reason = "above")]
    pub sum_leading: c_int,
    /// The wish for alignments of A, B, C and D in bytes, where it can be told.
    pub alignments: Option<[c_int; 4]>,
    /// The wish for how parts of a sum are added up, and the value for: in the type of the sums.
    pub reduction: Option<(c_int, u32)>,
    /// Byte of an algorithm's status in the result of a search.
    pub status_offset: usize,
}

/// The wish for the most bytes of workspace, in both libraries.
pub const MAX_WORKSPACE: c_int = 1;
/// The epilogue that adds a bias, in both libraries.
pub const EPILOGUE_BIAS: u32 = 4;
/// GELU, with what goes into it stored.
pub const EPILOGUE_GELU: u32 = 160;
/// A bias and GELU, with what goes into it stored.
pub const EPILOGUE_GELU_BIAS: u32 = 164;

/// One vendor's library.
#[derive(Clone, Debug)]
pub struct Lt {
    /// Name and version, as in `cuBLASLt 13.1`.
    pub version: String,
    /// Its functions.
    pub functions: LtFunctions,
    /// Its numbers.
    pub values: LtValues,
}

impl Lt {
    /// A type's number; both libraries have the vendors' common ones. `None` for a type without epilogues.
    pub fn data_type(dtype: DType) -> Option<c_int> {
        match dtype {
            DType::F32 => Some(0),
            DType::F16 => Some(2),
            DType::Bf16 => Some(14),
            DType::F64 | DType::I32 | DType::U32 => None,
        }
    }

    /// A status as an outcome.
    ///
    /// # Errors
    /// Unless it is that of success.
    pub fn check(&self, call: &'static str, status: Status) -> Result<(), Fault> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the function gives a constant text for any status.
        let text = self
            .functions
            .reason
            .map(|reason| unsafe { reason(status) });
        let reason = match text {
            Some(text) if !text.is_null() => {
                // SAFETY: as above; it ends with a zero.
                unsafe { CStr::from_ptr(text) }.to_string_lossy().into()
            }
            _ => "unknown".to_string(),
        };
        let out_of_memory = status == self.values.alloc_failed;
        Err(Fault {
            call,
            code: status.into(),
            reason,
            out_of_memory,
        })
    }
}
