#!/usr/bin/env bash
# The README's test command, with MPI and both vendors compiled in, so that later checks find everything built. ci/lint.sh
# checks that the workspace compiles without them.
set -euo pipefail
source ci/workspace.sh
cargo test "${workspace[@]}"
