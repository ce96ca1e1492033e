#!/usr/bin/env bash
# The crates for other programs. The C library: a C program trains on 1, 3 and 4 ranks, as threads and under mpirun, and its mistakes
# end in a sentence; the header declares what the library exports. candle and burn: four ranks, as threads and under mpirun, train to
# the weights of one; copies are counted; examples run. DLPack: tensors go out and come in, with NumPy if it can be installed.
#
# Usage: ci/bindings.sh [c|dlpack|candle|burn]...     c and dlpack, which are of the workspace, by default. From an empty target,
# compiling takes 215 s of processor time for candle and 254 s for burn: these two run before a release, and when a binding or what it
# calls changes.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/workspace.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# enter NAME goes to the folder of a binding outside the workspace. Its dependencies have the workspace's versions.
enter() {
  CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/outside
  export CARGO_TARGET_DIR
  cd "bindings/$1"
  cp ../../Cargo.lock Cargo.lock
  cargo fmt -- --check
}
# built TEST prints the path of a test's program.
built() { cargo test --quiet --features mpi --test "$1" --no-run --message-format=json | sed -nE 's/.*"executable":"([^"]+)".*/\1/p' | tail -n 1; }
# integrates EXAMPLE counts the lines that ranks add to another framework's program, which end in `//+`.
integrates() {
  local lines
  lines=$(grep -c '//+$' "$1")
  printf 'bindings: %s: %s lines of integration\n' "$1" "$lines"
  [ "$lines" -gt 5 ] && [ "$lines" -lt 30 ] || { echo "bindings: found $lines, needs 6 to 29" >&2; return 1; }
}
# Under mpirun, tests of one program run in the same order on every rank.
on_four() { timeout 300 mpirun -n 4 "$@" --test-threads=1 > "$work/on_four" 2>&1 || { cat "$work/on_four"; return 1; }; }

check_c() {
  # With examples, cargo chooses features as for tests, and reuses what ci/test.sh built.
  cargo build --quiet "${workspace[@]}" --lib --examples
  local library=$target
  cd bindings/c
  sed -nE 's/^[a-z].*[ *](fascicle_[a-z_]+)\(.*/\1/p' include/fascicle.h | sort > "$work/declared"
  nm -D --defined-only "$library/libfascicle.so" | sed -nE 's/.* T (fascicle_.*)/\1/p' | sort > "$work/exported"
  diff "$work/declared" "$work/exported" || { echo 'bindings: the header and the library differ' >&2; exit 1; }

  compile() { gcc -std=c11 -Wall -Wextra -Werror -Iinclude "$1" -L"$library" -Wl,-rpath,"$library" -lfascicle -lm -o "$2"; }
  compile examples/regression.c "$work/regression"
  compile ../../tests/bindings/calls.c "$work/calls"
  g++ -Wall -Werror -Iinclude -fsyntax-only -x c++ include/fascicle.h
  local grid
  for grid in data=1 data=3 data=4 x=2,data=2; do "$work/regression" "$grid"; done
  timeout 60 mpirun -n 4 "$work/regression" data=4
  "$work/calls"
  timeout 60 mpirun -n 4 "$work/calls"
}

check_dlpack() {
  if python3 -m venv "$work/python" && timeout 120 "$work/python/bin/pip" install --quiet numpy; then
    build_workspace > /dev/null
    "$work/python/bin/python" bindings/dlpack/tests/arrays.py "$target/examples/libarrays.so"
  else
    echo 'bindings: skipped bindings/dlpack/tests/arrays.py: NumPy cannot be installed'
  fi
}

check_candle() {
  enter candle
  integrates examples/mlp.rs
  cargo test --quiet --features mpi
  on_four "$(built all)" parity:: mistakes::ranks_with
  cargo run --quiet --features mpi --example mlp
}

check_burn() {
  # burn needs a newer compiler than the library.
  local needed
  needed=$(sed -nE 's/^rust-version = "(.*)"/\1/p' bindings/burn/Cargo.toml)
  if [ "$(printf '%s\n' "$needed" "$(rustc -V | cut -d ' ' -f 2)" | sort -V | head -n 1)" != "$needed" ]; then
    echo "bindings: skipped burn: it needs Rust $needed, here is $(rustc -V)"
    return
  fi
  enter burn
  integrates examples/learner.rs
  cargo test --quiet --features mpi > "$work/tests" 2>&1 || { cat "$work/tests"; return 1; }
  on_four "$(built all)" parity::a_loop parity::the_learner_trains
  cargo run --quiet --features mpi --example learner | tail -n 1
}

checks=("$@")
[ $# -gt 0 ] || checks=(c dlpack)
for check in "${checks[@]}"; do
  start=$SECONDS
  case $check in
    c | dlpack | candle | burn) (set -e; "check_$check") ;;
    *) printf 'bindings: found %s, needs c, dlpack, candle or burn\n' "$check" >&2; exit 2 ;;
  esac
  printf 'bindings: %s passed in %s s\n' "$check" $((SECONDS - start))
done
