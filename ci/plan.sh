#!/usr/bin/env bash
# The planner keeps its promises: time, memory, its output, and the errors of its predictions.
set -euo pipefail
source ci/workspace.sh
build_workspace > /dev/null
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

start=$SECONDS
"$target/fascicle" plan --machine frontier --devices 32768 --model gpt-320b --json > "$out/plan.json"
took=$((SECONDS - start))
test "$took" -lt 30 || { printf 'plan for 32768 devices: took %s s, needs less than 30\n' "$took"; exit 1; }
python3 - "$out/plan.json" <<'P'
import json, sys
candidates = json.load(open(sys.argv[1]))["candidates"]
assert candidates, "no candidates"
for candidate in candidates:
    grid = candidate["grid"]
    ranks = grid["x"] * grid["y"] * grid["z"] * grid["data"] * grid["pipeline"]
    assert ranks == 32768, f"{grid}: {ranks} ranks"
    assert 0 < candidate["memory_gib"] <= 64 and 0 < candidate["percent_of_peak"] < 100, candidate
    assert candidate["step_s"] > 0 and candidate["pflops"] > 0, candidate
times = [candidate["step_s"] for candidate in candidates]
assert times == sorted(times), "not the best first"
P
printf 'planned for 32768 devices in %s s\n' "$took"

if "$target/fascicle" plan --machine perlmutter --devices 4 --model gpt-40b --budget 1 > "$out/text" 2> "$out/error"; then
  printf 'gpt-40b on 4 devices of 40 GB: planned, needs to be out of reach\n'; exit 1
fi
grep -Eq 'does not fit 4 devices.*it needs at least [0-9]+' "$out/error" || { cat "$out/error"; exit 1; }

# One simulated step of the 40B model on 4096 devices takes less than 2 s and 500 MB, by the kernel's own
# accounting.
python3 - "$target/fascicle" <<'P'
import resource, subprocess, sys, time
grid = "x=4,y=1,z=16,data=64".split()
command = [sys.argv[1], "plan", "--machine", "perlmutter", "--devices", "4096", "--model", "gpt-40b", "--grid", *grid]
command += ["--order", "x,y,z,data,pipeline", "--micro-batches", "1", "--recompute", "yes", "--settings", "published-axonn"]
begun = time.monotonic()
subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
seconds = time.monotonic() - begun
mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
print(f"one step of gpt-40b on 4096 devices: {seconds:.2f} s, {mb:.0f} MB")
assert seconds < 2 and mb < 500, "needs less than 2 s and 500 MB"
P

"$target/examples/weak_scaling" --report --budget 2
"$target/examples/weak_scaling" --simulate --machine perlmutter --devices 512 --budget 1 --out "$out/points" > /dev/null
for extension in json txt svg png; do test -s "$out/points/perlmutter.$extension"; done
"$target/examples/weak_scaling" --measure --machine laptop --devices 2 --budget 1 --steps 2 --out "$out/points"
