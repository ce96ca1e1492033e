#!/usr/bin/env bash
# What most checks share: one build of the workspace's tests, examples and programs, with MPI and both vendors. Installs Open MPI
# and what its binding needs, where they are missing. Sourced by ci/test.sh, and by the checks that reuse its build.
set -euo pipefail
mpi_missing() {
  local tool
  for tool in mpirun mpicc pgrep; do command -v "$tool" >/dev/null || return 0; done
  ! ls /usr/lib/llvm-*/lib/libclang*.so* >/dev/null 2>&1
}
if mpi_missing; then
  timeout 300 apt-get update -qq
  DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq libopenmpi-dev openmpi-bin libclang-dev procps >/dev/null
fi
# Containers run as root, have few processors, and often no other host.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0
# The program gives each rank its share of the processors; mpirun would leave one to all threads of a rank.
export OMPI_MCA_hwloc_base_binding_policy=none
# The emulator has its own kernels. Those of devices are ci/device-code.sh's.
export FASCICLE_NVCC=/bin/false FASCICLE_HIPCC=/bin/false

workspace=(--workspace --features fascicle/mpi,fascicle/testing,fascicle/tokenizers,fascicle/cuda,fascicle/rocm,fascicle/object-store,fascicle-mpi/link)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug
fascicle=$target/fascicle

# Builds what ci/test.sh runs, and prints cargo's messages. Always all of it: the flags of some dependencies follow from what else is
# selected, so that for a part of it cargo would compile most of the workspace a second time.
build_workspace() { cargo test "${workspace[@]}" --no-run --message-format=json-render-diagnostics; }
# executable NAME < MESSAGES prints the path of a test's program.
executable() { grep -oE '"executable":"[^"]*/'"$1"'-[0-9a-f]{16}"' | tail -n 1 | cut -d '"' -f 4; }
