#!/usr/bin/env bash
# The documentation builds without a warning, broken links included.
set -euo pipefail
RUSTDOCFLAGS='-D warnings' cargo doc --quiet --workspace --no-deps --document-private-items
