#!/usr/bin/env bash
# Two runs that train for hours: four ranks as threads, and two as processes. Both save checkpoints behind their steps, keep local
# ones, validate, draw samples and look for stragglers. Memory, open files and threads of each process are read every five seconds, after
# two minutes in which the allocator's arenas fill. From the second quarter of the time to the last, memory may grow by 2 %; files and
# threads may not exceed those of the quarters before.
# At the end the runs are asked to stop, and both checkpoints must be intact.
#
# Argument: for how many seconds (default 7200, at least 60). Needs cargo build --release --features mpi, mpirun, and python3.
set -euo pipefail
seconds=${1:-7200}
[[ $seconds =~ ^[0-9]+$ ]] && [ "$seconds" -ge 60 ] || { printf 'ci/soak.sh: found `%s`, needs 60 seconds or more\n' "$seconds" >&2; exit 2; }
fascicle=$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/fascicle
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
dir=$(mktemp -d)
trap 'pkill -9 -f "^$fascicle train .*$dir/" || true; wait; rm -rf "$dir"' EXIT
fail() { printf 'soak: %s\n' "$1" >&2; tail -n 20 "$dir"/*.log >&2; exit 1; }
for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >"$dir/text.txt"
run=("$fascicle" train --data "$dir/text.txt" --batch 4 --micro-batches 2 --steps 1000000000 --set model.hidden=64 --set model.layers=2
  --set model.heads=2 --set model.context=32 --set training.validation_batches=1 --set training.validate_every=50
  --set training.checkpoint_every=50 --set training.local_checkpoint_every=10 --set training.sample_every=100
  --set training.straggler_every=200)
"${run[@]}" --grid x=2,pipeline=2 --out "$dir/threads" --set training.local_checkpoint_dir="'$dir/near-threads'" >"$dir/threads.log" 2>&1 &
threads=$!
mpirun -n 2 "${run[@]}" --grid z=2 --set parallel.sharding=optimiser --out "$dir/processes" \
  --set training.local_checkpoint_dir="'$dir/near-processes'" >"$dir/processes.log" 2>&1 &
processes=$!
for name in threads processes; do
  for _ in $(seq 600); do compgen -G "$dir/$name/checkpoints/step-????????" >/dev/null && break || sleep 0.1; done
  compgen -G "$dir/$name/checkpoints/step-????????" >/dev/null || fail "$name: no checkpoint"
done

python3 - "$seconds" "$fascicle" "$dir" >"$dir/said" 2>"$dir/watch.log" <<'PYTHON' || fail 'memory, files or threads grow, or a run has ended'
"""Reads what the processes that run argv[2] in the folder argv[3] hold, for argv[1] seconds."""
import os, statistics, sys, time
seconds, program, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]

def processes():
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = open(f"/proc/{process}/cmdline").read().split("\0")
        except OSError:
            continue
        if command[0] == program and "train" in command and any(part.startswith(folder) for part in command):
            found.append(int(process))
    return sorted(found)

def held(process):
    lines = dict(line.split(":", 1) for line in open(f"/proc/{process}/status"))
    return int(lines["VmRSS"].split()[0]) * 1024, len(os.listdir(f"/proc/{process}/fd")), int(lines["Threads"])

def steps(name):
    with open(f"{folder}/{name}/metrics.jsonl", "rb") as file:
        return sum(1 for _ in file)

watched = processes()
assert len(watched) == 3, f"processes {watched}, needs 3"
time.sleep(120)
samples, until = [], time.monotonic() + seconds
while time.monotonic() < until:
    samples.append([held(process) for process in watched])
    print(samples[-1], file=sys.stderr, flush=True)
    time.sleep(5)
assert processes() == watched, f"processes {processes()}, needs {watched}"
quarter = len(samples) // 4
for at, process in enumerate(watched):
    memory, files, threads = zip(*(sample[at] for sample in samples))
    early, late = (statistics.median(part) for part in (memory[quarter : 2 * quarter], memory[-quarter:]))
    said = (f"process {at}: {early / 2**20:.1f} and {late / 2**20:.1f} MiB (medians of the second and last quarter), files "
            f"{max(files[:-quarter])} and {max(files[-quarter:])}, threads {max(threads[:-quarter])} and {max(threads[-quarter:])}")
    print(said)
    assert late <= 1.02 * early, said
    assert max(files[-quarter:]) <= max(files[:-quarter]) and max(threads[-quarter:]) <= max(threads[:-quarter]), said
print(f"soak: processes={len(watched)} samples={len(samples)} seconds={seconds} steps={steps('threads')}+{steps('processes')}")
PYTHON
pkill -TERM -f "^$fascicle train .*$dir/" || fail 'no run is left'
for job in "$threads" "$processes"; do
  status=0
  wait "$job" || status=$?
  [ "$status" -eq 3 ] || fail "status $status after SIGTERM, needs 3"
done
for name in threads processes; do "$fascicle" checkpoint verify "$dir/$name" >"$dir/verify.log" 2>&1 || fail "$name: a checkpoint is damaged"; done
cat "$dir/said"
