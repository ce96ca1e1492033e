#!/usr/bin/env bash
# Every numbered example runs; each asserts its own result.
set -euo pipefail
# Everything that the checks behind this one run: built alone, the program would have its crates compiled once more.
cargo build --quiet --release --bins --examples
for source in examples/[0-9]*.rs; do
  name=$(basename "$source" .rs)
  printf -- '-- %s\n' "$name"
  "target/release/examples/$name" | tail -n 3
done
for ranks in 1 2 4; do target/release/examples/03_all_reduce "$ranks"; done
