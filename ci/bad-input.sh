#!/usr/bin/env bash
# Bad input produces a one-sentence error with the numbers and the right exit status, and overwrites nothing.
set -euo pipefail
fascicle=$PWD/target/release/fascicle
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# expect STATUS TEXT COMMAND...: the command exits with STATUS and prints TEXT on stderr.
expect() {
  local status=$1 text=$2; shift 2
  local found=0
  "$@" >out.txt 2>err.txt || found=$?
  if [ "$found" != "$status" ] || ! grep -qF -- "$text" err.txt; then
    printf 'FAILED: %s\n exit status %s, expected %s\n expected to read: %s\n read: %s\n' "$*" "$found" "$status" "$text" "$(cat err.txt)" >&2
    exit 1
  fi
  if grep -qiE 'panicked|RUST_BACKTRACE' err.txt; then printf 'FAILED: %s panicked\n' "$*" >&2; exit 1; fi
  printf 'ok: %s\n' "$(grep -F -m 1 -- "$text" err.txt)"
}

for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >text.txt
printf 'short' >short.txt
: >empty.txt
small=(--data text.txt --set model.hidden=16 --set model.layers=1 --set model.heads=2 --set model.context=16 --steps 4 --batch 4 --grid x=1)

printf '[training]\nlerning_rate = 1\n' >typo.toml
expect 2 'did you mean `learning_rate`' "$fascicle" train typo.toml
expect 2 'x=3' "$fascicle" train --data text.txt --grid x=3
expect 2 '= 4' "$fascicle" train --data text.txt --ranks 6 --grid x=2,y=2
expect 2 'pipeline' "$fascicle" train --data text.txt --grid pipeline=64
expect 1 'does not exist' "$fascicle" train --data nowhere.txt
expect 1 'empty' "$fascicle" train --data empty.txt
expect 1 'needs at least' "$fascicle" train --data short.txt
expect 2 'unexpected argument' "$fascicle" train --gird x=2
expect 2 'found 2 ranks and no dropout, needs 1 rank and no dropout' \
  "$fascicle" train --data text.txt --grid x=2 --set training.graph=true
expect 1 'found cpu:0, which records no work' "$fascicle" train "${small[@]}" --set training.graph=true --vendor cpu --out graph

"$fascicle" train "${small[@]}" --out run 2>/dev/null >/dev/null
expect 2 'holds a run already' "$fascicle" train "${small[@]}" --out run
cp -r run flipped
shard=$(ls flipped/checkpoints/step-*/shard-*.safetensors | head -n 1)
python3 - "$shard" <<'P'
import sys
data = bytearray(open(sys.argv[1], "rb").read()); data[-5] ^= 1; open(sys.argv[1], "wb").write(data)
P
expect 1 'CRC' "$fascicle" checkpoint verify flipped
expect 1 'CRC' "$fascicle" train --resume flipped --steps 6
expect 1 'CRC' "$fascicle" generate --checkpoint flipped
truncate -s -100 "$shard"
expect 1 'bytes' "$fascicle" checkpoint verify flipped
expect 1 '' "$fascicle" generate --checkpoint nowhere
for bad in training.lowest_rate=nan training.lowest_rate=-1 training.clip_norm=nan training.weight_decay=-5 \
  training.batch=2147483648 training.micro_batches=2147483648 model.layers=2147483648 model.layers=10000000 \
  model.pad_vocabulary_to=0 model.norm_epsilon=nan parallel.threads=1000000 parallel.timeout_s=nan; do
  expect 2 "${bad%%=*}: found" timeout 10 "$fascicle" train --data text.txt --grid x=1 --steps 4 --out bad --set "$bad"
done
expect 2 'parallel.ranks: found 18446744073709551615' timeout 10 "$fascicle" train --data text.txt --ranks 18446744073709551615
expect 1 'first bad tensor' "$fascicle" train "${small[@]}" --out nan --set training.learning_rate=1e30 --set training.warmup_steps=0 --steps 50
printf 'all refused as they should be\n'
