#!/usr/bin/env bash
# Compiles the kernels for NVIDIA and AMD and prints the resources of each: registers, spilled bytes, shared memory; and for
# NVIDIA the instructions in the main loops on matrix units (instructions.py).
#
# Usage: ci/device-code.sh [--if-changed] [FOLDER]   folder for tables and objects; default target/device-code
#        --if-changed: not if all of this has passed for the same files. Their digests are in ci/device-code.sha256, which a run of all
#        architectures writes: commit it with the files.
# Compiles for all architectures of a build: FASCICLE_CUDA_ARCHS, FASCICLE_HIP_ARCHS; and to the PTX of compute_90.
# Fails if a kernel does not compile, if one spills that is not named in `may_spill` below, or if such a loop waits for
# global memory.
# Installs nvcc and nvdisasm from PyPI and hipcc from Debian where they are missing (as root); neither needs a device.
set -euo pipefail
cd "$(dirname "$0")/.."

digests() {
  find crates/gpu/kernels kernels-cuda kernels-hip ci/device-code.sh ci/instructions.py -type f \
    \( -name '*.h' -o -name '*.cu' -o -name '*.hip' -o -name '*.sh' -o -name '*.py' \) | LC_ALL=C sort | xargs sha256sum
}
if [ "${1:-}" = --if-changed ]; then
  shift
  if diff <(digests) ci/device-code.sha256 > /dev/null; then
    echo 'device-code: these files have passed (ci/device-code.sha256)'
    exit
  fi
fi

cuda_list=${FASCICLE_CUDA_ARCHS:-80;90a} hip_list=${FASCICLE_HIP_ARCHS:-gfx90a}
out=${1:-target/device-code}
kernels=crates/gpu/kernels
nvcc_version='13.0.*'
mkdir -p "$out"

# Not hot: kernels that compute in f64, and attention without matrix units, which holds its tiles in shared memory.
may_spill='_f64$|_f64_|_attention_(forward|backward_queries|backward_keys)_(f32|bf16|f16)$'

# Debian packages; the lists of a fresh machine may be empty or old.
install() {
  apt-get install -y --no-install-recommends "$@" >&2 ||
    { apt-get update >&2 && apt-get install -y --no-install-recommends "$@" >&2; }
}

# Installs packages of PyPI into a virtual environment. Prints the file among them that matches a pattern.
from_pypi() {
  local venv=${FASCICLE_NVCC_VENV:-/tmp/venv-nvcc} wanted=$1
  shift
  if ! compgen -G "$venv/lib/python3*/site-packages/nvidia/cu13/bin/$wanted" > /dev/null; then
    # Debian's Python lacks the module that creates virtual environments.
    [ -x "$venv/bin/pip" ] || python3 -m venv "$venv" > /dev/null 2>&1 ||
      { install python3-venv && python3 -m venv --clear "$venv"; }
    "$venv/bin/pip" install --quiet "$@" >&2
  fi
  compgen -G "$venv/lib/python3*/site-packages/nvidia/cu13/bin/$wanted"
}

find_nvcc() {
  if [ -n "${FASCICLE_NVCC:-}" ]; then echo "$FASCICLE_NVCC"; return; fi
  if command -v nvcc; then return; fi
  local wheels=()
  for part in cuda-nvcc cuda-runtime cuda-crt cuda-cccl nvvm; do wheels+=("nvidia-$part==$nvcc_version"); done
  from_pypi nvcc "${wheels[@]}"
}

# PyPI has no disassembler of CUDA 13.0; a later one reads the same objects.
find_nvdisasm() {
  command -v nvdisasm || from_pypi nvdisasm 'nvidia-cuda-nvdisasm==13.2.*'
}

find_hipcc() {
  if [ -n "${FASCICLE_HIPCC:-}" ]; then echo "$FASCICLE_HIPCC"; return; fi
  if ! command -v hipcc > /dev/null; then
    install hipcc rocm-device-libs libamdhip64-dev
  fi
  command -v hipcc
}

# One line per kernel from the output of ptxas: name, registers, spilled bytes, shared memory without the dynamic
# part.
cuda_table() {
  awk '
    /Compiling entry function/ { split($0, part, "\047"); name = part[2]; spilled = 0 }
    /spill stores/ { for (i = 1; i <= NF; i++) if ($i == "spill") spilled += $(i - 2) }
    /Used [0-9]+ registers/ {
      shared = 0
      for (i = 1; i <= NF; i++) { if ($i == "registers,") registers = $(i - 1); if ($i ~ /^smem/) shared = $(i - 2) }
      print name, registers, spilled, shared
    }' "$1"
}

# The same from clang's remarks. Registers are vector registers, including AGPRs. Arrays that did not become
# registers count as spilled.
hip_table() {
  awk '
    { value = $0; sub(/ \[-Rpass.*/, "", value); sub(/.*: */, "", value) }
    /Function Name:/ { name = value }
    / VGPRs:/ { registers = value }
    /AGPRs:/ { registers += value }
    /ScratchSize/ { spilled = value }
    /LDS Size/ { print name, registers, spilled, value }' "$1"
}

# Prints a table, and fails if a kernel spills.
report() {
  local what=$1 table=$2
  printf '\n%s\n' "$what"
  (echo 'kernel registers spilled-bytes shared-bytes'; sort "$table") |
    awk '{ printf "%-60s %9s %13s %12s\n", $1, $2, $3, $4 }'
  local spilling
  spilling=$(awk '$3 > 0 { print $1 }' "$table" | grep -Ev "$may_spill" || true)
  if [ ! -s "$table" ]; then echo "$what: no kernel in the compiler's report" >&2; return 1; fi
  if [ -n "$spilling" ]; then printf '%s: these spill:\n%s\n' "$what" "$spilling" >&2; return 1; fi
}

# Compiles for one architecture; the compiler's report is stored beside the object.
compile_cuda() {
  "$nvcc" -std=c++17 -O3 -fmad=false -cubin "-gencode=arch=compute_$1,code=sm_$1" -Xptxas -v "-I$kernels" kernels-cuda/kernels.cu -o "$out/sm_$1.cubin" \
    > "$out/sm_$1.log" 2>&1 && cuda_table "$out/sm_$1.log" > "$out/sm_$1.txt"
}
# What a driver compiles for devices newer than all of these.
compile_ptx() {
  "$nvcc" -std=c++17 -O3 -fmad=false -ptx -arch=compute_90 "-I$kernels" kernels-cuda/kernels.cu -o "$out/compute_90.ptx" \
    > "$out/compute_90.log" 2>&1
}
compile_hip() {
  "$hipcc" -std=c++17 -O3 -ffp-contract=off --genco "--offload-arch=$1" -Rpass-analysis=kernel-resource-usage "-I$kernels" \
    kernels-hip/kernels.hip -o "$out/$1.hsaco" > "$out/$1.log" 2>&1 && hip_table "$out/$1.log" > "$out/$1.txt"
}

nvcc=$(find_nvcc)
nvdisasm=$(find_nvdisasm)
hipcc=$(find_hipcc)
IFS=';' read -ra cuda_archs <<< "$cuda_list"
IFS=';' read -ra hip_archs <<< "$hip_list"
declare -A running
for arch in "${hip_archs[@]}"; do compile_hip "$arch" & running[$arch]=$!; done
for arch in "${cuda_archs[@]}"; do compile_cuda "$arch" & running[sm_$arch]=$!; done
compile_ptx & running[compute_90]=$!

status=0
for arch in "${cuda_archs[@]/#/sm_}" "${hip_archs[@]}"; do
  if wait "${running[$arch]}"; then
    report "$arch" "$out/$arch.txt" || status=1
    # Products of warpgroups that wait for each other, or registers that do not move.
    if grep -E 'wgmma.* serialized|setmaxnreg.* ignored' "$out/$arch.log" >&2; then status=1; fi
  else
    printf '%s: does not compile\n' "$arch" >&2
    tail -n 40 "$out/$arch.log" >&2
    status=1
  fi
done
if ! wait "${running[compute_90]}"; then
  printf 'compute_90: does not compile\n' >&2
  tail -n 40 "$out/compute_90.log" >&2
  status=1
fi
for arch in "${cuda_archs[@]/#/sm_}"; do
  printf '\n%s\n' "$arch"
  python3 ci/instructions.py "$nvdisasm" "$out/$arch.cubin" || status=1
done
if [ $status -eq 0 ] && [ -z "${FASCICLE_CUDA_ARCHS:-}${FASCICLE_HIP_ARCHS:-}" ]; then digests > ci/device-code.sha256; fi
exit $status
