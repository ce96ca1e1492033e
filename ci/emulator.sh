#!/usr/bin/env bash
# The CUDA and ROCm vendors on the emulator: what ci/test.sh runs of them, on the other generations of the vendors'
# libraries too, with streams that start late, and the program itself.
#
# Usage: ci/emulator.sh [--all]   with --all training runs on every grid of 1, 2, 4 and 8 ranks
set -euo pipefail
cd "$(dirname "$0")/.."
export FASCICLE_REQUIRE=emulator
parity=(parity together)
if [ "${1:-}" = --all ]; then export FASCICLE_PARITY=all; else parity+=(--skip staged); fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { printf 'emulator: %s\n' "$1" >&2; [ -f "$dir/log" ] && tail -n 40 "$dir/log" >&2; exit 1; }

# The same packages as ci/test.sh, so that what it built serves here.
cargo test --workspace --features fascicle/cuda,fascicle/rocm --test vendors --test vendors_failing --no-run \
  --message-format=json-render-diagnostics > "$dir/built"
executable() { grep -oE '"executable":"[^"]*/'"$1"'"' "$dir/built" | tail -n 1 | cut -d '"' -f 4; }
tests=$(executable 'vendors-[0-9a-f]+')
failures=$(executable 'vendors_failing-[0-9a-f]+')
fascicle=$(dirname "$(dirname "$tests")")/fascicle

# Runs some of the tests; one that is skipped would say so.
check() {
  local what=$1
  shift
  local start=$SECONDS
  "$tests" "$@" --nocapture > "$dir/log" 2>&1 || fail "$what"
  if grep -q '^skipped' "$dir/log"; then fail "$what: skipped"; fi
  printf 'emulator: %s: %s in %s s\n' "$what" "$(grep -o '[0-9]* passed' "$dir/log")" $((SECONDS - start))
}

check 'contract, CUDA 13, HIP 6.4' contract
FASCICLE_EMULATOR_CUDA=12 FASCICLE_EMULATOR_HIP=5.7 check 'contract, CUDA 12, HIP 5.7' contract
FASCICLE_EMULATOR_HIP=7.1 check 'contract, HIP 7.1' contract::rocm
for seed in 1 2 3; do FASCICLE_EMULATOR_DELAY=$seed check "contract, late streams $seed" contract; done
check 'parity' "${parity[@]}"
FASCICLE_EMULATOR_DELAY=4 check 'both vendors, late streams' together
"$failures" > "$dir/log" 2>&1 || fail 'a failing call'
printf 'emulator: each call of both vendors fails well\n'

# The program: what it says of vendors, training, and how it ends without a device.
folder=$(ls -td "$(dirname "$fascicle")"/emulator/*/cuda-13-hip-6.4 | head -n 1)
export FASCICLE_CUDA_PATH=$folder FASCICLE_CUDA_OBJECT=$folder/libcuda.so.1
export FASCICLE_ROCM_PATH=$folder FASCICLE_ROCM_OBJECT=$folder/libcuda.so.1
"$fascicle" doctor > "$dir/log"
for word in 'cuda *usable' 'rocm *usable' 'NCCL 2' 'RCCL 2'; do grep -q "$word" "$dir/log" || fail "doctor: no $word"; done
for _ in $(seq 300); do echo 'the quick brown fox jumps over the lazy dog'; done > "$dir/text.txt"
train() {
  "$fascicle" train --data "$dir/text.txt" --grid x=2,z=2 --steps 4 --batch 4 --micro-batches 1 --set model.hidden=64 \
    --set model.layers=2 --set model.heads=2 --set model.context=16 --set training.validation_batches=1 "$@" \
    > "$dir/log" 2>&1 || fail "train $*"
}
losses() { grep -oE '"loss":[0-9]+\.[0-9]{3}' "$1/metrics.jsonl"; }
train --vendor cpu --out "$dir/cpu"
for vendor in cuda rocm; do
  for collectives in library staged; do
    FASCICLE_COLLECTIVES=$collectives train --vendor "$vendor" --out "$dir/$vendor-$collectives"
    case $collectives in library) by='by [NR]CCL 2' ;; staged) by='by staged copies' ;; esac
    grep -q "device .*$vendor: .*collectives $by" "$dir/log" || fail "the report does not say: collectives $by"
    [ "$(losses "$dir/$vendor-$collectives")" = "$(losses "$dir/cpu")" ] || fail "$vendor, $collectives: other losses"
  done
  status=0
  FASCICLE_EMULATOR_DEVICES=0 "$fascicle" bench gemm --vendor "$vendor" > "$dir/log" 2>&1 || status=$?
  [ "$status" -eq 1 ] || fail "no device: status $status, needs 1"
  [ "$(grep -c 'no device' "$dir/log")" -eq 1 ] || fail 'no device: not one sentence'
  status=0
  FASCICLE_EMULATOR_DEVICES=2 "$fascicle" bench collectives --ranks 3 --vendor "$vendor" > "$dir/log" 2>&1 || status=$?
  [ "$status" -eq 1 ] || fail "3 ranks on 2 devices: status $status, needs 1"
  grep -q 'needs device 2' "$dir/log" || fail '3 ranks on 2 devices: the log does not name the device'
done
printf 'emulator: the program trains on both vendors, and ends well without a device\n'
