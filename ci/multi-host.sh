#!/usr/bin/env bash
# Training across hosts gives the losses of one host. If a host's link is cut, the job ends and can be resumed on
# one host. `--slow` instead measures the benefit of the order of axes for hosts with a slow link, and compares it
# with the prediction.
set -euo pipefail
source ci/workspace.sh
source ci/hosts.sh
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; hosts_down; rm -rf "$dir"' EXIT
hosts_try
build_workspace > /dev/null
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

# A host behind a slow link is found, named with its numbers, and left out of a supervised run.
ip netns exec "$hosts_name-4" tc qdisc replace dev net root tbf rate 40mbit burst 32kb latency 2s
hosts_run 3 1 "$fascicle" doctor --nodes --within 0.1 >"$dir/log" 2>&1 || fail 'equal hosts are not equal'
status=0
hosts_run 4 1 "$fascicle" doctor --nodes --within 0.3 >"$dir/log" 2>&1 || status=$?
[ "$status" -eq 1 ] || fail "a slow host: status $status"
grep -qE "slow: $hosts_name-4: all 3 links, [0-9.]+ GB/s and less, the median is" "$dir/log" || fail 'a slow host is not named'
hosts_mpirun '{hosts}' '{ranks}'
hosts_first "$fascicle" supervise --hosts "$hosts_name-1,$hosts_net.2,$hosts_net.3,$hosts_net.4" --ranks-per-host 1 --screen 0.3 -- \
  "${launch[@]}" "$fascicle" train --steps 10 --out "$dir/screened" --auto-resume "${small[@]}" >"$dir/log" 2>&1 ||
  fail "a screened run: status $?"
grep -q "supervise: $hosts_net.4 is left out: slower than 0.3" "$dir/log" || fail 'a slow host is not left out'
ip netns exec "$hosts_name-4" tc qdisc del dev net root
printf 'multi-host: a slow host is named and left out\n'

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
ip -n "$hosts_name-2" link set net up

# A supervised run goes on when a host is lost, and on other hosts when their list changes: with every step once, and the
# weights of a run that nothing disturbed. It goes on from the local checkpoints of its hosts, of which the lost one's are lost.
printf '%s\n' "$hosts_name-1" "$hosts_net.2" >"$dir/hosts"
hosts_mpirun '{hosts}' '{ranks}'
hosts_first "$fascicle" supervise --hosts-file "$dir/hosts" --ranks-per-host 2 --probe 20 -- "${launch[@]}" \
  "$fascicle" train --steps 600 --out "$dir/kept" --auto-resume --timeout 3 "${small[@]}" --set training.checkpoint_every=100 \
  --set training.local_checkpoint_every=1 --set training.local_checkpoint_dir="'$dir/near'" >"$dir/log" 2>&1 &
job=$!
# Waits for the n-th start, and for its first checkpoint.
started() {
  local before
  for _ in $(seq 400); do [ "$(grep -c '"event":"start"' "$dir/kept/supervise.jsonl" 2>/dev/null)" = "$1" ] && break || sleep 0.1; done
  before=$(ls "$dir/kept/checkpoints" 2>/dev/null | tail -n 1)
  for _ in $(seq 400); do [ "$(ls "$dir/kept/checkpoints" 2>/dev/null | tail -n 1)" != "$before" ] && return || sleep 0.1; done
  fail "start $1 of a supervised run leaves no checkpoint"
}
started 1
# Its hosts have a newer one than the run.
for _ in $(seq 400); do compgen -G "$dir/near/*/node-00000/step-000001[1-9]?" >/dev/null && break || sleep 0.05; done
ip -n "$hosts_name-2" link set net down
rm -rf "$dir"/near/*/node-00001
started 2
# The run says so once the checkpoint is in its folder, which is what `started` sees.
for _ in $(seq 100); do grep -q 'the nodes have kept a checkpoint of step' "$dir/log" && break || sleep 0.1; done
grep -q 'the nodes have kept a checkpoint of step' "$dir/log" || fail 'a supervised run: no local checkpoint was used'
grep -q "supervise: $hosts_net.2 is left out: no report" "$dir/log" || fail 'a supervisor does not say which host is lost'
printf '%s\n' "$hosts_name-1" "$hosts_net.3" >"$dir/hosts"
started 3
status=0
wait "$job" || status=$?
[ "$status" -eq 0 ] || fail "a supervised run: status $status"
rows=$(grep -oE '"step":[0-9]+' "$dir/kept/metrics.jsonl")
[ "$rows" = "$(seq -f '"step":%g' 600)" ] || fail 'a supervised run: not every step once'
"$fascicle" train --grid x=1 --steps 600 --out "$dir/alone" "${small[@]}" >"$dir/log" 2>&1
digest() { "$fascicle" checkpoint digest "$dir/$1" 2>/dev/null; }
[ -n "$(digest alone)" ] && [ "$(digest kept)" = "$(digest alone)" ] || fail 'a supervised run: other weights than without a fault'
printf 'multi-host: a supervised run lost a host and moved to another, with the weights of one that lost nothing\n'
ip -n "$hosts_name-2" link set net up

# A host that becomes slow while its run trains is named by the run, and left out.
hosts_mpirun '{hosts}' '{ranks}'
hosts_first "$fascicle" supervise --hosts "$hosts_name-1,$hosts_net.2,$hosts_net.3,$hosts_net.4" --ranks-per-host 1 --exclude-slow -- \
  "${launch[@]}" "$fascicle" train --steps 1000000 --out "$dir/slowed" --auto-resume "${small[@]}" \
  --set training.straggler_every=5 --set training.straggler_below=0.4 >"$dir/log" 2>&1 &
job=$!
for _ in $(seq 300); do [ -n "$(sed -n 3p "$dir/slowed/speeds.jsonl" 2>/dev/null)" ] && break || sleep 0.1; done
for process in $(ip netns pids "$hosts_name-4"); do
  if tr '\0' ' ' <"/proc/$process/cmdline" | grep -q "^$fascicle train"; then victim=$process; fi
done
# The processor belongs to it for a tenth of the time.
python3 - "$victim" <<'P' &
import os, signal, sys, time
try:
    while True:
        for kind, seconds in (signal.SIGSTOP, 0.018), (signal.SIGCONT, 0.002):
            os.kill(int(sys.argv[1]), kind)
            time.sleep(seconds)
except ProcessLookupError:
    pass
P
for _ in $(seq 600); do [ "$(grep -c '"event":"start"' "$dir/slowed/supervise.jsonl" 2>/dev/null)" = 2 ] && break || sleep 0.1; done
grep -qE "warning: after step [0-9]+ rank 3 on $hosts_name-4 is slow" "$dir/log" || fail 'a rank that becomes slow is not named'
grep -q "supervise: $hosts_net.4 is left out: slow in [0-9]* measurements in a row" "$dir/log" || fail 'its host is not left out'
pkill -TERM -f "^$fascicle supervise .*$dir/slowed" || fail 'no supervisor is left'
status=0
wait "$job" || status=$?
[ "$status" -eq 3 ] || fail "a run without its slow host: status $status, needs 3"
printf 'multi-host: a host became slow, was named by the run and left out\n'
