#!/usr/bin/env bash
# Runs the checks that look for rare faults, for as long as you want, and records their counts in docs/measured/campaign.json, from
# which docs/how-we-test.md has its tables. Each part that is not run keeps the counts of its last run.
#
# Usage: ci/campaign.sh [PART[=N]]...     all parts with their default numbers, or these
#   power=10000     simulated power cuts: scenarios (crates/checkpoint, tests/power)
#   simulation=100000  ci/simulation.sh: jobs of ranks under a seeded scheduler
#   killed=668      ci/killed.sh: kills of a run that writes checkpoints
#   survive=25      ci/survive.sh: runs that go on without ranks that were killed
#   faults=20       ci/faults.sh: real faults, of each kind
#   soak=7200       ci/soak.sh: runs that train for so many seconds
#   fuzz=1000000    ci/fuzz.sh: inputs for each format that is read from outside; fuzz=1000000:config,tape for two of them
#   tests           counts the tests in the sources, and runs none
#
# FASCICLE_SEED=S begins power cuts and simulated jobs with another seed than 0. Interleavings, Miri and the sanitizers stop by
# themselves when they have tried all they can: ci/interleavings.sh and ci/sanitizers.sh.
#
# Needs: cargo build --release, with `--features mpi` for faults of single ranks and for soak; cargo-fuzz and a nightly toolchain for fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=("$@")
[ $# -gt 0 ] || parts=(power simulation killed survive faults soak fuzz tests)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# record PART COMMAND NAME=COUNT...
record() { python3 ci/campaign/record.py docs/measured/campaign.json "$1" "$2" "$((SECONDS - begun))" "${@:3}"; }
# run COMMAND...: shows what it prints, and keeps it in the log.
run() { "$@" 2>&1 | tee "$log"; }

for part in "${parts[@]}"; do
  name=${part%%=*} number=
  [ "$name" = "$part" ] || number=${part#*=}
  formats=
  if [ "$name" = fuzz ] && [[ $number == *:* ]]; then formats=${number#*:} number=${number%%:*}; fi
  [[ $number =~ ^[0-9]*$ ]] || { printf 'campaign: %s: found `%s`, needs a number\n' "$name" "$number" >&2; exit 2; }
  case $name in
    power)
      number=${number:-10000}
      cargo test --quiet -p fascicle-checkpoint --lib --no-run
      begun=$SECONDS
      FASCICLE_POWER_CUTS=$number run cargo test --quiet -p fascicle-checkpoint --lib -- --nocapture --exact \
        tests::power::no_power_cut_loses_a_checkpoint
      record power "ci/campaign.sh power=$number" $(sed -n 's/^power cuts: //p' "$log" | sed 's/ seconds=.*//')
      ;;
    simulation)
      number=${number:-100000} begun=$SECONDS
      run ci/simulation.sh "$number"
      record simulation "ci/simulation.sh $number" $(sed -n 's/^simulations: //p' "$log" | sed 's/ seconds=.*//')
      ;;
    killed)
      number=${number:-668} begun=$SECONDS
      run ci/killed.sh "$number"
      record killed "ci/killed.sh $number" \
        "kills=$(sed -n 's/^killed \([0-9]*\) times.*/\1/p' "$log" | paste -sd+)"
      ;;
    survive)
      number=${number:-25} begun=$SECONDS
      run ci/survive.sh "$number"
      counts=$(sed -nE 's/^survive: ([0-9]+) ranks killed in ([0-9]+) runs.*/killed_ranks=\1 runs=\2/p' "$log")
      [ -z "$counts" ] || record survive "ci/survive.sh $number" $counts
      ;;
    faults)
      number=${number:-20} begun=$SECONDS
      run ci/faults.sh "$number"
      record faults "ci/faults.sh $number" $(sed -nE 's/^faults: ([a-z_]+): ([0-9]+) injected in .*/\1=\2/p' "$log")
      ;;
    soak)
      number=${number:-7200} begun=$SECONDS
      run ci/soak.sh "$number"
      record soak "ci/soak.sh $number" $(sed -n 's/^soak: //p' "$log")
      ;;
    fuzz)
      number=${number:-1000000}
      [ -n "$formats" ] || formats=$(cd tests/fuzz/corpus && echo *)
      for format in ${formats//,/ }; do
        begun=$SECONDS
        run ci/fuzz.sh "$number" "$format"
        counts=$(sed -nE 's/^fuzz: [a-z_]+: ([0-9]+) inputs in .*/inputs=\1/p' "$log")
        [ -z "$counts" ] || record "fuzz/$format" "ci/fuzz.sh $number $format" $counts
      done
      ;;
    tests)
      begun=$SECONDS
      record tests 'ci/campaign.sh tests' $(python3 ci/campaign/count.py)
      ;;
    *) printf 'campaign: found `%s`, needs power, simulation, killed, survive, faults, soak, fuzz or tests\n' "$name" >&2; exit 2 ;;
  esac
done
RENEW_DOCS=1 cargo test --quiet --test book campaign
