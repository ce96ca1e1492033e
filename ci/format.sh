#!/usr/bin/env bash
# Every file is formatted by rustfmt.
set -euo pipefail
cargo fmt --all -- --check
