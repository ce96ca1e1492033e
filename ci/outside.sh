#!/usr/bin/env bash
# A crate outside the workspace brings a model, a layer, kernels, an optimiser, data, a vendor and a family of its own, and
# edits nothing here.
set -euo pipefail
cd "$(dirname "$0")/../tests/outside"
cp ../../Cargo.lock Cargo.lock
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-../../target}/outside" cargo run --quiet
