#!/usr/bin/env bash
# A crate outside the workspace brings its own model, layer, kernels, optimiser, data, vendor and family, and edits
# nothing here.
set -euo pipefail
cd "$(dirname "$0")/../tests/outside"
cp ../../Cargo.lock Cargo.lock
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-../../target}/outside" cargo run --quiet
