#!/usr/bin/env bash
# No warning from the compiler or clippy, in any target of any crate, and no unsafe code above the shell, except for tests' devices that
# return wrong bits or work late.
set -euo pipefail
# No kernels for devices, which ci/device-code.sh compiles.
export FASCICLE_NVCC=/bin/false FASCICLE_HIPCC=/bin/false
cargo clippy --quiet --workspace --all-targets --features serve,object-store -- -D warnings
allowed='^crates/(hal|tensor|cpu|sim|gpu|cuda|rocm|rccl-sys|emulator|mpi|replay|interleavings)/|^tests/outside/src/vendor\.rs:|^tests/(wire|behind|stragglers)/device\.rs:'
if found=$(grep -rnE '\bunsafe (\{|fn|impl|trait|extern)' --include='*.rs' src crates examples tests | grep -vE "$allowed"); then
  printf 'unsafe code above the shell, outside the vendors, mpi and replay:\n%s\n' "$found" >&2
  exit 1
fi
