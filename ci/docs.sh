#!/usr/bin/env bash
# The documentation builds without a warning, broken links included, and each published package's first page leads somewhere.
set -euo pipefail
# No kernels for devices, which ci/device-code.sh compiles.
export FASCICLE_NVCC=/bin/false FASCICLE_HIPCC=/bin/false
python3 ci/pages.py
RUSTDOCFLAGS='-D warnings' cargo doc --quiet --workspace --no-deps --document-private-items
