#!/usr/bin/env bash
# Faults injected into small runs of the program, at random moments and places. For each, the report must name the rank or the
# file, the run must end within a bound, no process may be left, every checkpoint must be intact, and the run must resume from its
# newest checkpoint with a record of every step.
#
# Usage: ci/faults.sh [N] [FAULT]...     N of each fault, 3 by default; the functions in ci/faults/ named fault_* list them
#
# Uses target/release/fascicle. What needs mpirun or network namespaces is skipped, and reported, where they are missing.
# RANDOM_SEED=S makes the same choices again, but not the same moments.
set -euo pipefail
cd "$(dirname "$0")/.."
fascicle=$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/fascicle
each=${1:-3}
[[ $each =~ ^[0-9]+$ ]] || { printf 'faults: found `%s`, needs a number of injections\n' "$each" >&2; exit 2; }
shift || true
seed=${RANDOM_SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$seed
# Seconds within which a run has ended after its fault.
bound=20
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_base_warn_component_unused=0
dir=$(mktemp -d)
run=
hosts_down() { :; }
ended() {
  jobs -p | xargs -r kill -KILL 2>/dev/null || true
  hosts_down
  mountpoint -q "$dir/full" && umount "$dir/full"
  rm -rf "$dir"
}
trap ended EXIT
fail() {
  printf 'faults: %s, injection %s of seed %s: %s\n' "$fault" "$round" "$seed" "$1" >&2
  [ ! -f "$dir/log" ] || cat "$dir/log" >&2
  exit 1
}
# A fault that cannot be injected here is reported once.
skip() {
  printf 'faults: %s: skipped: %s\n' "$fault" "$1"
  round=skipped
}
# random LOW HIGH: a number from LOW to HIGH.
random() { echo $(($1 + (RANDOM * 32768 + RANDOM) % ($2 - $1 + 1))); }
pause() { sleep "$(printf '0.%03d' "$(random 0 700)")"; }

for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >"$dir/text.txt"
small=(--data "$dir/text.txt" --batch 4 --micro-batches 1 --set model.hidden=64 --set model.layers=2 --set model.heads=2
  --set model.context=16 --set training.checkpoint_every=1 --set training.validation_batches=1 --set parallel.timeout_s=3)
grids=(x=2,z=2 data=2,pipeline=2 x=2,data=2 y=2,z=2)

# Processes of the current run; a launcher is none.
ranks() { pgrep -f "^$fascicle train .*$run( |\$)" || true; }
checkpoints() { (cd "$run/checkpoints" 2>/dev/null && ls -d step-* 2>/dev/null) || true; }
# The step of the newest checkpoint; 0 before the first.
newest() { checkpoints | tail -n 1 | sed -E 's/^step-0*//' | grep . || echo 0; }
# begin COMMAND...: starts a run, and returns at some moment after its first checkpoint.
begin() {
  "$@" >"$dir/log" 2>&1 &
  job=$!
  for _ in $(seq 300); do [ -n "$(checkpoints)" ] && break || sleep 0.1; done
  [ -n "$(checkpoints)" ] || fail 'no checkpoint was written'
  pause
}
# finish BEGUN: waits for the job, whose status it leaves in `status`, and checks what every fault has to leave.
finish() {
  status=0
  wait "$job" 2>/dev/null || status=$?
  [ $((SECONDS - $1)) -le "$bound" ] || fail "the end took $((SECONDS - $1)) s"
  for _ in $(seq 25); do [ -z "$(ranks)" ] && break || sleep 0.2; done
  [ -z "$(ranks)" ] || fail 'a process was left behind'
}
says() { grep -qE -- "$1" "$dir/log" || fail "the report does not say: $1"; }
# refused STATUS TEXT COMMAND...: ends with the status and the text.
refused() {
  local needed=$1 text=$2
  shift 2
  status=0
  timeout --kill-after=5 "$bound" "$@" >"$dir/log" 2>&1 || status=$?
  [ "$status" -eq "$needed" ] || fail "status $status, needs $needed"
  says "$text"
}
# Every checkpoint is intact, and the newest is at least of step $1.
intact() {
  local name
  for name in $(checkpoints); do
    "$fascicle" checkpoint verify "$run/checkpoints/$name" >"$dir/log" 2>&1 || fail "$name is not intact"
  done
  [ "$(newest)" -ge "$1" ] || fail "fell back from step $1 to $(newest)"
}
# The run continues, with every step recorded once, and leaves no remains.
resumes() {
  local last=$(($(newest) + 2))
  timeout --kill-after=5 60 "$fascicle" train --resume "$run" --steps "$last" "$@" >"$dir/log" 2>&1 || fail 'does not resume'
  says "done: step $last"
  [ "$(grep -oE '"step":[0-9]+' "$run/metrics.jsonl")" = "$(seq -f '"step":%.0f' "$last")" ] || fail 'not every step has one record'
  if compgen -G "$run/checkpoints/.*-step-*" >/dev/null; then fail 'remains are left'; fi
}
# fresh: a new run of six steps, copied from one that was trained once.
fresh() {
  run=$dir/runs/$fault-$round
  mkdir -p "$dir/runs"
  if [ ! -d "$dir/base" ]; then
    "$fascicle" train "${small[@]}" --grid x=2,z=2 --steps 6 --out "$dir/base" >"$dir/log" 2>&1 || fail 'does not train'
  fi
  cp -r "$dir/base" "$run"
}

for source in ci/faults/*.sh; do source "$source"; done
faults=("$@")
[ $# -gt 0 ] || faults=($(declare -F | sed -n 's/^declare -f fault_//p'))
printf 'faults: seed %s\n' "$seed"
total=0
for fault in "${faults[@]}"; do
  begun=$SECONDS done=0
  for round in $(seq "$each"); do
    "fault_$fault"
    rm -rf "$dir/runs"
    [ "$round" != skipped ] || break
    done=$((done + 1))
  done
  total=$((total + done))
  [ "$done" -eq 0 ] || printf 'faults: %s: %s injected in %s s\n' "$fault" "$done" $((SECONDS - begun))
done
printf 'faults: all: %s injected\n' "$total"
