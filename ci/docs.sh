#!/usr/bin/env bash
# The documentation builds without a warning, broken links included, and each published package's first page leads somewhere.
set -euo pipefail
python3 ci/pages.py
RUSTDOCFLAGS='-D warnings' cargo doc --quiet --workspace --no-deps --document-private-items
