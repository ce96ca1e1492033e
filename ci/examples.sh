#!/usr/bin/env bash
# Every numbered example runs; each asserts its own result.
set -euo pipefail
# With the packages that ci/test.sh built.
source ci/mpi-setup.sh
cargo build --quiet "${workspace[@]}" --bin fascicle --examples
for source in examples/[0-9]*.rs; do
  name=$(basename "$source" .rs)
  printf -- '-- %s\n' "$name"
  "$target/examples/$name" | tail -n 3
done
for ranks in 1 2 4; do "$target/examples/03_all_reduce" "$ranks"; done
