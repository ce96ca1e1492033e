#!/usr/bin/env bash
# Makes the pictures of docs/gallery.md again, in docs/gallery/: ci/gallery.sh [scaling] [simulated] [measured] [runs], by default all.
# No check runs this: times that are measured differ from run to run. PROGRAMS names a folder with the built programs, such as
# target/release; without it they are built.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PROGRAMS:-}" ]; then
  cargo build --quiet --release --bin fascicle --example weak_scaling
  PROGRAMS=${CARGO_TARGET_DIR:-target}/release
fi
fascicle() { "$PROGRAMS/fascicle" "$@"; }
out=docs/gallery
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

scaling() {
  for machine in perlmutter frontier alps; do
    "$PROGRAMS/examples/weak_scaling" --simulate --machine $machine --budget 30 --out "$work/scaling"
    cp "$work/scaling/$machine.svg" "$out/weak-scaling-$machine.svg"
  done
}

simulated() {
  fascicle plan --machine frontier --devices 64 --model gpt-5b --batch-tokens 1048576 --grid x=8,pipeline=8 --micro-batches 16 \
    --schedule 1f1b --sequence-parallel yes --budget 1 --trace "$work/step.json"
  python3 ci/gallery/timeline.py "$work/step.json" \
    "GPT 5B on 64 GCDs of Frontier, x=8,pipeline=8, 1f1b: a simulated step" >"$out/step-1f1b.svg"
}

measured() {
  fascicle train --grid x=2,pipeline=2 --steps 6 --trace --out "$work/traced"
  python3 ci/gallery/timeline.py "$work/traced/trace.json" \
    "A small GPT on 4 ranks of a CPU, x=2,pipeline=2: a measured step" >"$out/step-measured.svg"
}

runs() {
  for optimiser in adamw lion muon; do
    fascicle train --grid x=2 --steps 200 --set training.optimiser=$optimiser --out "$work/$optimiser"
  done
  fascicle report "$work"/{adamw,lion,muon} --out "$work/report.html"
  python3 ci/gallery/chart.py "$work/report.html" Loss >"$out/report-loss.svg"
}

for picture in "${@:-scaling simulated measured runs}"; do
  for each in $picture; do
    case $each in
      scaling | simulated | measured | runs) "$each" ;;
      *) printf 'gallery: unknown picture %s; there are scaling, simulated, measured and runs\n' "$each" >&2; exit 1 ;;
    esac
  done
done
