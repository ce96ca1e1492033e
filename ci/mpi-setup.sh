#!/usr/bin/env bash
# Installs Open MPI and what its binding needs, where they are missing, and lists the packages that ci/test.sh
# builds. Sourced by ci/test.sh, and by the checks that reuse its build.
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

# The packages that ci/test.sh builds too: with other packages or features, cargo would compile most of them again.
workspace=(--workspace --features fascicle/mpi,fascicle/testing,fascicle/tokenizers,fascicle-mpi/link)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug
fascicle=$target/fascicle
# mpi_build builds the program, the numbered examples, $test, which needs several processes, and $unit, the crate's
# own tests.
mpi_build() {
  local examples=() source built
  for source in examples/[01]*.rs; do examples+=(--example "$(basename "$source" .rs)"); done
  cargo build -q "${workspace[@]}" --bin fascicle "${examples[@]}"
  built=$(cargo test "${workspace[@]}" --lib --test under_mpirun --no-run 2>&1) || { printf '%s\n' "$built" >&2; return 1; }
  test=$(sed -n 's/.*Executable.*(\(.*under_mpirun-.*\))$/\1/p' <<<"$built")
  unit=$(sed -n 's/.*Executable.*(\(.*fascicle_mpi-.*\))$/\1/p' <<<"$built")
  test=$(realpath "$test") unit=$(realpath "$unit")
}
