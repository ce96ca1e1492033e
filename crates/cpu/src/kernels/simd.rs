//! Runs a loop with the widest vectors of this processor.
//!
//! The crate is built for any x86-64; plain Rust loops are compiled three times, and the processor is queried
//! once.

/// Runs `work`, compiled for the processor's own vector instructions.
///
/// `work` and everything it calls must be `#[inline(always)]`: a function that remains a call is compiled for
/// the oldest processor, where `mul_add` is a call into the C library.
#[inline]
pub(crate) fn vectorise<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512cd")
        {
            // SAFETY: the processor has what the function is compiled for, checked above.
            return unsafe { with_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has what the function is compiled for, checked above.
            return unsafe { with_avx2(work) };
        }
    }
    work()
}

/// # Safety
/// The processor has the features named here.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma")]
unsafe fn with_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// # Safety
/// The processor has the features named here.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
