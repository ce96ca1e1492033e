#!/usr/bin/env bash
# Rehearses ci/gpu.sh on the emulator: what it reports where something is missing or fails, and what it leaves when its
# budget ends or it is killed at a random second.
#
# Usage: ci/gpu-rehearse.sh           takes under a minute after ci/emulator.sh, whose builds it uses
#        ci/gpu-rehearse.sh --full    all phases of both calls for both vendors, too
# GPU_SEED repeats the seconds of an earlier run; FASCICLE_KIT names a kit to use as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { printf 'gpu-rehearse: %s\n' "$1" >&2; tail -n 40 "$dir/log" >&2; exit 1; }
seed=${GPU_SEED:-$RANDOM}
RANDOM=$seed
export TMPDIR=$dir

mkdir "$dir/tools"
# The programs of ci/emulator.sh serve as the kit.
if [ -z "${FASCICLE_KIT:-}" ]; then
  source ci/workspace.sh
  tests=$(build_workspace | executable vendors)
  mkdir "$dir/kit"
  ln -s "$tests" "$dir/kit/gpu-tests"
  ln -s "$fascicle" "$dir/kit/fascicle"
  export FASCICLE_KIT=$dir/kit FASCICLE_EMULATOR_DIR=$target/emulator
fi
export FASCICLE_EMULATOR_DIR=${FASCICLE_EMULATOR_DIR:-$PWD/target/gpu-emulator}

# Runs ci/gpu.sh, which must end with a status, and then checks what it has left.
rehearse() {
  local what=$1 needed=$2 status=0 start=$SECONDS
  shift 2
  local expected=()
  while [ "$1" != -- ]; do expected+=("$1"); shift; done
  bash ci/gpu.sh --rehearse "${@:2}" "$dir/out" > "$dir/log" 2>&1 || status=$?
  [ "$status" -eq "$needed" ] || fail "$what: status $status, needs $needed"
  python3 ci/gpu/consistent.py "$dir/out" "${expected[@]}" >> "$dir/log" 2>&1 || fail "$what"
  printf 'gpu-rehearse: %s: as it should be, in %s s\n' "$what" $((SECONDS - start))
}

# A Python whose PyTorch answers at once, and one without PyTorch.
real=$(command -v python3)
cat > "$dir/tools/fast-torch" << END
#!/bin/sh
case \$1 in
  ci/peers/gpu.py) echo '{"peer":"torch","step_s":1000000.0}' ;;
  *) exec "$real" "\$@" ;;
esac
END
cat > "$dir/tools/no-torch" << END
#!/bin/sh
exec "$real" -S "\$@"
END
# A memory checker that the machine refuses, or that finds a fault of a kernel.
cat > "$dir/tools/compute-sanitizer" << 'END'
#!/bin/sh
[ "$1" = --version ] && exit
case $SANITIZER in
  refused) echo '========= COMPUTE-SANITIZER'; echo '========= Error: Device not supported'; exit 1 ;;
  broken) exit 139 ;;
  faulty)
    echo '========= Invalid __global__ write of size 4 bytes'
    echo '=========     at fascicle_fill_4(Fill)+0x70'
    echo '========= ERROR SUMMARY: 1 error'
    exit 9
    ;;
esac
END
chmod +x "$dir"/tools/*
export PATH=$dir/tools:$PATH

few=machine,epilogues,collectives-contract,memcheck,step-124m,torch-step-124m-eager
export PYTHON=$dir/tools/fast-torch
SANITIZER=refused rehearse 'a machine without counters or a memory checker' 0 ended=finished machine=passed doctor=measured \
  epilogues=passed memcheck='not here' step-124m=measured torch-step-124m-eager=measured kernel-counters='not here' \
  -- --only "$few,kernel-counters"
grep -q "step-124m: time, of eager PyTorch's: 0.000, needs at most 0.85: met" "$dir/log" || fail 'no target is met'
grep -q "step-1.3b: time, of eager PyTorch's: not measured" "$dir/log" || fail 'a target seems measured'
export PYTHON=$dir/tools/no-torch
SANITIZER=faulty rehearse 'a kernel that writes elsewhere' 1 ended=finished memcheck=failed torch-step-124m-eager='not here' \
  -- --only memcheck,torch-step-124m-eager
SANITIZER=broken rehearse 'a memory checker that crashes' 0 memcheck='not here' -- --only memcheck
export PYTHON=$real

# Libraries as a container has them: the driver in a folder of its own, the others in Python's packages, or not at all.
libraries=$(ls -td "$FASCICLE_EMULATOR_DIR"/*/cuda-13-hip-6.4 | head -n 1)
packages=$dir/python/lib/python3.12/site-packages/nvidia/cu13/lib
mkdir -p "$dir/driver" "$packages" "$dir/python/bin"
ln -s "$libraries"/lib{cuda.so.1,fascicle_emulator_cuda.so} "$dir/driver/"
export FASCICLE_CUDA_PATH=$dir/driver
rehearse 'no cuBLAS' 1 doctor=failed epilogues='not reached' -- --only epilogues
grep -q 'doctor .*failed.*cuBLAS not found: tried libcublas.so.13' "$dir/log" || fail 'no cuBLAS: no sentence'
ln -s "$libraries"/lib{cublas.so.13,cublasLt.so.13,nccl.so.2,fascicle_emulator_cuda.so} "$packages/"
PATH=$dir/python/bin:$PATH rehearse 'libraries of PyTorch' 0 epilogues=passed -- --only epilogues
grep -q "opened .*$packages/libcublas.so.13" "$dir/out/results.json" || fail 'the doctor does not name the files of PyTorch'
unset FASCICLE_CUDA_PATH

rehearse 'a budget that ends' 0 ended='the budget of 3 s is spent' parity-staged='not reached' \
  -- --budget 3 --only contract,recorded-work,parity-matrix-units,parity-staged

# Killed at a random moment after it has begun, as a machine that is taken away kills it, or with a warning.
for signal in KILL TERM KILL TERM; do
  rm -rf "$dir/out"
  setsid bash ci/gpu.sh --rehearse --only contract,collectives-contract,epilogues,gemm,recorded-work "$dir/out" > "$dir/log" 2>&1 &
  script=$!
  until [ -e "$dir/out/results.json" ]; do
    kill -0 "$script" 2> /dev/null || fail 'the script ended before it wrote results'
    sleep 0.05
  done
  after=$((RANDOM % 8)).$((RANDOM % 10))
  sleep "$after"
  kill -s "$signal" "$script" 2> /dev/null || true
  status=0
  for ((wait = 0; wait < 1200; wait++)); do
    kill -0 "$script" 2> /dev/null || break
    sleep 0.05
  done
  if kill -0 "$script" 2> /dev/null; then
    ps -e --forest -o pid,sid,stat,wchan:20,args >&2
    pkill -KILL -s "$script"
    fail "SIG$signal after $after s did not end the script within 60 s (GPU_SEED=$seed)"
  fi
  wait "$script" 2> /dev/null || status=$?
  # What the script had started.
  pkill -KILL -s "$script" || true
  rm -rf "$dir"/tmp.*
  python3 ci/gpu/consistent.py "$dir/out" >> "$dir/log" 2>&1 || fail "SIG$signal after $after s (GPU_SEED=$seed)"
  printf 'gpu-rehearse: SIG%s after %s s: status %s, results complete (GPU_SEED=%s)\n' "$signal" "$after" "$status" "$seed"
done

[ "${1:-}" = --full ] || exit 0
for vendor in cuda rocm; do
  for call in a b; do
    FASCICLE_VENDOR=$vendor rehearse "$vendor, call $call" 0 ended=finished doctor=measured -- --call "$call"
  done
done
