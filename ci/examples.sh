#!/usr/bin/env bash
# Every numbered example runs; each asserts its own result.
set -euo pipefail
source ci/workspace.sh
build_workspace > /dev/null
for source in examples/[0-9]*.rs; do
  name=$(basename "$source" .rs)
  printf -- '-- %s\n' "$name"
  "$target/examples/$name" | tail -n 3
done
for ranks in 1 2 4; do "$target/examples/03_all_reduce" "$ranks"; done
