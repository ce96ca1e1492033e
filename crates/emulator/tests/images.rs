//! Code objects for other architectures are refused, as compilers mark them. One test: it counts the reports of the process.

mod common;

use common::{Handle, c, nvidia, open};
use fascicle_emulator::{Cuda, Hip};
use std::ptr;

const NO_BINARY: i32 = 209;

/// The header of a cubin: of nvcc 13 with version 8 of the ABI, of earlier ones with 7.
fn cubin(abi: u8, target: u8) -> Vec<u8> {
    let mut elf = vec![0; 64];
    elf[..4].copy_from_slice(b"\x7fELF");
    (elf[8], elf[18]) = (abi, 190);
    elf[if abi >= 8 { 49 } else { 48 }] = target;
    elf
}

fn ptx(target: &str) -> Vec<u8> {
    format!("//\n.version 9.0\n.target {target}\n.address_size 64\n\0").into_bytes()
}

fn bundle(targets: &[&str]) -> Vec<u8> {
    let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bytes.extend((targets.len() as u64).to_le_bytes());
    for target in targets {
        for number in [4096, 1, target.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(target.as_bytes());
    }
    bytes
}

#[test]
fn images_for_other_architectures_are_refused() {
    let Some(folder) = common::folder(Cuda::V13, Hip::V6_4) else {
        return;
    };
    let Some(nvidia) = nvidia() else { return };
    nvidia.enter(0);
    let hip = open(&folder, "libamdhip64.so.6");
    let mut module: Handle = ptr::null_mut();
    let mut on_cuda = |image: &[u8]| c!(nvidia.cuda, cuModuleLoadData(&mut module => *mut Handle, image.as_ptr() => *const u8));
    // The device's capability is 9.0.
    for image in [
        cubin(8, 90),
        cubin(7, 90),
        ptx("sm_90"),
        ptx("sm_80"),
        cubin(8, 0),
    ] {
        assert_eq!(on_cuda(&image), 0);
    }
    for image in [cubin(8, 80), cubin(7, 100), cubin(8, 91), ptx("sm_100")] {
        assert_eq!(on_cuda(&image), NO_BINARY);
    }
    assert_eq!(nvidia.misuses(), 4);
    assert_eq!(c!(hip, hipSetDevice(0 => i32)), 0);
    let host = "host-x86_64-unknown-linux--";
    let mut on_hip = |image: &[u8]| c!(hip, hipModuleLoadData(&mut module => *mut Handle, image.as_ptr() => *const u8));
    let device = |name| format!("hipv4-amdgcn-amd-amdhsa--{name}");
    let [own, other] = ["gfx90a", "gfx942"].map(device);
    assert_eq!(on_hip(&bundle(&[host, &other, &own])), 0);
    assert_eq!(on_hip(&bundle(&[host, &device("gfx90a:sramecc+")])), 0);
    assert_eq!(on_hip(&bundle(&[host, &other])), NO_BINARY);
    assert_eq!(on_hip(&bundle(&[host])), NO_BINARY);
}
