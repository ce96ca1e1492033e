#!/usr/bin/env bash
# The program as processes under mpirun: collectives, parity, examples, overlap, failures, resuming on fewer ranks.
set -euo pipefail
source ci/workspace.sh
built=$(build_workspace)
# A test that needs several processes, and the crate's own.
test=$(executable under_mpirun <<< "$built") unit=$(executable fascicle_mpi <<< "$built")
export test
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
run() { timeout --kill-after=10 90 mpirun -n "$@"; }
fail() { printf 'mpi: %s\n' "$1" >&2; [ -f "$dir/log" ] && cat "$dir/log" >&2; exit 1; }
# Checks that the job's log contains the text, that it ended with the status and in time, and that no process is
# left.
ended() {
  [ "$status" -eq "$1" ] || fail "status $status, needs $1"
  grep -qE "$2" "$dir/log" || fail "the log does not say: $2"
  sleep 0.5
  if pgrep -f "^($fascicle|$test) .*($dir|$how)" >/dev/null; then fail 'a process was left behind'; fi
}

"$unit" --quiet >"$dir/log" 2>&1 || fail 'unit tests'
how=collectives
for ranks in 1 2 3 4; do run "$ranks" "$test" collectives; done
# Messages of a length that splits every collective of this test into many.
run 3 -x FASCICLE_MPI_LONGEST_MESSAGE=1000 "$test" collectives
run 2 "$test" overlap
ci/mpi-parity.sh --quick

# Each example asserts its own result.
for ranks in 2 4; do
  for source in examples/[01]*.rs; do
    name=$(basename "$source" .rs)
    run "$ranks" "$target/examples/$name" >"$dir/log" 2>&1 || fail "$name on $ranks processes: status $?"
  done
done

for how in error panic missing; do
  status=0
  timeout --kill-after=10 20 mpirun -n 3 "$test" "$how" >"$dir/log" 2>&1 || status=$?
  case $how in
    error) ended 1 'rank 2 failed: test: an error, needs none' ;;
    panic) ended 1 'rank 2 failed: panicked at .*a panic of the test' ;;
    missing) ended 1 'rank 0 failed: exchange .*waited 3.* for rank 2' ;;
  esac
done

for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >"$dir/text.txt"
small=(--data "$dir/text.txt" --batch 4 --micro-batches 1 --set model.hidden=64 --set model.layers=2
  --set model.heads=2 --set model.context=16 --set training.checkpoint_every=5 --set training.validation_batches=1)
train() { run "$1" "$fascicle" train "${@:2}"; }

train 4 --grid x=2,z=2 --steps 20 --out "$dir/mpi" "${small[@]}" >"$dir/log" 2>&1 || fail 'x=2,z=2 does not train'
"$fascicle" train --grid x=2,z=2 --steps 20 --out "$dir/threads" "${small[@]}" >"$dir/log" 2>&1
losses() { grep -oE '"loss":[0-9.e-]+' "$1/metrics.jsonl"; }
[ "$(losses "$dir/mpi")" = "$(losses "$dir/threads")" ] || fail 'processes give other losses than threads'

status=0
train 2 --grid data=4 --steps 20 --out "$dir/refused" "${small[@]}" >"$dir/log" 2>&1 || status=$?
ended 2 'found 4, needs 2'
[ "$(grep -c 'found 4, needs 2' "$dir/log")" -eq 1 ] || fail 'said more than once'

# A configuration that states no grid follows the processes; one that does is taken at its word.
printf '[training]\nsteps = 2\n' >"$dir/free.toml"
train 2 "$dir/free.toml" --out "$dir/free" "${small[@]}" >"$dir/log" 2>&1 || fail 'a configuration without a grid does not train'
grep -qE '^grid +.*: 2 ranks' "$dir/log" || fail 'a configuration without a grid does not follow the processes'
printf '[parallel]\ngrid = "x=2,z=2"\n' >"$dir/fixed.toml"
status=0
train 2 "$dir/fixed.toml" --out "$dir/fixed" "${small[@]}" >"$dir/log" 2>&1 || status=$?
ended 2 'found 4, needs 2'

# Threads and processes alike compare calls, even between stages that share a table.
train 4 --grid x=2,pipeline=2 --steps 4 --out "$dir/checked" --set parallel.checked=true --set parallel.timeout_s=20 \
  "${small[@]}" >"$dir/log" 2>&1 || fail 'checked mode does not train'

# A rank is killed, and one is stopped: all end, one reports, and the checkpoint is intact.
for signal in KILL STOP; do
  status=0
  train 4 --grid x=2,z=2 --steps 1000000 --out "$dir/$signal" --set parallel.timeout_s=3 "${small[@]}" \
    >"$dir/log" 2>&1 &
  job=$!
  for _ in $(seq 200); do compgen -G "$dir/$signal/checkpoints/step-????????" >/dev/null && break || sleep 0.1; done
  victim=$(pgrep -f "^$fascicle train .*$dir/$signal" | tail -n 1)
  kill "-$signal" "$victim"
  wait "$job" || status=$?
  [ "$status" -ne 0 ] || fail "SIG$signal: status 0"
  case $signal in
    KILL) ended "$status" "${launcher_says:-"rank [0-3] failed: its process $victim on .* has died"}" ;;
    STOP) ended "$status" 'waited [3-9].* for rank.*rank [0-3] does not answer' ;;
  esac
  "$fascicle" checkpoint verify "$dir/$signal" >"$dir/log" 2>&1 || fail "after SIG$signal no checkpoint is whole"
done

# A process that never joins.
begun=$SECONDS status=0
FASCICLE_MPI_START_TIMEOUT=3 timeout 60 mpirun -n 1 "$fascicle" train --steps 4 "${small[@]}" : \
  -n 1 sh -c 'kill -STOP $$; sleep 100' >"$dir/log" 2>&1 || status=$?
[ "$status" -ne 0 ] && [ $((SECONDS - begun)) -le 20 ] || fail "a process that never joins: status $status after $((SECONDS - begun)) s"
grep -q 'rank 0: after 3 s not all processes have joined MPI' "$dir/log" || fail 'a process that never joins is not named'

# Ranks that were started with other settings or other data.
train 1 --out "$dir/unequal" "${small[@]}" --grid x=2 : -n 1 "$fascicle" train --out "$dir/unequal" "${small[@]}" --grid x=2 --set seed=3 \
  >"$dir/log" 2>&1 && fail 'ranks with other seeds train'
grep -q 'seed: found 3 on rank 1 and 0 on rank 0' "$dir/log" || fail 'the rank with another seed is not named'

# A job that is suspended for longer than its timeout, and continued, has not waited.
train 2 --grid x=2 --steps 1000000 --out "$dir/suspended" --set parallel.timeout_s=2 "${small[@]}" >"$dir/log" 2>&1 &
job=$!
for _ in $(seq 200); do compgen -G "$dir/suspended/checkpoints/step-????????" >/dev/null && break || sleep 0.1; done
ranks=$(pgrep -f "^$fascicle train .*$dir/suspended")
kill -STOP $ranks
sleep 5
kill -CONT $ranks
sleep 2
kill -TERM $(head -n 1 <<<"$ranks")
status=0
wait "$job" || status=$?
[ "$status" -eq 3 ] || fail "suspended and continued: status $status, expected 3"

last=$(ls -d "$dir"/KILL/checkpoints/step-* | tail -n 1 | grep -oE '[0-9]+$' | sed 's/^0*//')
train 2 --resume "$dir/KILL" --grid x=2 --steps $((last + 3)) >"$dir/log" 2>&1 || fail 'does not resume on 2 ranks'
run 2 "$fascicle" generate --checkpoint "$dir/KILL" --prompt 'fn ' --tokens 8 >"$dir/log" 2>&1 || fail 'does not generate'
printf '%s\n' '{"context": "fn", "choices": ["main()", "new()"], "answer": 0}' >"$dir/questions.jsonl"
measured() { "$@" eval --checkpoint "$dir/KILL" --text README.md --tasks "$dir/questions.jsonl" --json 2>"$dir/log" | sed 's/.*"texts"/"texts"/; s/,"seconds".*//'; }
alone=$(measured "$fascicle" --launcher local)
grep -q bits_per_byte <<<"$alone" && [ "$(measured run 2 "$fascicle")" = "$alone" ] || fail 'two ranks do not measure what one does'
run 2 "$fascicle" doctor >"$dir/log" 2>&1 || fail 'no doctor'
grep -q '2 ranks on 1 host' "$dir/log" || fail 'the doctor does not count the ranks'
printf 'mpi: collectives, parity, examples, overlap, failures, resuming: all right\n'
