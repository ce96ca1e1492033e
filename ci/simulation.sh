#!/usr/bin/env bash
# Runs whole jobs under a scheduler, a clock, a disk and faults that seeds decide (crates/simulation), on all processors.
#
# Usage: ci/simulation.sh [SEEDS]    that many scenarios, 400 if not given
#        ci/simulation.sh faults     plants faults in a copy of the sources, and expects scenarios to find each
#
# FASCICLE_SEED=S begins with seed S: `FASCICLE_SEED=S ci/simulation.sh 1` repeats one scenario.
set -euo pipefail
cd "$(dirname "$0")/.."
# The flag makes hal::sync what a scheduler decides, so these builds are in a folder of their own. Assertions stay on.
export RUSTFLAGS="${RUSTFLAGS:-} --cfg fascicle_simulated" CARGO_INCREMENTAL=0 RUST_BACKTRACE=0
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true
# A plain build takes a third of the time, and few scenarios run hardly longer: 400 for 16 s instead of 10.
profile=() plainest=2000
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/simulated
# Checkpoints are written to memory: what a power cut takes is decided by a model, not by this machine.
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm
# A process runs so many scenarios: ranks that are killed leave their threads behind.
batch=200

# build: prints the program of the scenarios.
build() {
  cargo test --quiet "${profile[@]}" -p fascicle-simulation --test jobs --no-run --message-format=json |
    sed -nE 's/.*"name":"jobs".*"executable":"([^"]+)".*/\1/p'
}

# scenarios PROGRAM FIRST NUMBER PROCESSOR: in one process, on one processor, so that no turn wakes up another processor.
scenarios() {
  FASCICLE_SEED=$2 FASCICLE_SIMULATIONS=$3 taskset -c "$4" timeout 600 "$1" --exact jobs_end_as_they_should --nocapture 2>&1
}

if [ "${1:-}" = faults ]; then
  profile=(--release)
  source ci/simulation/faults.sh
  exit
fi
number=${1:-400} first=${FASCICLE_SEED:-0}
[[ $number =~ ^[0-9]+$ ]] || { printf 'simulation: found `%s`, needs a number or faults\n' "$number" >&2; exit 2; }
if [ "$number" -gt $plainest ]; then profile=(--release); fi
export CARGO_TARGET_DIR=$target
program=$(build)
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
if [ "$number" -gt 20 ]; then
  taskset -c 0 "$program" --quiet --exact a_seed_repeats_its_schedule > "$log/repeat" 2>&1 || { cat "$log/repeat"; exit 1; }
fi
begun=$SECONDS
# Processor P runs every n-th batch.
processors=$(nproc)
for ((p = 0; p < processors; p++)); do
  (
    for ((at = p * batch; at < number; at += processors * batch)); do
      some=$((number - at < batch ? number - at : batch))
      scenarios "$program" $((first + at)) $some "$p" > "$log/$at" || touch "$log/failed"
    done
  ) &
done
wait
if [ -e "$log/failed" ]; then
  grep -hE 'FASCICLE_SEED=|leaves a lock|panicked|SIGSEGV' "$log"/[0-9]* | grep -v planned | head -20
  exit 1
fi
# What one seed means, and the hash of its schedule.
[ "$number" != 1 ] || sed -nE 's/.*([0-9]+ ranks, .*trace)/\1/p' "$log/0"
# The sums of what all processes have counted.
counts=$(sed -n 's/.*simulations: //p' "$log"/[0-9]* | tr ' ' '\n' | grep -v '^seconds=' |
  awk -F= '{ sum[$1] += $2 } END { for (name in sum) printf "%s=%d\n", name, sum[name] }' | sort | tr '\n' ' ')
printf 'simulations: %sseconds=%s\n' "$counts" $((SECONDS - begun))
