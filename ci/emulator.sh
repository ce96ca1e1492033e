#!/usr/bin/env bash
# Checks of the CUDA and ROCm vendors on the emulator beyond ci/test.sh: another generation of the vendors' libraries,
# delayed streams, a failure in each call, and the program itself.
#
# Usage: ci/emulator.sh            takes a few minutes after ci/test.sh, whose builds it uses
#        ci/emulator.sh --full     every generation, more delayed streams, parity of staged collectives, more of the same bits
#        ci/emulator.sh --all      as --full, and training runs on every grid of 1, 2, 4 and 8 ranks, of all types for bits
set -euo pipefail
cd "$(dirname "$0")/.."
export FASCICLE_REQUIRE=emulator
parity=(parity together ending) seeds=(1)
bits=(bits::cuda::llama_in_bf16 bits::cuda::matrix_units_in_bf16 bits::cuda::every_number_of_micro_batches bits::rocm::gpt2_in_f32 bits::rocm_staged::three_ranks bits::rocm::spread_vectors)
case "${1:-}" in
  # Both vendors share all code but their calls and kernels.
  '')
    full=false
    parity+=(--skip staged --skip rocm::every_schedule --skip rocm::gpt2_in_f32 --skip rocm::packed_documents)
    parity+=(--skip rocm::tokens_over_context --skip cuda::spread_vectors --skip cuda::state_beyond_the_device)
    ;;
  --full) full=true seeds=(1 2 3) bits=(bits) ;;
  --all) full=true seeds=(1 2 3) bits=(bits); export FASCICLE_PARITY=all FASCICLE_BITS=all ;;
  *) printf 'emulator: found %s, needs --full, --all or nothing\n' "$1" >&2; exit 2 ;;
esac

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { printf 'emulator: %s\n' "$1" >&2; [ -f "$dir/log" ] && tail -n 40 "$dir/log" >&2; exit 1; }

source ci/workspace.sh
build_workspace > "$dir/built"
tests=$(executable vendors < "$dir/built")
failures=$(executable vendors_failing < "$dir/built")

# Runs some of the tests; a skipped test would report it.
check() {
  local what=$1
  shift
  local start=$SECONDS
  "$tests" "$@" --nocapture > "$dir/log" 2>&1 || fail "$what"
  if grep -q '^skipped' "$dir/log"; then fail "$what: skipped"; fi
  if grep -q 'nothing orders' "$dir/log"; then fail "$what: accesses without an order"; fi
  printf 'emulator: %s: %s in %s s\n' "$what" "$(grep -o '[0-9]* passed' "$dir/log")" $((SECONDS - start))
}

FASCICLE_EMULATOR_CUDA=12 FASCICLE_EMULATOR_HIP=5.7 check 'contract, CUDA 12, HIP 5.7' contract
for seed in "${seeds[@]}"; do FASCICLE_EMULATOR_DELAY=$seed check "contract, late streams $seed" contract; done
check 'parity and failures of ranks' "${parity[@]}"
check 'the same bits on every grid' "${bits[@]}"
# One test at a time: tests that share a device's queues wait for each other.
CUDA_DEVICE_MAX_CONNECTIONS=8 GPU_MAX_HW_QUEUES=4 FASCICLE_EMULATOR_RESIDENT=8 \
  check "as many queues as devices have" parity::cuda::gpt2 parity::rocm::gpt2 --test-threads=1
# The fewest queues with which pipelines run; ROCm's variable counts for ROCm alone. Beside that, whatever may wait for the device does.
CUDA_DEVICE_MAX_CONNECTIONS=2 GPU_MAX_HW_QUEUES=2 CUDA_MODULE_LOADING=EAGER FASCICLE_EMULATOR_WAITS=allocate,load,pin,free \
  check 'every schedule with two queues, and calls that wait' parity::cuda::every_schedule parity::rocm::every_schedule --test-threads=1
if $full; then
  for queues in 3 5; do
    CUDA_DEVICE_MAX_CONNECTIONS=$queues GPU_MAX_HW_QUEUES=$queues \
      check "every schedule with $queues queues" every_schedule --test-threads=1
  done
  check 'contract, CUDA 13, HIP 6.4' contract
  FASCICLE_EMULATOR_HIP=7.1 check 'contract, HIP 7.1' contract::rocm
  FASCICLE_EMULATOR_DELAY=4 check 'both vendors, late streams' together
fi
"$failures" > "$dir/log" 2>&1 || fail 'a failing call'
printf 'emulator: each call of both vendors fails well\n'

# The program: its report of vendors, training, and how it ends without a device.
folder=$(ls -td "$target"/emulator/*/cuda-13-hip-6.4 | head -n 1)
export FASCICLE_CUDA_PATH=$folder FASCICLE_CUDA_OBJECT=$folder/kernels.image
export FASCICLE_ROCM_PATH=$folder FASCICLE_ROCM_OBJECT=$folder/kernels.image
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
    train --vendor "$vendor" --out "$dir/$vendor-$collectives" \
      --set device.matmul_choices="$dir/$vendor.txt" --set device.collectives=$collectives
    grep -q "collectives = \"$collectives\"" "$dir/$vendor-$collectives/config.toml" || fail "$collectives is not recorded"
    grep -q ' as-stored$\| turn-[ab]$\| algorithm-[1-8]$' "$dir/$vendor.txt" || fail "$vendor: no GEMM variants were written"
    case $collectives in library) by='by [NR]CCL 2' ;; staged) by='by staged copies' ;; esac
    grep -q "device .*$vendor: .*collectives $by" "$dir/log" || fail "the report does not say: collectives $by"
    [ "$(losses "$dir/$vendor-$collectives")" = "$(losses "$dir/cpu")" ] || fail "$vendor, $collectives: other losses"
  done
  train --vendor "$vendor" --grid x=1 --set training.graph=true --out "$dir/$vendor-graph"
  [ "$(losses "$dir/$vendor-graph")" = "$(losses "$dir/cpu")" ] || fail "$vendor, recorded steps: other losses"
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

# A program that uses the library chooses the devices named for it.
for vendor in cuda rocm; do
  FASCICLE_VENDOR=$vendor "$target/examples/05_tensor_parallel" > "$dir/log" 2>&1 || fail "launch on $vendor"
  status=0
  FASCICLE_VENDOR=$vendor FASCICLE_EMULATOR_DEVICES=0 "$target/examples/05_tensor_parallel" \
    > "$dir/log" 2>&1 || status=$?
  [ "$status" -eq 1 ] && grep -q 'no device' "$dir/log" || fail "launch on $vendor without a device: status $status"
done
printf 'emulator: the library launches ranks on both vendors\n'
