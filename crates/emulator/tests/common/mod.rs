//! Shared by the tests: the built libraries, calls by name, a device's context.

#![allow(dead_code)]

use fascicle_emulator::{Cuda, Generation, Hip};
use libloading::Library;
use std::{ffi::c_void, path::PathBuf, ptr, sync::OnceLock};

pub type Handle = *mut c_void;

/// Calls a C function by its name; each value is followed by the type that the vendor's header declares.
macro_rules! c {
    ($library:expr, $name:ident($($value:expr => $kind:ty),* $(,)?)) => {
        c!($library, $name($($value => $kind),*) -> i32)
    };
    ($library:expr, $name:ident($($value:expr => $kind:ty),* $(,)?) -> $result:ty) => {{
        // SAFETY: the types are those of the vendor's declaration, and every pointer is that of a live variable or an
        // address that the library checks itself.
        unsafe {
            let function = $library
                .get::<unsafe extern "C" fn($($kind),*) -> $result>(stringify!($name))
                .unwrap_or_else(|problem| panic!("{}: {problem}", stringify!($name)));
            function($($value),*)
        }
    }};
}
pub(crate) use c;

/// The folder of a generation. Without a C++ compiler it prints why and returns `None`.
pub fn folder(cuda: Cuda, hip: Hip) -> Option<PathBuf> {
    match fascicle_emulator::build_libraries(Generation { cuda, hip }) {
        Ok(folder) => Some(folder),
        Err(reason) if reason.starts_with("no C++ compiler") => {
            eprintln!("skipped: {reason}");
            None
        }
        Err(reason) => panic!("{reason}"),
    }
}

/// One library of a folder.
pub fn open(folder: &std::path::Path, name: &str) -> Library {
    // SAFETY: the emulator's libraries have no initialisers that need anything of the process.
    unsafe { Library::new(folder.join(name)) }.unwrap_or_else(|problem| panic!("{name}: {problem}"))
}

/// The libraries of CUDA, opened once for the process, with the driver initialised.
pub struct Nvidia {
    pub cuda: Library,
    pub cublas: Library,
    pub nccl: Library,
}

pub fn nvidia() -> Option<&'static Nvidia> {
    static OPENED: OnceLock<Option<Nvidia>> = OnceLock::new();
    OPENED
        .get_or_init(|| {
            let folder = folder(Cuda::V13, Hip::V6_4)?;
            let cuda = open(&folder, "libcuda.so.1");
            assert_eq!(c!(cuda, cuInit(0 => u32)), 0);
            let (cublas, nccl) = (
                open(&folder, "libcublas.so.13"),
                open(&folder, "libnccl.so.2"),
            );
            Some(Nvidia { cuda, cublas, nccl })
        })
        .as_ref()
}

impl Nvidia {
    /// Makes a device's primary context current on this thread.
    pub fn enter(&self, device: i32) {
        let mut context: Handle = ptr::null_mut();
        assert_eq!(
            c!(self.cuda, cuDevicePrimaryCtxRetain(&mut context => *mut Handle, device => i32)),
            0
        );
        assert_eq!(c!(self.cuda, cuCtxSetCurrent(context => Handle)), 0);
    }

    pub fn allocate(&self, bytes: usize) -> u64 {
        let mut address = 0;
        assert_eq!(
            c!(self.cuda, cuMemAlloc_v2(&mut address => *mut u64, bytes => usize)),
            0
        );
        address
    }

    /// Device memory with these values.
    pub fn upload<T>(&self, values: &[T]) -> u64 {
        let bytes = size_of_val(values);
        let address = self.allocate(bytes);
        let from = values.as_ptr().cast::<c_void>();
        assert_eq!(
            c!(self.cuda, cuMemcpyHtoD_v2(address => u64, from => *const c_void, bytes => usize)),
            0
        );
        address
    }

    pub fn download<T: Clone + Default>(&self, address: u64, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        let (to, bytes) = (values.as_mut_ptr().cast::<c_void>(), count * size_of::<T>());
        assert_eq!(
            c!(self.cuda, cuMemcpyDtoH_v2(to => *mut c_void, address => u64, bytes => usize)),
            0
        );
        values
    }

    pub fn free(&self, address: u64) -> i32 {
        c!(self.cuda, cuMemFree_v2(address => u64))
    }

    /// A stream that is not ordered with the default stream.
    pub fn stream(&self) -> Handle {
        let mut stream: Handle = ptr::null_mut();
        assert_eq!(
            c!(self.cuda, cuStreamCreate(&mut stream => *mut Handle, 1 => u32)),
            0
        );
        stream
    }

    pub fn synchronize(&self, stream: Handle) -> i32 {
        c!(self.cuda, cuStreamSynchronize(stream => Handle))
    }

    pub fn event(&self) -> Handle {
        let mut event: Handle = ptr::null_mut();
        assert_eq!(
            c!(self.cuda, cuEventCreate(&mut event => *mut Handle, 0 => u32)),
            0
        );
        event
    }

    pub fn live(&self, kind: &std::ffi::CStr) -> i64 {
        c!(self.cuda, fascicle_emulator_live(kind.as_ptr() => *const std::ffi::c_char) -> i64)
    }

    pub fn misuses(&self) -> i64 {
        c!(self.cuda, fascicle_emulator_misuses() -> i64)
    }
}

/// Holds a stream: work behind the gate waits until the host opens it.
#[derive(Default)]
pub struct Gate(std::sync::atomic::AtomicBool);

impl Gate {
    pub fn open(&self) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    /// For `cuLaunchHostFunc`, with the gate as its data.
    pub extern "C" fn hold(data: *mut c_void) {
        // SAFETY: the data is a gate that the test keeps until the stream has passed it.
        let gate = unsafe { &*data.cast::<Gate>() };
        while !gate.0.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
