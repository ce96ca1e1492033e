//! [`fascicle_emulator::build`] as a whole: a module finds the device's kernels, compiled for the host.

mod common;

use common::{Handle, c, open};
use std::ptr;

#[test]
fn the_libraries_find_the_kernels() {
    let folder = match fascicle_emulator::build() {
        Ok(folder) => folder,
        Err(reason) if reason.starts_with("no C++ compiler") => {
            return eprintln!("skipped: {reason}");
        }
        Err(reason) => panic!("{reason}"),
    };
    let cuda = open(&folder, "libcuda.so.1");
    assert_eq!(c!(cuda, cuInit(0 => u32)), 0);
    let [mut context, mut module, mut function]: [Handle; 3] = [ptr::null_mut(); 3];
    assert_eq!(
        c!(cuda, cuDevicePrimaryCtxRetain(&mut context => *mut Handle, 0 => i32)),
        0
    );
    assert_eq!(c!(cuda, cuCtxSetCurrent(context => Handle)), 0);
    assert_eq!(
        c!(cuda, cuModuleLoadData(&mut module => *mut Handle, b"image".as_ptr() => *const u8)),
        0
    );
    operands(&open(&folder, "libfascicle_simt.so"));
    let name = c"fascicle_unary_f32";
    assert_eq!(
        c!(cuda, cuModuleGetFunction(&mut function => *mut Handle, module => Handle, name.as_ptr() => *const _)),
        0
    );
}

/// The pointers in a kernel's argument are known, those in the entries of an array too.
fn operands(kernels: &libloading::Library) {
    let all = |name: &std::ffi::CStr| -> Vec<(usize, i32)> {
        let operand = |index: usize| {
            let (mut offset, mut written) = (0, 0);
            let found = c!(kernels, fascicle_simt_operand(name.as_ptr() => *const _, index => usize, &mut offset => *mut usize,
                &mut written => *mut i32));
            (found == 1).then_some((offset, written))
        };
        (0..).map_while(operand).collect()
    };
    assert_eq!(all(c"fascicle_unary_f32"), [(0, 0), (8, 1)]);
    let adamw = all(c"fascicle_adamw_f32");
    assert!(adamw.len() > 50, "{adamw:?}");
    assert_eq!(
        adamw.iter().filter(|(_, written)| *written == 1).count() % 4,
        0
    );
}
