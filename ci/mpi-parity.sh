#!/usr/bin/env bash
# Every grid of 2, 4 and 8 processes gives the losses of the serial program. `--quick` takes a few grids of each.
set -euo pipefail
source ci/workspace.sh
subject=parity
[ "${1:-}" = --quick ] && subject=parity-quick
[ -n "${test:-}" ] || test=$(build_workspace | executable under_mpirun)
for ranks in 2 4 8; do
  timeout 1200 mpirun -n "$ranks" "$test" "$subject"
done
