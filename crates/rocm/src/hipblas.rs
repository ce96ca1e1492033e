//! hipBLAS's table as the products that crates/gpu works with.

use crate::sys::blas::*;
use gpu::table::{Blas, ColumnMajor, Fault, Handle as Opaque, Outcome};
use hal::DType;
use std::ffi::{CStr, c_int, c_void};

/// hipBLAS, of whichever generation.
#[derive(Debug)]
pub(crate) struct HipBlas {
    table: Hipblas,
    generation: u32,
    gemm: GemmEx,
    batched: GemmStridedBatchedEx,
    types: Types,
}

macro_rules! call {
    ($self:ident.$function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments fit the function's documentation; what must be live, the caller of this method answers for.
        let status = unsafe { ($self.table.$function)($($argument),*) };
        $self.check(stringify!($function), status)
    }};
}

fn pointer(address: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(address as usize)
}

fn operation(transposed: bool) -> c_int {
    if transposed { OP_T } else { OP_N }
}

impl HipBlas {
    /// The library whose name ends in `generation`.
    pub(crate) fn new(table: &Hipblas, generation: u32) -> HipBlas {
        let (gemm, batched, types) = table.gemm(generation);
        HipBlas {
            table: *table,
            generation,
            gemm,
            batched,
            types,
        }
    }

    fn check(&self, call: &'static str, status: Status) -> Outcome<()> {
        match status {
            SUCCESS => Ok(()),
            code => Err(Fault {
                call,
                code: code.into(),
                reason: self.reason(code),
                out_of_memory: code == ALLOC_FAILED,
            }),
        }
    }

    fn reason(&self, status: Status) -> String {
        // SAFETY: the function gives a constant text for any status.
        let text = self
            .table
            .hipblasStatusToString
            .map(|text| unsafe { text(status) });
        match text {
            Some(text) if !text.is_null() => {
                // SAFETY: as above; it ends with a zero.
                unsafe { CStr::from_ptr(text) }.to_string_lossy().into()
            }
            _ => "unknown".into(),
        }
    }

    fn prepare(&self, handle: Handle, stream: *mut c_void) -> Outcome<()> {
        call!(self.hipblasSetStream(handle, stream))?;
        call!(self.hipblasSetAtomicsMode(handle, ATOMICS_NOT_ALLOWED))
    }

    fn data_type(&self, dtype: DType) -> Option<c_int> {
        match dtype {
            DType::F64 => Some(self.types.f64),
            DType::F32 => Some(self.types.f32),
            DType::F16 => Some(self.types.f16),
            DType::Bf16 => Some(self.types.bf16),
            DType::I32 | DType::U32 => None,
        }
    }
}

// SAFETY: each method makes the calls that its documentation names; handles come from the library.
unsafe impl Blas for HipBlas {
    fn version(&self) -> String {
        let types = if self.types == HIP_TYPES {
            "HIP's data types"
        } else {
            "data types of its own"
        };
        format!("hipBLAS (libhipblas.so.{}, {types})", self.generation)
    }

    unsafe fn create(&self, stream: Opaque) -> Outcome<Opaque> {
        let mut handle = std::ptr::null_mut();
        call!(self.hipblasCreate(&mut handle))?;
        let prepared = self.prepare(handle, std::ptr::without_provenance_mut(stream));
        if prepared.is_err() {
            // What failed first is told.
            let _ = call!(self.hipblasDestroy(handle));
        }
        prepared.map(|()| handle.addr())
    }

    unsafe fn destroy(&self, handle: Opaque) -> Outcome<()> {
        call!(self.hipblasDestroy(std::ptr::without_provenance_mut(handle)))
    }

    unsafe fn gemm(&self, handle: Opaque, product: &ColumnMajor) -> Outcome<()> {
        let call = "hipblasGemmEx";
        let (Some(input), Some(output)) = (
            self.data_type(product.input),
            self.data_type(product.output),
        ) else {
            let reason = format!("no products of {} into {}", product.input, product.output);
            return Err(Fault {
                call,
                code: NOT_SUPPORTED.into(),
                reason,
                out_of_memory: false,
            });
        };
        // The scales have the type of the sums.
        let (alpha, beta) = (product.alpha as f32, product.beta as f32);
        let single: [*const c_void; 2] = [(&raw const alpha).cast(), (&raw const beta).cast()];
        let double: [*const c_void; 2] = [
            (&raw const product.alpha).cast(),
            (&raw const product.beta).cast(),
        ];
        let (compute, [alpha, beta]) = match product.input {
            DType::F64 => (self.types.compute_f64, double),
            _ => (self.types.compute_f32, single),
        };
        let ColumnMajor {
            m,
            n,
            k,
            addresses: [a, b, c],
            leading: [lda, ldb, ldc],
            batch,
            ..
        } = *product;
        let [op_a, op_b] = product.transposed.map(operation);
        let (handle, a, b, c) = (
            std::ptr::without_provenance_mut(handle),
            pointer(a),
            pointer(b),
            pointer(c),
        );
        if batch != 1 {
            let [stride_a, stride_b, stride_c] = product.strides;
            // SAFETY: the arguments are those of this generation; the caller vouches for handle and matrices.
            let status = unsafe {
                (self.batched)(
                    handle,
                    op_a,
                    op_b,
                    m,
                    n,
                    k,
                    alpha,
                    a,
                    input,
                    lda,
                    stride_a,
                    b,
                    input,
                    ldb,
                    stride_b,
                    beta,
                    c,
                    output,
                    ldc,
                    stride_c,
                    batch,
                    compute,
                    GEMM_DEFAULT,
                )
            };
            return self.check("hipblasGemmStridedBatchedEx", status);
        }
        // SAFETY: as above.
        let status = unsafe {
            (self.gemm)(
                handle,
                op_a,
                op_b,
                m,
                n,
                k,
                alpha,
                a,
                input,
                lda,
                b,
                input,
                ldb,
                beta,
                c,
                output,
                ldc,
                compute,
                GEMM_DEFAULT,
            )
        };
        self.check(call, status)
    }
}
