#!/usr/bin/env bash
# Looks for inputs on which what reads from outside (tests/fuzz/targets.rs) panics, takes more than a second, or more than 2 GiB.
# `ci/fuzz.sh` tries 1,000,000 inputs on each target, from the inputs kept in tests/fuzz/corpus; `ci/fuzz.sh 5000 config tape` tries
# 5,000 on two. New inputs go to target/fuzz/corpus, and those that fail to target/fuzz/artifacts.
#
# Needs: rustup toolchain install nightly; cargo install cargo-fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-1000000}
[[ $runs =~ ^[0-9]+$ ]] || { printf 'ci/fuzz.sh: found `%s`, needs a number of inputs\n' "$runs" >&2; exit 2; }
shift || true
targets=("$@")
[ $# -gt 0 ] || targets=($(cd tests/fuzz/corpus && echo *))
folder=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
if ! cargo +nightly fuzz --version > /dev/null 2>&1; then
  echo 'fuzz: skipped: no nightly toolchain with cargo-fuzz'
  exit 0
fi
for target in "${targets[@]}"; do
  start=$SECONDS
  # A thread that has returned may still free its own variables when the sanitizer looks for what nobody will free.
  leaks=1
  [ "$target" != compressed ] || leaks=0
  mkdir -p "$folder/corpus/$target" "$folder/artifacts/$target"
  cargo +nightly fuzz run --fuzz-dir tests/fuzz --target-dir "$folder" "$target" \
    "$folder/corpus/$target" "tests/fuzz/corpus/$target" -- \
    -runs="$runs" -timeout=1 -rss_limit_mb=2048 -max_len=32768 -detect_leaks="$leaks" -artifact_prefix="$folder/artifacts/$target/" \
    -print_final_stats=1 > "$folder/$target.log" 2>&1 || { tail -n 40 "$folder/$target.log" >&2; exit 1; }
  printf 'fuzz: %s: %s inputs in %s s\n' "$target" "$runs" $((SECONDS - start))
done
