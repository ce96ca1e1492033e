#!/usr/bin/env bash
# Every grid of 2, 4 and 8 processes gives the losses of the serial program. `--quick` takes a few grids of each.
set -euo pipefail
source ci/mpi-setup.sh
subject=parity
[ "${1:-}" = --quick ] && subject=parity-quick
target=${CARGO_TARGET_DIR:-target}
cargo test -q -p fascicle-mpi --features link --test under_mpirun --no-run
test=$(ls -t "$target"/debug/deps/under_mpirun-* | grep -v '\.d$' | head -n 1)
for ranks in 2 4 8; do
  mpirun -n "$ranks" "$test" "$subject"
done
