#!/usr/bin/env bash
# Forged checkpoints, all of which `fascicle checkpoint audit` must refute: `ci/audit.sh 50` makes 50 of them, of 8 kinds in
# turn and at random places, and `ci/audit.sh 50 7` makes others, of seed 7. It lists each with its refutation.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0
for number in "${1:-50}" "${2:-1}"; do
  [[ $number =~ ^[0-9]+$ ]] || { printf 'ci/audit.sh: found `%s`, needs a number\n' "$number" >&2; exit 2; }
done
FASCICLE_FORGED=${1:-50} FASCICLE_SEED=${2:-1} exec cargo test --quiet --test audit -- --exact forgeries_are_refuted --nocapture
