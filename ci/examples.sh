#!/usr/bin/env bash
# Every numbered example runs; each asserts its own result.
set -euo pipefail
cargo build --quiet --release --examples
for source in examples/[0-9]*.rs; do
  name=$(basename "$source" .rs)
  printf -- '-- %s\n' "$name"
  "target/release/examples/$name" | tail -n 3
done
for ranks in 1 2 4; do target/release/examples/03_all_reduce "$ranks"; done
