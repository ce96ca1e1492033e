#!/usr/bin/env bash
# On terminals of 60, 80 and 120 columns, no command prints a line that is wider, or breaks a word.
set -euo pipefail
[ -n "${FASCICLE:-}" ] || cargo build --quiet --release
python3 ci/terminal.py "${FASCICLE:-target/release/fascicle}"
