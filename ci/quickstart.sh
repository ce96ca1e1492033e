#!/usr/bin/env bash
# The README's first command: the default run reaches the promised loss, and continues when resumed on another grid. FASCICLE names
# a program that is built already; without it the README's is built.
set -euo pipefail
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
fascicle=${FASCICLE:-target/release/fascicle}
[ -n "${FASCICLE:-}" ] || cargo build --quiet --release
start=$SECONDS
"$fascicle" train --out "$out/run"
printf 'trained in %s s\n' $((SECONDS - start))
for file in config.toml metrics.jsonl loss.svg checkpoints; do test -e "$out/run/$file"; done
python3 - "$out/run/metrics.jsonl" <<'P'
import json, sys
last = [json.loads(line) for line in open(sys.argv[1])][-1]
assert last["val_loss"] < 2.3, f"validation loss {last['val_loss']:.3f}, promised below 2.3"
print(f"validation loss {last['val_loss']:.3f} after {last['step']} steps")
P
"$fascicle" train --resume "$out/run" --grid x=1,y=2,z=1,data=2,pipeline=2 --ranks 8 --steps 605
"$fascicle" generate --checkpoint "$out/run" --prompt 'fn ' --tokens 40 --grid x=2,pipeline=2
"$fascicle" checkpoint verify "$out/run"
