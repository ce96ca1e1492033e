#!/usr/bin/env bash
# The README's test command, with MPI compiled in, so that the checks behind it find everything built. That the workspace
# compiles without is ci/lint.sh's part.
set -euo pipefail
source ci/mpi-setup.sh
cargo test "${workspace[@]}"
