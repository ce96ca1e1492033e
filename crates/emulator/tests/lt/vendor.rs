//! Both vendors' functions under one roof: only the prefix and the numbers differ.

use crate::common::{Handle, c, folder, open};
use fascicle_emulator::{Cuda, Hip};
use libloading::Library;
use std::{
    ffi::{CStr, c_char, c_void},
    ptr,
    sync::{Mutex, MutexGuard, OnceLock},
};

/// The numbers of a vendor's enumerations.
pub struct Numbers {
    pub prefix: &'static str,
    /// The operation that transposes comes after it.
    pub as_it_is: i32,
    pub compute: [i32; 2],
    pub transposed: [i32; 2],
    pub epilogue: i32,
    pub bias: i32,
    pub bias_type: i32,
    pub aux: i32,
    pub aux_leading: i32,
    pub batch: i32,
    pub stride: i32,
    /// Bytes of the algorithm, and of the result that begins with it and goes on with the workspace.
    pub algo: usize,
    pub result: usize,
    pub invalid: i32,
    pub unsupported: i32,
}

const CUBLAS: Numbers = Numbers {
    prefix: "cublasLt",
    as_it_is: 0,
    compute: [68, 70],
    transposed: [3, 4],
    epilogue: 7,
    bias: 8,
    bias_type: 26,
    aux: 11,
    aux_leading: 12,
    batch: 5,
    stride: 6,
    algo: 64,
    result: 96,
    invalid: 7,
    unsupported: 15,
};

const HIPBLAS: Numbers = Numbers {
    prefix: "hipblasLt",
    as_it_is: 111,
    compute: [2, 7],
    transposed: [0, 1],
    epilogue: 2,
    bias: 3,
    bias_type: 4,
    aux: 10,
    aux_leading: 11,
    batch: 0,
    stride: 1,
    algo: 24,
    result: 56,
    invalid: 3,
    unsupported: 7,
};

pub struct Vendor {
    pub runtime: Library,
    pub light: Library,
    pub numbers: &'static Numbers,
    lock: Mutex<()>,
}

/// Calls a function of the Lt library by the end of its name.
macro_rules! lt {
    ($vendor:expr, $name:literal($($value:expr => $kind:ty),* $(,)?)) => {{
        let name = format!("{}{}", $vendor.numbers.prefix, $name);
        // SAFETY: the types are those of both vendors' declarations, and every pointer is that of a live variable or an
        // address that the library checks itself.
        unsafe {
            let function = $vendor.light.get::<unsafe extern "C" fn($($kind),*) -> i32>(name.as_bytes());
            function.unwrap_or_else(|problem| panic!("{name}: {problem}"))($($value),*)
        }
    }};
}
pub(crate) use lt;

/// CUDA's libraries, then HIP's; empty where there is no C++ compiler.
pub fn vendors() -> &'static [Vendor] {
    static OPENED: OnceLock<Vec<Vendor>> = OnceLock::new();
    OPENED.get_or_init(|| {
        let Some(folder) = folder(Cuda::V13, Hip::V6_4) else {
            return vec![];
        };
        let vendor = |runtime, light, numbers| Vendor {
            runtime: open(&folder, runtime),
            light: open(&folder, light),
            numbers,
            lock: Mutex::new(()),
        };
        let cuda = vendor("libcuda.so.1", "libcublasLt.so.13", &CUBLAS);
        assert_eq!(c!(cuda.runtime, cuInit(0 => u32)), 0);
        vec![
            cuda,
            vendor("libamdhip64.so.6", "libhipblaslt.so.0", &HIPBLAS),
        ]
    })
}

impl Vendor {
    pub fn is_cuda(&self) -> bool {
        self.numbers.prefix == "cublasLt"
    }

    /// Makes a device the thread's, and keeps the other tests away: counts are those of the process.
    pub fn alone(&self, device: i32) -> MutexGuard<'_, ()> {
        let guard = self
            .lock
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        self.enter(device);
        guard
    }

    pub fn enter(&self, device: i32) {
        if !self.is_cuda() {
            assert_eq!(c!(self.runtime, hipSetDevice(device => i32)), 0);
            return;
        }
        let mut context: Handle = ptr::null_mut();
        assert_eq!(
            c!(self.runtime, cuDevicePrimaryCtxRetain(&mut context => *mut Handle, device => i32)),
            0
        );
        assert_eq!(c!(self.runtime, cuCtxSetCurrent(context => Handle)), 0);
    }

    pub fn allocate(&self, bytes: usize) -> u64 {
        let mut address = 0;
        let status = if self.is_cuda() {
            c!(self.runtime, cuMemAlloc_v2(&mut address => *mut u64, bytes => usize))
        } else {
            c!(self.runtime, hipMalloc(&mut address => *mut u64, bytes => usize))
        };
        assert_eq!(status, 0);
        address
    }

    pub fn upload<T>(&self, values: &[T]) -> u64 {
        let bytes = size_of_val(values);
        let (address, from) = (self.allocate(bytes), values.as_ptr().cast::<c_void>());
        let status = if self.is_cuda() {
            c!(self.runtime, cuMemcpyHtoD_v2(address => u64, from => *const c_void, bytes => usize))
        } else {
            c!(self.runtime, hipMemcpy(address => u64, from => *const c_void, bytes => usize, 1 => i32))
        };
        assert_eq!(status, 0);
        address
    }

    /// What is at an address, after everything queued in streams that wait for the default stream.
    pub fn download<T: Clone + Default>(&self, address: u64, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        let (to, bytes) = (values.as_mut_ptr().cast::<c_void>(), count * size_of::<T>());
        let status = if self.is_cuda() {
            c!(self.runtime, cuMemcpyDtoH_v2(to => *mut c_void, address => u64, bytes => usize))
        } else {
            c!(self.runtime, hipMemcpy(to => *mut c_void, address => u64, bytes => usize, 2 => i32))
        };
        assert_eq!(status, 0);
        values
    }

    pub fn free(&self, address: u64) {
        let status = if self.is_cuda() {
            c!(self.runtime, cuMemFree_v2(address => u64))
        } else {
            c!(self.runtime, hipFree(address => u64))
        };
        assert_eq!(status, 0);
    }

    pub fn live(&self, kind: &CStr) -> i64 {
        c!(self.runtime, fascicle_emulator_live(kind.as_ptr() => *const c_char) -> i64)
    }

    pub fn misuses(&self) -> i64 {
        c!(self.runtime, fascicle_emulator_misuses() -> i64)
    }

    pub fn calls(&self, name: &CStr) -> i64 {
        c!(self.runtime, fascicle_emulator_calls(name.as_ptr() => *const c_char) -> i64)
    }

    /// Lets each GEMM of an algorithm take that much longer.
    pub fn pace(&self, algorithm: u64, microseconds: i64) {
        c!(self.runtime, fascicle_emulator_pace(algorithm => u64, microseconds => i64) -> ());
    }

    pub fn fail(&self, name: &CStr, code: i32) {
        c!(self.runtime, fascicle_emulator_fail(name.as_ptr() => *const c_char, 1 => i64, code => i32) -> ());
    }
}
