#!/usr/bin/env bash
# Compares simulated steps of the default model with measured ones on this machine, over many grids.
#
# Usage: ci/check-simulator.sh [MACHINE-FILE]   without a file this machine is measured first, for a minute
# Prints both times and their ratio for every grid, the median error and the rank correlation (Spearman). Grids are
# measured in three alternating rounds, and the median counts. This is a benchmark: it needs an idle machine, and is not
# part of ci/test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${FASCICLE:-target/release/fascicle}
[ -x "$program" ] || cargo build --quiet --release
machine=${1:-target/this-machine.toml}
[ -f "$machine" ] || "$program" bench --save "$machine"
config=$(mktemp --suffix .toml)
trap 'rm -f "$config"' EXIT
printf '[model]\nlayers = 4\nhidden = 128\nheads = 8\ncontext = 128\nvocabulary = 256\n' > "$config"
python3 - "$program" "$machine" "$config" <<'P'
import json, math, subprocess, statistics, sys
program, machine, config = sys.argv[1:]
grids = ["x=1", "x=2", "y=2", "z=2", "data=2", "pipeline=2", "x=4", "z=4", "data=4", "x=2,y=2", "x=2,z=2", "z=2,data=2",
         "pipeline=4", "x=2,pipeline=2", "x=2,y=2,z=2", "x=2,z=2,pipeline=2", "z=2,data=4", "data=8", "x=8"]

def run(*arguments):
    out = subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])

def measured(grid):
    line = run("bench", "step", "--layers", "4", "--hidden", "128", "--heads", "8", "--context", "128", "--vocabulary", "256",
               "--batch", "16", "--tied", "--micro-batches", "2", "--grid", grid, "--steps", "15", "--json")
    return line["step_s"]

def simulated(grid):
    ranks = math.prod(int(part.split("=")[1]) for part in grid.split(","))
    plan = run("plan", "--machine", machine, "--devices", str(ranks), "--model", config, "--precision", "f32",
               "--batch-tokens", "2048", "--grid", grid, "--micro-batches", "2", "--recompute", "no",
               "--sharded-optimiser", "no", "--keep-gathered", "no", "--schedule", "1f1b",
               "--order", "x,y,z,pipeline,data", "--json")
    return plan["candidates"][0]["step_s"]

def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    places = [0] * len(values)
    for place, index in enumerate(order):
        places[index] = place
    return places

rounds = [{grid: measured(grid) for grid in grids} for _ in range(3)]
rows = [(grid, statistics.median(times[grid] for times in rounds), simulated(grid)) for grid in grids]
errors = []
for grid, real, simulated_s in rows:
    error = simulated_s / real - 1
    errors.append(abs(error))
    print(f"{grid:<22} measured {1e3 * real:8.2f} ms   simulated {1e3 * simulated_s:8.2f} ms   {100 * error:+6.1f} %")
a, b = ranks([row[1] for row in rows]), ranks([row[2] for row in rows])
n = len(rows)
spearman = 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b)) / (n * (n * n - 1))
print(f"{n} grids: median error {100 * statistics.median(errors):.1f} %, rank correlation {spearman:.3f}")
P
