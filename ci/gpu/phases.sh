#!/usr/bin/env bash
# The phases of ci/gpu.sh, which runs each as `ci/gpu/phases.sh NAME` in a process of its own. A phase prints measurements
# on stdout, one JSON object per line, and all else on stderr. It ends with status 77 when what it needs is not here; its
# last line then says why.
set -euo pipefail

# Call, name, limit in seconds, meaning.
list() {
  cat << 'END'
a machine                      40 what is there: device, driver, tools, PyTorch
- doctor                       30 what the program finds; nothing runs without a device, cuBLAS or hipBLAS, and kernels
a contract                     60 the contract suite: memory, matmuls, kernels, order of streams, staged collectives
a collectives-contract         40 the collectives of NCCL or RCCL, a group of one first
a parity-matrix-units          60 training in bf16 and f16 beside the CPU's, up to four ranks on a device
a epilogues                    20 matmuls that end with a bias and GELU in the vendor's library
a recorded-work                40 recorded steps, bit for bit
a memcheck                     60 stray accesses of the kernels
a racecheck                    60 races of the kernels in shared memory
a kernels                      40 our kernels, beside a copy
a torch-attention              60 PyTorch's fused attention
a gemm                         40 our matmuls, and the fastest variant of each
a torch-gemm                   60 PyTorch's matmuls
a step-124m                    40 a step of GPT 124M
a torch-step-124m-eager        60 the same in PyTorch, eager
a ways-to-matmuls              30 matmuls as other variants give the same numbers
a nccl-shares-a-device         40 NCCL's own way of two ranks on a device
a parity                       60 training beside the CPU's, with as many ranks as devices
a parity-staged               120 training beside the CPU's, up to eight ranks on a device
b step-1.3b                    60 a step of GPT 1.3B
b torch-step-1.3b-eager        90 the same in PyTorch, eager
b step-1.3b-timed-matmuls      90 with the fastest variant of each matmul
b step-1.3b-separate           60 with bias and GELU as kernels of their own
b step-124m-graph              40 a recorded step of GPT 124M
b step-tiny                    20 a step of a model that is limited by the host
b step-tiny-graph              20 the same, recorded
b collectives-staged           30 staged collectives
b collectives                  30 collectives of NCCL or RCCL between two devices
b torch-step-124m-compiled    120 a step of GPT 124M in PyTorch, compiled
b torch-step-1.3b-compiled    180 a step of GPT 1.3B in PyTorch, compiled
b kernel-counters             120 the hardware's counters of each of our kernels
END
}
if [ "$1" = --list ]; then list; exit; fi

absent() { printf '%s\n' "$1" >&2; exit 77; }
vendor=$FASCICLE_VENDOR
matmul=(--tokens 8192 --hidden 2048 --vocabulary 51200)
heads=(--heads 16 --context 2048)
large=(--layers 24 --hidden 2048 --heads 16 --context 2048 --vocabulary 51200 --batch 4)
small=(--layers 12 --hidden 768 --heads 12 --context 1024 --vocabulary 51200 --batch 8)
tiny=(--layers 6 --hidden 384 --heads 6 --context 256 --vocabulary 256 --batch 8)
messages=()
torch_on=cuda
if $GPU_REHEARSED; then
  matmul=(--tokens 32 --hidden 64 --vocabulary 128)
  heads=(--heads 1 --context 16)
  large=(--layers 1 --hidden 64 --heads 1 --context 16 --vocabulary 128 --batch 2)
  small=("${large[@]}") tiny=("${large[@]}")
  messages=(--bytes 4096)
  torch_on=cpu
fi
program() { "$GPU_WORK/kit/fascicle" "$@"; }
step() { program bench step "$@" --precision bf16 --json; }
# What the program sets for itself: a test program has threads from the first on.
export NCCL_LAUNCH_ORDER_IMPLICIT=1 CUDA_DEVICE_MAX_CONNECTIONS=32 CUDA_MODULE_LOADING=EAGER GPU_MAX_HW_QUEUES=16
# A missing device is a failure here, and no test falls back to the emulator.
tests() { FASCICLE_REQUIRE=$vendor "$GPU_WORK/kit/gpu-tests" --test-threads 1 "$@" >&2; }
# Takes the sizes of a model like the program, which uses another word for the width.
torch() {
  local status=0
  "$PYTHON" ci/peers/gpu.py --device "$torch_on" "${@/#--hidden/--width}" || status=$?
  exit $((status == 3 ? 77 : status))
}

machine() {
  uname -a
  ldd --version | sed -n 1p
  nvidia-smi || rocm-smi || true
  local tool
  for tool in nvcc hipcc compute-sanitizer ncu; do
    if command -v "$tool"; then "$tool" --version; else echo "no $tool here"; fi
  done
  "$PYTHON" -c 'import sys, torch; print(sys.version, torch.__version__, torch.cuda.is_available(), torch.__file__)' ||
    echo "no PyTorch in $PYTHON"
}

doctor() {
  program doctor >&2
  program doctor --json > "$GPU_WORK/doctor.txt"
  cat "$GPU_WORK/doctor.txt"
  "$PYTHON" ci/gpu/needs.py "$vendor" < "$GPU_WORK/doctor.txt" >&2
}

# Two ranks, no more: each holds multiprocessors while it waits for the other.
shared() {
  [ "$vendor" = cuda ] || absent 'RCCL has no such way'
  local log=$GPU_WORK/shared.txt
  if NCCL_MULTI_RANK_GPU_ENABLE=1 CUDA_VISIBLE_DEVICES=0 tests contract::cuda::collectives_between_ranks 2> "$log"; then
    cat "$log" >&2
    return
  fi
  cat "$log" >&2
  if grep -q 'Duplicate GPU\|invalid usage' "$log"; then absent 'this NCCL takes one rank per device'; fi
  return 1
}

# Only an error report that the tool completed is an error of ours. All else, such as a device or driver that it does not
# support, or a missing permission, is the machine's.
sanitized() {
  command -v compute-sanitizer > /dev/null || absent 'no compute-sanitizer here'
  local log=$GPU_WORK/$1.txt status=0
  FASCICLE_REQUIRE=$vendor compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 9 \
    "$GPU_WORK/kit/gpu-tests" --test-threads 1 "contract::$vendor::elementwise" "contract::$vendor::norms" \
    > "$log" 2>&1 || status=$?
  cat "$log" >&2
  local refusal='Device not supported|not supported on this|[Uu]nable to attach|[Ii]nsufficient|[Pp]ermission|driver.*(mismatch|version)|Internal Sanitizer Error|InitializationError|Failed to initialize|before first instrumented'
  if ! grep -q 'fascicle_' <(grep '^=========' "$log"); then
    if grep -qE "^=+ .*($refusal)" "$log"; then absent "compute-sanitizer refuses this machine: $(grep -m 1 -E "^=+ .*($refusal)" "$log")"; fi
    if ! grep -q 'SUMMARY:' "$log"; then absent "compute-sanitizer ended with status $status and no summary"; fi
  fi
  return "$status"
}

counters() {
  [ "$vendor" = cuda ] || absent 'counters are read by ncu, on NVIDIA alone'
  command -v ncu > /dev/null || absent 'no ncu here'
  local log=$GPU_WORK/counters.txt status=0
  # The second launch of each kernel: the first may be larger than those that follow, or find cold caches.
  ncu --clock-control none --csv --kernel-id '::regex:^fascicle_:2' --section SpeedOfLight --section Occupancy \
    --section LaunchStats --section MemoryWorkloadAnalysis --section WarpStateStats --section SchedulerStats \
    "$GPU_WORK/kit/fascicle" bench kernels --precision bf16 "${matmul[@]}" "${heads[@]}" > "$log" 2>&1 || status=$?
  "$PYTHON" ci/gpu/counters.py "$log" || absent "ncu read no counters: $(grep -m 1 '^==ERROR==' "$log" || tail -n 1 "$log")"
  return "$status"
}

case $1 in
  machine) machine >&2 ;;
  doctor) doctor ;;
  contract) tests "contract::$vendor" --skip "contract::$vendor::collectives" ;;
  collectives-contract) tests "contract::$vendor::collectives" ;;
  parity-matrix-units) tests "parity::${vendor}_staged::matrix_units" ;;
  parity) tests "parity::$vendor::" ;;
  parity-staged) tests "parity::${vendor}_staged::" --skip matrix_units ;;
  epilogues | ways-to-matmuls | recorded-work)
    declare -A modules=([epilogues]=epilogues [ways-to-matmuls]=tuning [recorded-work]=graph)
    tests "${modules[$1]}"
    ;;
  nccl-shares-a-device) shared ;;
  memcheck | racecheck) sanitized "$1" ;;
  gemm) program bench gemm --precision bf16 "${matmul[@]}" --matmul-choices "$GPU_WORK/gemm-matmuls.txt" --json ;;
  kernels) program bench kernels --precision bf16 "${matmul[@]}" "${heads[@]}" --json ;;
  collectives-staged) program bench collectives --ranks 2 --collectives staged "${messages[@]}" --json ;;
  collectives)
    [ "$("$PYTHON" ci/gpu/needs.py "$vendor" < "$GPU_WORK/doctor.txt")" -gt 1 ] || absent 'one device here, needs two'
    program bench collectives --ranks 2 "${messages[@]}" --json
    ;;
  step-1.3b) step "${large[@]}" ;;
  step-1.3b-timed-matmuls)
    step "${large[@]}" --matmul-choices "$GPU_WORK/matmuls.txt"
    cat "$GPU_WORK/matmuls.txt" >&2
    ;;
  step-1.3b-separate) step "${large[@]}" --epilogues separate ;;
  step-124m) step "${small[@]}" ;;
  step-124m-graph) step "${small[@]}" --graph ;;
  step-tiny) step "${tiny[@]}" ;;
  step-tiny-graph) step "${tiny[@]}" --graph ;;
  torch-gemm) torch matmuls "${large[@]}" ;;
  torch-attention) torch attention "${large[@]}" ;;
  torch-step-1.3b-eager) torch step "${large[@]}" ;;
  torch-step-1.3b-compiled) torch step "${large[@]}" --compile ;;
  torch-step-124m-eager) torch step "${small[@]}" ;;
  torch-step-124m-compiled) torch step "${small[@]}" --compile ;;
  kernel-counters) counters ;;
  *) printf 'gpu: no phase %s\n' "$1" >&2; exit 2 ;;
esac
