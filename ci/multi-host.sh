#!/usr/bin/env bash
# Training across hosts gives the losses of one host. If a host's link is cut, the job ends and can be resumed on
# one host. `--slow` instead measures the benefit of the order of axes for hosts with a slow link, and compares it
# with the prediction.
set -euo pipefail
source ci/mpi-setup.sh
source ci/hosts.sh
dir=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null; hosts_down; rm -rf "$dir"' EXIT
hosts_try
mpi_build
fail() { printf 'multi-host: %s\n' "$1" >&2; [ -f "$dir/log" ] && cat "$dir/log" >&2; exit 1; }
for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >"$dir/text.txt"
small=(--data "$dir/text.txt" --batch 4 --micro-batches 1 --set model.hidden=64 --set model.layers=2
  --set model.heads=2 --set model.context=16 --set training.checkpoint_every=5 --set training.validation_batches=1)

hosts_up 4
if [ "${1:-}" = --slow ]; then source ci/multi-host-slow.sh; exit; fi

losses() { grep -oE '"loss":[0-9.e-]+' "$1/metrics.jsonl"; }
for case in '2 2 x=2,z=2' '4 1 y=2,data=2' '2 2 pipeline=2,x=2'; do
  read -r hosts ranks grid <<<"$case"
  out=$dir/$hosts-$grid
  hosts_run "$hosts" "$ranks" "$fascicle" train --grid "$grid" --steps 10 --out "$out" "${small[@]}" >"$dir/log" 2>&1 ||
    fail "$grid on $hosts hosts: status $?"
  grep -q "4 ranks on $hosts hosts" "$dir/log" || fail "the report does not count $hosts hosts"
  "$fascicle" train --grid "$grid" --steps 10 --out "$out-threads" "${small[@]}" >"$dir/log" 2>&1
  [ "$(losses "$out")" = "$(losses "$out-threads")" ] || fail "$grid on $hosts hosts: other losses than on one"
  printf 'multi-host: %s on %s hosts: the losses of one host\n' "$grid" "$hosts"
done

# Which axis lies inside a host and which across, with links measured on the spot.
hosts_run 2 2 "$fascicle" train --grid x=2,data=2 --explain "${small[@]}" >"$dir/log" 2>&1 || fail 'does not explain a step'
for said in '^x=2: ranks 0, 1, inside a node$' '^data=2: ranks 0, 2, across 2 nodes$' 'expected times by links measured just now$' \
  '^  all_(reduce|to_all) +gradients .*a ring sends'; do
  grep -qE "$said" "$dir/log" || fail "the explanation does not say: $said"
done

status=0
hosts_run 2 2 "$fascicle" train --grid x=2,z=2 --steps 1000000 --out "$dir/cut" --set parallel.timeout_s=3 "${small[@]}" \
  >"$dir/log" 2>&1 &
job=$!
for _ in $(seq 200); do compgen -G "$dir/cut/checkpoints/step-????????" >/dev/null && break || sleep 0.1; done
begun=$SECONDS
ip -n "$hosts_name-2" link set net down
wait "$job" || status=$?
[ "$status" -ne 0 ] && [ "$status" -ne 124 ] || fail "a cut link: status $status"
[ $((SECONDS - begun)) -le 30 ] || fail "a cut link: the end took $((SECONDS - begun)) s"
grep -qE 'rank [01] failed: .*waited [3-9].* for rank' "$dir/log" || fail 'a cut link: no rank says for whom it waited'
for _ in $(seq 100); do pgrep -f "^$fascicle train .*$dir" >/dev/null || break; sleep 0.2; done
if pgrep -f "^$fascicle train .*$dir" >/dev/null; then fail 'a cut link: processes were left behind'; fi
"$fascicle" checkpoint verify "$dir/cut" >"$dir/log" 2>&1 || fail 'a cut link: no checkpoint is whole'
last=$(ls -d "$dir"/cut/checkpoints/step-* | tail -n 1 | grep -oE '[0-9]+$' | sed 's/^0*//')
timeout --kill-after=10 60 mpirun -n 2 "$fascicle" train --resume "$dir/cut" --grid x=2 --steps $((last + 3)) >"$dir/log" 2>&1 ||
  fail 'does not go on on one host'
printf 'multi-host: a cut link ended the job, and it went on from step %s on one host\n' "$last"
