#!/usr/bin/env bash
# A run killed at random moments while it writes checkpoints always leaves the last complete one loadable, and can
# be resumed.
set -euo pipefail
fascicle=$PWD/target/release/fascicle
rounds=${1:-50}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >"$dir/text.txt"
"$fascicle" train --data "$dir/text.txt" --grid x=2,z=2 --steps 1 --batch 4 --micro-batches 1 --out "$dir/run" \
  --set model.hidden=64 --set model.layers=2 --set model.heads=2 --set model.context=16 \
  --set training.checkpoint_every=1 --set training.validation_batches=1 >"$dir/log" 2>&1
steps=1
for round in $(seq "$rounds"); do
  "$fascicle" train --resume "$dir/run" --steps 1000000 >"$dir/log" 2>&1 &
  job=$!
  sleep "0.$((RANDOM % 35 + 10))"
  kill -9 "$job"
  wait "$job" 2>/dev/null || true
  "$fascicle" checkpoint verify "$dir/run" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
  now=$(ls -d "$dir"/run/checkpoints/step-* | tail -n 1 | grep -oE '[0-9]+$' | sed 's/^0*//')
  [ "$now" -ge "$steps" ] || { printf 'round %s: fell back from step %s to %s\n' "$round" "$steps" "$now" >&2; exit 1; }
  steps=$now
done
[ "$steps" -gt 1 ] || { printf 'no step was ever completed in %s rounds\n' "$rounds" >&2; exit 1; }
printf 'killed %s times; the last whole checkpoint, of step %s, loads\n' "$rounds" "$steps"
