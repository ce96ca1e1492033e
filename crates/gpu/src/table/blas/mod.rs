//! GEMMs, in the column-major terms of the vendors' libraries.

mod functions;

pub use functions::*;

use super::{
    Address, Fault, Handle, Named, Opaque, Outcome, Status, Statuses, functions::call, opaque,
    pointer,
};
use hal::DType;
use std::ffi::{c_int, c_void};

/// C = alpha * op(A) op(B) + beta * C, all column-major.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnMajor {
    /// Whether A and B are transposed.
    pub transposed: [bool; 2],
    /// Rows of C.
    pub m: i32,
    /// Columns of C.
    pub n: i32,
    /// The contracted size.
    pub k: i32,
    /// Addresses of A, B and C.
    pub addresses: [Address; 3],
    /// Elements from one stored column to the next, of A, B and C.
    pub leading: [i32; 3],
    /// Number of matrices in the batch.
    pub batch: i32,
    /// Elements from one A, B and C of the batch to the next.
    pub strides: [i64; 3],
    /// Element type of A and B.
    pub input: DType,
    /// Element type of C: that of the inputs, or their accumulator.
    pub output: DType,
    /// Scale of op(A) op(B).
    pub alpha: f64,
    /// Scale of the old C.
    pub beta: f64,
}

/// The numbers in which the libraries differ.
#[derive(Clone, Copy, Debug)]
pub struct BlasValues {
    /// A factor as it is stored, and its transpose.
    pub operations: [c_int; 2],
    /// Leaves the choice of an algorithm to the library.
    pub default_algorithm: c_int,
    /// Forbids sums that depend on the order in which threads arrive.
    pub atomics_not_allowed: c_int,
    /// The status for a GEMM that the library does not support.
    pub not_supported: Status,
}

/// How a library numbers element types, and the types that sums are computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlasTypes {
    /// Half.
    pub f16: c_int,
    /// bfloat16.
    pub bf16: c_int,
    /// Single.
    pub f32: c_int,
    /// Double.
    pub f64: c_int,
    /// Sums in single.
    pub compute_f32: c_int,
    /// Sums in double.
    pub compute_f64: c_int,
}

impl BlasTypes {
    fn number(&self, dtype: DType) -> Option<c_int> {
        match dtype {
            DType::F64 => Some(self.f64),
            DType::F32 => Some(self.f32),
            DType::F16 => Some(self.f16),
            DType::Bf16 => Some(self.bf16),
            DType::I32 | DType::U32 | DType::U8 => None,
        }
    }
}

/// The BLAS library of one vendor.
#[derive(Clone, Debug)]
pub struct Blas {
    version: String,
    functions: BlasFunctions,
    statuses: Statuses,
    values: BlasValues,
    types: BlasTypes,
    math_mode: Option<(Named<SetMode>, c_int)>,
    set_workspace: Option<Named<SetWorkspace>>,
}

impl Blas {
    /// The library of that name and version, as in `cuBLAS 13.1.0`. `math_mode` is set for every handle. A library without
    /// `set_workspace` uses memory of its own.
    ///
    /// # Safety
    /// The functions are those of the library, and the numbers its own.
    pub unsafe fn new(
        version: String,
        functions: BlasFunctions,
        statuses: Statuses,
        values: BlasValues,
        types: BlasTypes,
        math_mode: Option<(Named<SetMode>, c_int)>,
        set_workspace: Option<Named<SetWorkspace>>,
    ) -> Blas {
        Blas {
            version,
            functions,
            statuses,
            values,
            types,
            math_mode,
            set_workspace,
        }
    }

    /// Name and version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The library's statuses, which the vendor's library for epilogues may share.
    pub fn statuses(&self) -> Statuses {
        self.statuses
    }

    /// Makes a handle in the context of the calling thread. Its work goes to `stream`. Sums are computed in the
    /// accumulator and do not depend on the order in which threads arrive.
    ///
    /// # Safety
    /// The stream is live as long as the handle is used.
    pub(crate) unsafe fn create(&self, stream: Handle) -> Outcome<Handle> {
        let mut handle = std::ptr::null_mut();
        call!(self, create(&mut handle))?;
        let prepared = self.prepare(handle, opaque(stream));
        if prepared.is_err() {
            // The first failure is the one to report.
            let _ = call!(self, destroy(handle));
        }
        prepared.map(|()| handle.addr())
    }

    fn prepare(&self, handle: Opaque, stream: Opaque) -> Outcome<()> {
        call!(self, set_stream(handle, stream))?;
        if let Some((set, mode)) = self.math_mode {
            // SAFETY: the handle is live, and the mode the library's own.
            let status = unsafe { (set.function)(handle, mode) };
            self.statuses.check(set.name, status)?;
        }
        call!(self, set_atomics(handle, self.values.atomics_not_allowed))
    }

    /// Whether the library takes memory for its GEMMs.
    pub(crate) fn takes_workspace(&self) -> bool {
        self.set_workspace.is_some()
    }

    /// Gives a handle memory in which its GEMMs work, so that the library allocates none.
    ///
    /// # Safety
    /// The handle is live. The memory is live until the handle's GEMMs have run, and nothing else uses it.
    pub(crate) unsafe fn set_workspace(
        &self,
        handle: Handle,
        address: Address,
        bytes: usize,
    ) -> Outcome<()> {
        let Some(set) = self.set_workspace else {
            return Ok(());
        };
        // SAFETY: passed on from the caller.
        let status = unsafe { (set.function)(opaque(handle), pointer(address), bytes) };
        self.statuses.check(set.name, status)
    }

    /// Destroys a handle.
    ///
    /// # Safety
    /// The handle is live and not used again.
    pub(crate) unsafe fn destroy(&self, handle: Handle) -> Outcome<()> {
        call!(self, destroy(opaque(handle)))
    }

    /// Queues the GEMMs of a batch. No two of them share an element of C.
    ///
    /// # Safety
    /// The handle is live and used by one thread at a time; the matrices are live until the GEMMs have run.
    pub(crate) unsafe fn gemm(&self, handle: Handle, gemm: &ColumnMajor) -> Outcome<()> {
        let numbers = [gemm.input, gemm.output].map(|dtype| self.types.number(dtype));
        let [Some(input), Some(output)] = numbers else {
            return Err(self.unsupported(gemm));
        };
        // The scales have the type of the sums.
        let (alpha, beta) = (gemm.alpha as f32, gemm.beta as f32);
        let single: [*const c_void; 2] = [(&raw const alpha).cast(), (&raw const beta).cast()];
        let double: [*const c_void; 2] = [
            (&raw const gemm.alpha).cast(),
            (&raw const gemm.beta).cast(),
        ];
        let (compute, [alpha, beta]) = match gemm.input {
            DType::F64 => (self.types.compute_f64, double),
            _ => (self.types.compute_f32, single),
        };
        let ColumnMajor {
            m,
            n,
            k,
            leading: [lda, ldb, ldc],
            strides: [stride_a, stride_b, stride_c],
            batch,
            ..
        } = *gemm;
        let [op_a, op_b] = gemm
            .transposed
            .map(|transposed| self.values.operations[usize::from(transposed)]);
        let ([a, b, c], handle) = (gemm.addresses.map(pointer), opaque(handle));
        let algorithm = self.values.default_algorithm;
        if batch == 1 {
            return call!(
                self,
                gemm(
                    handle, op_a, op_b, m, n, k, alpha, a, input, lda, b, input, ldb, beta, c,
                    output, ldc, compute, algorithm,
                )
            );
        }
        call!(
            self,
            gemm_batched(
                handle, op_a, op_b, m, n, k, alpha, a, input, lda, stride_a, b, input, ldb,
                stride_b, beta, c, output, ldc, stride_c, batch, compute, algorithm,
            )
        )
    }

    fn unsupported(&self, gemm: &ColumnMajor) -> Fault {
        Fault {
            call: self.functions.gemm.name,
            code: self.values.not_supported.into(),
            reason: format!("no GEMM from {} to {}", gemm.input, gemm.output),
            out_of_memory: false,
        }
    }
}
