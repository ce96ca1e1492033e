#!/usr/bin/env bash
# The time from one step to the next of a run without checkpoints, with one behind each step, with one in each step, and with a
# local one in /dev/shm behind each step: medians of runs in turn.
#
# Usage: ci/bench-checkpoints.sh [ROUNDS] [STEPS] [FLAGS OF `fascicle train`]
set -euo pipefail
fascicle=$PWD/target/release/fascicle
rounds=${1:-3} steps=${2:-12}
shift $(($# < 2 ? $# : 2))
flags=("$@")
[ ${#flags[@]} -gt 0 ] || flags=(--grid x=1 --batch 8 --micro-batches 1 --set model.layers=2 --set model.hidden=512 --set model.heads=8
  --set model.context=256)
dir=$(mktemp -d -p "${BENCH_DIR:-/tmp}")
near=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$dir" "$near"' EXIT
# The times at which the records of steps appear, from the second on: the first step tunes and allocates.
intervals() {
  local run=$1 last= now
  mkdir -p "$run" && : >"$dir/times"
  "$fascicle" train "${flags[@]}" --steps "$steps" --out "$run" --set training.validate_every=0 \
    --set training.validation_batches=1 --set training.checkpoint_every="$2" --set training.checkpoint_async="$3" \
    --set training.keep_checkpoints=1 --set training.local_checkpoint_every="$5" \
    --set training.local_checkpoint_dir="'$near'" >"$dir/log" 2>&1 &
  local job=$!
  until [ -e "$run/metrics.jsonl" ]; do kill -0 "$job" && sleep 0.05 || { cat "$dir/log" >&2; exit 1; }; done
  tail -f -n +1 --pid "$job" "$run/metrics.jsonl" | while read -r _; do
    now=$(date +%s%N)
    [ -z "$last" ] || printf '%s\n' $(((now - last) / 1000)) >>"$dir/times"
    last=$now
  done
  wait "$job" || { cat "$dir/log" >&2; exit 1; }
  sed '1d' "$dir/times" >>"$dir/$4"
  grep -oE 'for which training waited.*' "$dir/log" >>"$dir/$4.waits" || true
  du -sm "$run/checkpoints" | cut -f 1 >"$dir/mib"
  rm -rf "$run"
}
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2000 }'; }
for round in $(seq "$rounds"); do
  intervals "$dir/run" 0 true none 0
  intervals "$dir/run" 1 true behind 0
  intervals "$dir/run" 1 false waiting 0
  intervals "$dir/run" 0 true local 1
done
printf '%s rounds of %s steps; a checkpoint has %s MiB\n' "$rounds" "$steps" "$(cat "$dir/mib")"
for mode in none behind waiting local; do
  printf '%-8s median %8.1f ms per step, %s steps, %s waits of 0.1 s or more\n' "$mode" "$(median "$dir/$mode")" \
    "$(wc -l <"$dir/$mode")" "$(wc -l <"$dir/$mode.waits")"
done
awk -v a="$(median "$dir/none")" -v b="$(median "$dir/behind")" -v c="$(median "$dir/waiting")" -v d="$(median "$dir/local")" \
  'BEGIN { printf "behind / none %.3f, waiting / none %.3f, local / none %.3f\n", b / a, c / a, d / a }'
