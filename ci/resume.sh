#!/usr/bin/env bash
# What a resumed run refuses, what a folder that is in use refuses, and what signals and full disks leave.
set -euo pipefail
fascicle=${FASCICLE:-$PWD/target/release/fascicle}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
fail() { printf 'FAILED: %s\n' "$1" >&2; cat log >&2; exit 1; }
# ends STATUS TEXT COMMAND...: the command exits with STATUS, and prints TEXT on stderr.
ends() {
  local status=$1 text=$2 found=0
  shift 2
  "$@" >log 2>&1 || found=$?
  [ "$found" -eq "$status" ] || fail "$*: status $found, expected $status"
  grep -qE -- "$text" log || fail "$*: expected to read: $text"
}
# await PATTERN: until a file has a name of this pattern. A fast run prunes a checkpoint before anyone sees it: any will do.
await() { for _ in $(seq 300); do compgen -G "$1" >/dev/null && return || sleep 0.1; done; fail "no $1"; }
for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >text.txt
small=(--batch 4 --micro-batches 1 --set model.hidden=64 --set model.layers=2 --set model.heads=2 --set model.context=16
  --set training.validation_batches=1 --set training.checkpoint_every=4)
begin=("$fascicle" train --data "$dir/text.txt" --grid x=2,z=2 "${small[@]}")
losses() { grep -oE '"loss":[0-9.e-]+' "$1/metrics.jsonl"; }

# One command, queued again and again, gives the losses of one run.
ends 0 'done: step 12' "${begin[@]}" --steps 12 --out whole
ends 0 'done: step 8' "${begin[@]}" --steps 8 --out again --auto-resume --set training.rate_schedule=constant
ends 0 'done: step 12' "${begin[@]}" --steps 12 --out again --auto-resume --set training.rate_schedule=constant
ends 0 '12 of 12 steps are done' "${begin[@]}" --steps 12 --out again --auto-resume --set training.rate_schedule=constant
printf '[model]\nhidden = 32\n[data]\npath = "text.txt"\n' >other.toml
ends 0 'other.toml: not used' "$fascicle" train other.toml --steps 12 --out again --auto-resume
grep -q 'model.hidden = 32' log && ! grep -q 'data.path' log || fail 'what a resumed run does not take of a file'
ends 0 'done: step 12' "${begin[@]}" --steps 12 --out constant --set training.rate_schedule=constant
[ "$(losses again)" = "$(losses constant)" ] || fail 'a run that was queued three times has other losses'

# The checkpoint decides, not config.toml; what would train something else is refused, and nothing is written.
: >whole/config.toml
ends 0 'done: step 13' "$fascicle" train --resume whole --steps 13
ends 2 'a checkpoint of the run' "$fascicle" train --resume whole/checkpoints/step-00000013 --steps 14
grep -q 'hidden = 64' whole/config.toml || fail 'config.toml was not renewed'
cp whole/config.toml before
for change in model.heads=4 model.norm_epsilon=0.1 training.epsilon=0.001 training.optimiser='"sgd"' seed=3; do
  ends 2 "was made with ${change%%=*} = .*, found .*; --allow-changes" "$fascicle" train --resume whole --steps 14 --set "$change"
done
ends 2 'model.layers' "$fascicle" train --resume whole --steps 14 --set model.layers=3
sed 's/lazy/hazy/' text.txt >other.txt
ends 2 'was made with other data: .*; found' "$fascicle" train --resume whole --steps 14 --data other.txt
cmp -s whole/config.toml before || fail 'a refused resume changed config.toml'
mv text.txt moved.txt
ends 0 'done: step 14' "$fascicle" train --resume whole --steps 14 --data moved.txt
ends 0 'done: step 15' "$fascicle" train --resume whole --steps 15 --data other.txt --allow-changes
ends 2 'found no weights/blocks.2' "$fascicle" train --resume whole --steps 16 --set model.layers=3 --allow-changes
mv moved.txt text.txt

# The run's folder may have any name; a path in the configuration is text.
odd=$'odd\xff'
ends 0 'done: step 2' "${begin[@]}" --steps 2 --out "$odd"
ends 0 'done: step 3' "$fascicle" train --resume "$odd" --steps 3
cp text.txt "$odd.txt"
ends 2 'data.path: found ".*needs a path in UTF-8' "$fascicle" train --data "$odd.txt" --steps 2 --out refused

# Nothing of another run, and no configuration that no run wrote, is replaced.
ends 2 'holds a run already' "${begin[@]}" --steps 2 --out whole
mkdir mine && echo '# mine' >mine/config.toml
ends 2 'not the configuration of a run' "${begin[@]}" --steps 2 --out mine
[ "$(cat mine/config.toml)" = '# mine' ] || fail 'a configuration was replaced'

# A signal, even twice and at the child and its group, saves a checkpoint; the run says how it ended.
for signal in USR1 USR2 XCPU TERM HUP; do
  "${begin[@]}" --steps 1000000 --out "on$signal" >job.log 2>&1 &
  job=$!
  await "on$signal/checkpoints/step-????????"
  ends 2 'another program is training' "$fascicle" train --resume "on$signal" --steps 1000001
  kill "-$signal" "$job"
  kill "-$signal" "$job" 2>/dev/null || true
  status=0
  wait "$job" || status=$?
  [ "$status" -eq 3 ] || fail "SIG$signal: status $status, expected 3"
  last=$(tail -n 1 "on$signal/metrics.jsonl" | grep -oE '"step":[0-9]+' | grep -oE '[0-9]+')
  [ -e "on$signal/checkpoints/step-$(printf %08d "$last")" ] || fail "SIG$signal: no checkpoint of step $last"
done

# A supervised run is started again after each kill, ends with its last step, hands signals on, and gives up.
"$fascicle" supervise -- "${begin[@]}" --steps 600 --out kept --auto-resume >job.log 2>&1 &
job=$!
await "kept/checkpoints/step-????????"
pkill -9 -f "^$fascicle train .*--out kept"
status=0
wait "$job" || status=$?
[ "$status" -eq 0 ] || { cat job.log >&2; fail "a supervised run: status $status"; }
[ "$(grep -c '"how":"signal 9"' kept/supervise.jsonl)" -eq 1 ] || fail 'a supervised run: the kill is not recorded'
"$fascicle" supervise -- "${begin[@]}" --steps 1000000 --out told --auto-resume >job.log 2>&1 &
job=$!
await "told/checkpoints/step-????????"
kill -TERM "$job"
status=0
wait "$job" || status=$?
[ "$status" -eq 3 ] || { cat job.log >&2; fail "a supervised run that is asked to stop: status $status"; }
if pgrep -f "^$fascicle train .*--out told" >/dev/null; then fail 'a supervised run was left behind'; fi
"$fascicle" supervise --stall 2 --restarts 0 -- sh -c 'sleep 1000 & wait' fascicle train --out none --auto-resume >job.log 2>&1 &&
  fail 'a supervised run that hangs: status 0'
grep -q 'nothing changed in none for 2 s' job.log || fail 'a supervised run that hangs is not named'
ends 2 'needs --out DIR --auto-resume' "$fascicle" supervise -- "${begin[@]}" --out none
ends 2 'the command is refused, and would be again' "$fascicle" supervise -- "${begin[@]}" --out none --auto-resume --batch 0

# A job that is suspended for longer than its timeout, and continued, has not waited.
"${begin[@]}" --steps 1000000 --out suspended --set parallel.timeout_s=2 >job.log 2>&1 &
job=$!
await "suspended/checkpoints/step-????????"
kill -STOP "$job"
sleep 4
kill -CONT "$job"
sleep 1
kill -TERM "$job"
status=0
wait "$job" || status=$?
[ "$status" -eq 3 ] || { cat job.log >&2; fail "suspended and continued: status $status, expected 3"; }

# Killed before its first checkpoint, a run can be begun again.
"${begin[@]}" --steps 1000000 --out early --set training.checkpoint_every=0 >job.log 2>&1 &
job=$!
await early/metrics.jsonl
kill -9 "$job"
wait "$job" 2>/dev/null || true
ends 2 'before its first checkpoint' "${begin[@]}" --steps 2 --out early
ends 0 'done: step 2' "${begin[@]}" --steps 2 --out early --auto-resume

# Records that cannot be written or read do not end a run.
head -c 20 /dev/zero >>constant/metrics.jsonl && echo >>constant/metrics.jsonl
ends 0 'warning: metrics: .*line 13' "$fascicle" train --resume constant --steps 13
[ -e constant/metrics.jsonl.damaged ] || fail 'damaged records were not set aside'
sed -i 5,6d constant/metrics.jsonl
ends 0 'warning: metrics: .*no record of steps 5 to 6' "$fascicle" train --resume constant --steps 14
rm constant/metrics.jsonl && ln -s /dev/full constant/metrics.jsonl
ends 0 'warning: metrics: ' "$fascicle" train --resume constant --steps 15
[ -e constant/checkpoints/step-00000015 ] || fail 'a full disk under the records lost the checkpoint'
printf 'resume: refusals, locks, signals, records: all right\n'
