#!/usr/bin/env bash
# Every file is as rustfmt leaves it.
set -euo pipefail
cargo fmt --all -- --check
