#!/usr/bin/env bash
# A run killed at random moments, while it writes a checkpoint behind each step, leaves only complete checkpoints, among them
# the last one and those that stay for ever, and can be resumed; nor does it fall back where the last ones are local. A run whose disk becomes full ends with one sentence and
# leaves the checkpoints before.
set -euo pipefail
fascicle=${FASCICLE:-$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/fascicle}
rounds=${1:-50}
dir=$(mktemp -d)
mounted=
trap '[ -z "$mounted" ] || umount "$mounted"; rm -rf "$dir"' EXIT
fail() { printf 'killed: %s\n' "$1" >&2; cat "$dir/log" >&2; exit 1; }
for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >"$dir/text.txt"
small=(--data "$dir/text.txt" --batch 4 --micro-batches 1 --set model.hidden=64 --set model.layers=2 --set model.heads=2
  --set model.context=16 --set training.checkpoint_every=1 --set training.validation_batches=1)
# The step of the newest checkpoint of a run, of which all are verified, or those from the given step on.
newest() {
  local path step=0
  for path in "$1"/checkpoints/step-*; do
    step=$((10#${path##*-}))
    [ "$step" -lt "${2:-0}" ] || "$fascicle" checkpoint verify "$path" >"$dir/log" 2>&1 || fail "$path is not complete"
  done
  echo "$step"
}

for grid in x=2,z=2 data=2,pipeline=2; do
  run=$dir/$grid steps=1
  "$fascicle" train "${small[@]}" --grid "$grid" --steps 1 --out "$run" --set training.keep_every=20 \
    --set parallel.sharding=optimiser >"$dir/log" 2>&1 || fail "$grid does not train"
  for round in $(seq $((rounds / 2))); do
    "$fascicle" train --resume "$run" --steps 1000000 >"$dir/log" 2>&1 &
    job=$!
    sleep "0.$((RANDOM % 65 + 15))"
    kill -9 "$job"
    wait "$job" 2>/dev/null || true
    now=$(newest "$run" "$steps")
    [ "$now" -ge "$steps" ] || fail "round $round on $grid: fell back from step $steps to $now"
    steps=$now
  done
  [ "$steps" -gt 1 ] || fail "no step was ever completed in $rounds rounds on $grid"
  newest "$run" >"$dir/all"
  for kept in $(seq 20 20 "$steps"); do
    [ -d "$run/checkpoints/step-$(printf %08d "$kept")" ] || fail "$grid: the checkpoint of step $kept is gone"
  done
  printf 'killed %s times on %s: every checkpoint is complete, the last of step %s\n' "$((rounds / 2))" "$grid" "$steps"
done

# Local checkpoints of every step, and none of the run's own but those that are recovered.
run=$dir/local steps=0
"$fascicle" train "${small[@]}" --grid x=2,data=2 --steps 1 --out "$run" >"$dir/log" 2>&1 || fail 'does not train'
for round in $(seq $((rounds / 2))); do
  "$fascicle" train --resume "$run" --steps 1000000 --set training.checkpoint_every=0 --set training.local_checkpoint_every=1 \
    --set training.local_checkpoint_dir="'$dir/near'" >"$dir/log" 2>&1 &
  job=$!
  sleep "0.$((RANDOM % 65 + 15))"
  kill -9 "$job"
  wait "$job" 2>/dev/null || true
  recorded=$(tail -n 1 "$run/metrics.jsonl" | grep -oE '"step":[0-9]+' | grep -oE '[0-9]+')
  "$fascicle" checkpoint recover "$run" >"$dir/log" 2>&1 || fail "round $round: no recovery"
  now=$(newest "$run" "$steps")
  # The checkpoint of a step is written while the next one runs, and the one before until then.
  [ "$now" -ge "$steps" ] && [ "$now" -ge $((recorded - 2)) ] || fail "round $round: recovered step $now, needs $steps and $recorded - 2"
  steps=$now
done
[ "$steps" -gt 1 ] || fail "no local checkpoint was ever completed in $rounds rounds"
printf 'killed %s times with local checkpoints: the last recovered of step %s\n' "$((rounds / 2))" "$steps"

# Room for one checkpoint of this run, not for two.
mkdir "$dir/full"
if mount -t tmpfs -o size=2m tmpfs "$dir/full" 2>"$dir/log"; then
  mounted=$dir/full
  mkdir "$mounted/run"
  status=0
  "$fascicle" train "${small[@]}" --grid x=2 --steps 9 --out "$mounted/run" >"$dir/log" 2>&1 || status=$?
  [ "$status" -eq 1 ] || fail "a full disk: status $status, needs 1"
  grep -qE 'found room for [0-9]+ bytes, needs [0-9]+' "$dir/log" || fail 'a full disk is not named'
  last=$(newest "$mounted/run")
  if compgen -G "$mounted/run/checkpoints/.writing-*" >/dev/null; then fail 'half a checkpoint is left'; fi
  printf 'a full disk ends a run, whose checkpoint of step %s is complete\n' "$last"
else
  printf 'skipped: a full disk, because this user may not mount one (%s)\n' "$(tr '\n' ' ' <"$dir/log")"
fi
