//! cuBLAS's table as the products that crates/gpu works with.

use crate::sys::blas::*;
use gpu::table::{Blas, ColumnMajor, Fault, Handle as Opaque, Outcome};
use hal::DType;
use std::ffi::{CStr, c_int, c_void};

/// cuBLAS.
#[derive(Debug)]
pub(crate) struct CudaBlas(pub(crate) Cublas);

macro_rules! call {
    ($self:ident.$function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments fit the function's documentation; what must be live, the caller of this method answers for.
        let status = unsafe { ($self.0.$function)($($argument),*) };
        $self.check(stringify!($function), status)
    }};
}

fn pointer(address: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(address as usize)
}

fn data_type(dtype: DType) -> Option<c_int> {
    match dtype {
        DType::F64 => Some(R_64F),
        DType::F32 => Some(R_32F),
        DType::F16 => Some(R_16F),
        DType::Bf16 => Some(R_16BF),
        DType::I32 | DType::U32 => None,
    }
}

fn operation(transposed: bool) -> c_int {
    if transposed { OP_T } else { OP_N }
}

impl CudaBlas {
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
        let text = unsafe { (self.0.cublasGetStatusString)(status) };
        // SAFETY: as above; it ends with a zero.
        let reason =
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into());
        reason.unwrap_or_else(|| "unknown".into())
    }

    fn prepare(&self, handle: Handle, stream: *mut c_void) -> Outcome<()> {
        call!(self.cublasSetStream_v2(handle, stream))?;
        call!(self.cublasSetMathMode(handle, MATH_FULL_REDUCTION))?;
        call!(self.cublasSetAtomicsMode(handle, ATOMICS_NOT_ALLOWED))
    }

    fn property(&self, kind: c_int) -> c_int {
        let mut value = 0;
        // A version that is not told is shown as 0.
        let _ = call!(self.cublasGetProperty(kind, &mut value));
        value
    }
}

// SAFETY: each method makes the calls that its documentation names; handles come from the library.
unsafe impl Blas for CudaBlas {
    fn version(&self) -> String {
        format!(
            "cuBLAS {}.{}.{}",
            self.property(0),
            self.property(1),
            self.property(2)
        )
    }

    unsafe fn create(&self, stream: Opaque) -> Outcome<Opaque> {
        let mut handle = std::ptr::null_mut();
        call!(self.cublasCreate_v2(&mut handle))?;
        let prepared = self.prepare(handle, std::ptr::without_provenance_mut(stream));
        if prepared.is_err() {
            // What failed first is told.
            let _ = call!(self.cublasDestroy_v2(handle));
        }
        prepared.map(|()| handle.addr())
    }

    unsafe fn destroy(&self, handle: Opaque) -> Outcome<()> {
        call!(self.cublasDestroy_v2(std::ptr::without_provenance_mut(handle)))
    }

    unsafe fn gemm(&self, handle: Opaque, product: &ColumnMajor) -> Outcome<()> {
        let unsupported = Fault {
            call: "cublasGemmEx",
            code: 15,
            reason: format!("no products of {} into {}", product.input, product.output),
            out_of_memory: false,
        };
        let (Some(input), Some(output)) = (data_type(product.input), data_type(product.output))
        else {
            return Err(unsupported);
        };
        // The scales have the type of the sums.
        let (alpha, beta) = (product.alpha as f32, product.beta as f32);
        let single: [*const c_void; 2] = [(&raw const alpha).cast(), (&raw const beta).cast()];
        let double: [*const c_void; 2] = [
            (&raw const product.alpha).cast(),
            (&raw const product.beta).cast(),
        ];
        let is_double = product.input == DType::F64;
        let (compute, [alpha, beta]) = if is_double {
            (COMPUTE_64F, double)
        } else {
            (COMPUTE_32F, single)
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
        if batch == 1 {
            return call!(self.cublasGemmEx(
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
                GEMM_DEFAULT
            ));
        }
        let [stride_a, stride_b, stride_c] = product.strides;
        call!(self.cublasGemmStridedBatchedEx(
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
            GEMM_DEFAULT
        ))
    }
}
