//! The shares for which runs of codes stand.

use crate::kernels::memory::{BLOCK, Shared};
use hal::quantised::{NORMAL, share_of_integer};

#[inline(always)]
fn normal(codes: Shared<u8>, element: usize) -> f32 {
    NORMAL[usize::from(codes.get(element / 2) >> (element % 2 * 4) & 15)]
}

/// The shares of integers from `start` on; behind `len` of them, of anything.
#[inline(always)]
pub(super) fn integers(codes: Shared<u8>, start: usize, len: usize) -> [f32; BLOCK] {
    let (bytes, mut shares) = (codes.load_bytes(start, len), [0.0; BLOCK]);
    for i in 0..BLOCK {
        shares[i] = share_of_integer(bytes[i]);
    }
    shares
}

/// Those of 4-bit codes.
#[inline(always)]
pub(super) fn normals(codes: Shared<u8>, start: usize, len: usize) -> [f32; BLOCK] {
    let mut shares = [0.0; BLOCK];
    #[cfg(target_arch = "x86_64")]
    if start.is_multiple_of(2) && len == BLOCK {
        use super::x86;
        const { assert!(BLOCK == 32) };
        // SAFETY: nobody writes codes while a kernel reads them.
        let codes = unsafe { codes.part(start / 2..(start + BLOCK) / 2) }.as_ptr();
        let to = shares.as_mut_ptr();
        // SAFETY: the processor has the instructions, as just checked; the block has these codes, and room for them.
        unsafe {
            if is_x86_feature_detected!("avx512f") {
                x86::sixteen_normals(codes, 1.0, to);
                x86::sixteen_normals(codes.add(8), 1.0, to.add(16));
                return shares;
            }
            if is_x86_feature_detected!("avx2") {
                x86::eight_normals(codes, 1.0, to);
                x86::eight_normals(codes.add(4), 1.0, to.add(8));
                x86::eight_normals(codes.add(8), 1.0, to.add(16));
                x86::eight_normals(codes.add(12), 1.0, to.add(24));
                return shares;
            }
        }
    }
    for i in 0..len {
        shares[i] = normal(codes, start + i);
    }
    shares
}
