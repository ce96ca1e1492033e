#!/usr/bin/env bash
# The CUDA vendor (FASCICLE_VENDOR=rocm: the ROCm vendor) on a machine with a device: the contract suite and parity with
# the CPU vendor, a memory checker over the kernels, benchmarks as JSON.
#
# Usage: ci/gpu.sh --build          on a machine with nvcc or hipcc, device or not: builds what is carried to the other
#        ci/gpu.sh [FOLDER]         on the machine with the device; results go to FOLDER, by default target/gpu-results
# What --build makes lies in target/gpu-kit (FASCICLE_KIT: elsewhere); it needs neither Rust nor a compiler to run.
set -euo pipefail
cd "$(dirname "$0")/.."
vendor=${FASCICLE_VENDOR:-cuda}
kit=${FASCICLE_KIT:-target/gpu-kit}

build() {
  local built executable
  built=$(cargo test --release -p fascicle-emulator --test vendors --no-run --message-format=json-render-diagnostics)
  executable=$(grep -oE '"executable":"[^"]*/vendors-[0-9a-f]+"' <<< "$built" | tail -n 1 | cut -d '"' -f 4)
  cargo build --release -p fascicle --features cuda,rocm --bin fascicle
  mkdir -p "$kit"
  cp "$executable" "$kit/gpu-tests"
  cp "$(dirname "$(dirname "$executable")")/fascicle" "$kit/fascicle"
  "$kit/fascicle" doctor > "$kit/doctor.txt"
  printf 'gpu: built %s\n' "$kit"
}
if [ "${1:-}" = --build ] || [ ! -x "$kit/fascicle" ]; then build; fi
if [ "${1:-}" = --build ]; then exit; fi

out=${1:-target/gpu-results}
mkdir -p "$out"
fail() { printf 'gpu: %s\n' "$1" >&2; exit 1; }
program() { "$kit/fascicle" --vendor "$vendor" "$@"; }
# A missing device is a failure here, and no test falls back to the emulator.
tests() { FASCICLE_REQUIRE=$vendor "$kit/gpu-tests" --test-threads 1 "$@"; }

"$kit/fascicle" doctor --json > "$out/doctor.json"
"$kit/fascicle" doctor
grep -qE "\"vendor\":\"$vendor\",\"compiled_in\":true,\"usable\":true" "$out/doctor.json" || fail "no $vendor device"

# Several ranks on one device: with staged collectives always, with NCCL where its version takes them (2.30.3 and later).
tests "contract::$vendor" 2>&1 | tee "$out/contract.log"
tests "parity::$vendor::" "parity::${vendor}_staged" 2>&1 | tee "$out/parity.log"
if [ "$vendor" = cuda ]; then
  shared=passed
  NCCL_MULTI_RANK_GPU_ENABLE=1 tests "parity::cuda::gpt2_in_f32" > "$out/parity-nccl-shared.log" 2>&1 || shared=failed
  printf 'gpu: several ranks on one device through NCCL: %s\n' "$shared" | tee "$out/nccl-shared.txt"
fi

if [ "$vendor" = cuda ] && command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck; do
    FASCICLE_REQUIRE=cuda compute-sanitizer --tool "$tool" --error-exitcode 9 "$kit/gpu-tests" --test-threads 1 \
      contract::cuda::elementwise contract::cuda::norms 2>&1 | tee "$out/$tool.log"
  done
else
  printf 'gpu: no compute-sanitizer here: the kernels are not checked for stray accesses\n'
fi

program bench gemm --precision bf16 --tokens 8192 --hidden 2048 --vocabulary 51200 --json > "$out/gemm.json"
FASCICLE_COLLECTIVES=staged program bench collectives --ranks 2 --json > "$out/collectives-staged.json"
if [ "$(grep -c '' <(program doctor | grep -E "^ +device [0-9]+:"))" -gt 1 ]; then
  program bench collectives --ranks 2 --json > "$out/collectives.json"
fi
# GPT 1.3B, and a size that fits any device.
program bench step --layers 24 --hidden 2048 --heads 16 --context 2048 --vocabulary 51200 --batch 4 --precision bf16 --json \
  > "$out/step-1.3b.json" || printf 'gpu: the step of GPT 1.3B does not run here\n'
program bench step --layers 12 --hidden 768 --heads 12 --context 1024 --vocabulary 51200 --batch 8 --precision bf16 --json \
  > "$out/step-124m.json"
cat "$out"/*.json
