#!/usr/bin/env bash
# Bad input produces a one-sentence error with the numbers and the right exit status, and overwrites nothing. The sentences about
# mistyped keys and flags are in tests/mistakes.rs.
set -euo pipefail
fascicle=${FASCICLE:-$PWD/target/release/fascicle}
machines=$PWD/crates/grid/machines
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

expect 2 'x=3' "$fascicle" train --data text.txt --grid x=3
expect 2 '= 4' "$fascicle" train --data text.txt --ranks 6 --grid x=2,y=2
expect 2 'pipeline' "$fascicle" train --data text.txt --grid pipeline=64
expect 1 'does not exist' "$fascicle" train --data nowhere.txt
expect 1 'empty' "$fascicle" train --data empty.txt
expect 1 'needs at least' "$fascicle" train --data short.txt
expect 2 'found 2 ranks and no dropout, needs 1 rank and no dropout' \
  "$fascicle" train --data text.txt --grid x=2 --set training.graph=true
expect 2 'found cpu:0, which records no work' "$fascicle" train "${small[@]}" --set training.graph=true --vendor cpu --out graph

"$fascicle" train "${small[@]}" --out run 2>/dev/null >/dev/null
expect 2 'holds a run already' "$fascicle" train "${small[@]}" --out run
cp -r run longer
"$fascicle" train --resume longer --steps 6 2>/dev/null >/dev/null
expect 1 'training.steps: found 6, needs 4' "$fascicle" checkpoint audit run longer
"$fascicle" checkpoint audit run longer --steps 6 2>/dev/null | grep -q '^confirmed: step 6 '
cp -r run flipped
shard=$(ls flipped/checkpoints/step-*/shard-*.safetensors | head -n 1)
python3 - "$shard" <<'P'
import sys
data = bytearray(open(sys.argv[1], "rb").read()); data[-5] ^= 1; open(sys.argv[1], "wb").write(data)
P
expect 1 'CRC' "$fascicle" checkpoint verify flipped
expect 1 'differ: 1 of' "$fascicle" checkpoint diff run flipped
grep -q "1 of .*${shard##*/} *${shard##*/}$" out.txt
[ "$("$fascicle" checkpoint digest run)" != "$("$fascicle" checkpoint digest flipped)" ]
expect 1 'CRC' "$fascicle" train --resume flipped --steps 6
expect 1 'CRC' "$fascicle" checkpoint audit flipped longer --steps 6
expect 1 'CRC' "$fascicle" generate --checkpoint flipped --prompt x
truncate -s -100 "$shard"
expect 1 'bytes' "$fascicle" checkpoint verify flipped
expect 1 'bytes' "$fascicle" checkpoint diff run flipped
expect 1 'does not exist' "$fascicle" checkpoint digest nowhere
expect 2 'needs a step above' "$fascicle" checkpoint audit run run
expect 2 'with training.reproducible = "run", no other gives the same bits' "$fascicle" checkpoint audit run longer \
    --set training.reproducible=run --grid data=2
expect 2 'needs a new folder' "$fascicle" checkpoint audit run longer --keep run
expect 1 '' "$fascicle" generate --checkpoint nowhere --prompt x
for bad in training.lowest_rate=nan training.lowest_rate=-1 training.clip_norm=nan training.weight_decay=-5 \
  training.batch=2147483648 training.micro_batches=2147483648 model.layers=2147483648 model.layers=10000000 \
  model.pad_vocabulary_to=0 model.norm_epsilon=nan parallel.threads=1000000 parallel.timeout_s=nan; do
  expect 2 "${bad%%=*}: found" timeout 10 "$fascicle" train --data text.txt --grid x=1 --steps 4 --out bad --set "$bad"
done
expect 2 'parallel.ranks: found 18446744073709551615' timeout 10 "$fascicle" train --data text.txt --ranks 18446744073709551615
# Files of other kinds are refused at once, and what they are is named.
mkfifo pipe
for bad in pipe /dev/zero; do
  expect 2 'needs a regular file' timeout 10 "$fascicle" train "$bad"
  expect 1 'needs a regular file' timeout 10 "$fascicle" train --data "$bad" --out bad
  expect 1 'needs a regular file' timeout 10 "$fascicle" train --data text.txt --set "data.tokenizer.file=\"$bad\"" --out bad
  expect 1 'needs a regular file' timeout 10 "$fascicle" bench step --weights "$bad"
  expect 2 'needs a regular file' timeout 10 "$fascicle" plan --machine "$bad" --devices 8 --model gpt-5b
  expect 2 'needs a regular file' timeout 10 "$fascicle" plan --machine perlmutter --devices 8 --model "$bad"
  expect 2 'needs a regular file' timeout 10 "$fascicle" plan --machine perlmutter --devices 8 --model gpt-5b --compare "$bad"
  expect 2 'needs a regular file' timeout 10 "$fascicle" checkpoint export run --overwrite --out "$bad"
done
[ -p pipe ] && [ -c /dev/zero ]

# Checkpoints that no training run wrote. forge NAME CODE: a copy of the run, whose manifest `m` the code changes.
forge() {
  rm -rf "$1" && cp -r run "$1"
  python3 - "$1" "$2" <<'P'
import glob, json, os, sys, zlib
path = glob.glob(sys.argv[1] + "/checkpoints/step-*/manifest.json")[0]
d, m = os.path.dirname(path), json.load(open(path))
del m["crc32"]
model, shard = m["sections"]["trainer"]["config"]["model"], os.path.join(d, m["files"][0]["name"])
bias = "weights/blocks.0.attention.key.bias"
exec(sys.argv[2])
text = json.dumps(m)[1:].encode()
m and open(path, "wb").write(b'{"crc32":"%08x",\n' % zlib.crc32(text) + text)
P
}
for bad in layers hidden context vocabulary; do
  forge forged "model['$bad'] = 10**12"
  expect 1 "model.$bad: found 1000000000000" timeout 10 "$fascicle" generate --checkpoint forged --prompt x
  expect 1 "model.$bad: found 1000000000000" timeout 10 "$fascicle" train --resume forged --steps 9
  expect 1 "model.$bad: found 1000000000000" timeout 10 "$fascicle" checkpoint reshard forged --grid data=2 --out resharded
done
forge forged "model['layers'] = 4000"
expect 1 'which the model has' timeout 10 "$fascicle" generate --checkpoint forged --prompt x
forge forged "m['tensors'][bias]['info']['global_shape'] = [10**12]"
expect 1 'is missing' timeout 10 "$fascicle" checkpoint verify forged
forge forged "m['tensors'][bias]['pieces'] *= 10**5"
expect 1 'pieces share bytes' timeout 10 "$fascicle" checkpoint verify forged
forge forged "m['files'][0]['name'] = '../shard'"
expect 1 'is not in its folder' timeout 10 "$fascicle" checkpoint verify forged
forge forged "m['tensors']['\x1b[31mred'] = m['tensors'].pop(bias); m['tensors']['\x1b[31mred']['pieces'][0]['index']['shape'] = [99]"
expect 1 'tensor \u001b[31mred' timeout 10 "$fascicle" checkpoint verify forged
forge forged "os.remove(path); os.mkfifo(path); m = None"
expect 1 'found a pipe' timeout 10 "$fascicle" checkpoint verify forged/checkpoints/step-*
forge forged "os.remove(path); os.symlink('/dev/zero', path); m = None"
expect 1 'found a link' timeout 10 "$fascicle" checkpoint verify forged/checkpoints/step-*
forge forged "os.rename(shard, sys.argv[1] + '/other'); os.symlink('../../other', shard)"
expect 1 'found a link' timeout 10 "$fascicle" checkpoint verify forged
forge forged "open(path, 'w').truncate(10**12); m = None"
expect 1 'needs at most 268435456' timeout 10 "$fascicle" checkpoint verify forged
timeout 10 "$fascicle" checkpoint reshard run --grid data=1000000 --out resharded >/dev/null 2>&1
forge forged "m['sections']['trainer']['loss_scale'] = 'large'"
expect 1 'no record of a trainer' "$fascicle" checkpoint digest forged
forge forged "m['tensors']['a' + bias] = m['tensors'].pop(bias)"
expect 1 'differ: 2 tensors without a counterpart' "$fascicle" checkpoint diff run forged
"$fascicle" checkpoint export run --out mine.safetensors >/dev/null 2>&1
expect 2 'overwrite' "$fascicle" checkpoint export run --out mine.safetensors

# The planner's numbers, and those of a machine's file.
plan=(timeout 10 "$fascicle" plan --machine perlmutter --devices 8 --model gpt-5b)
for bad in '--budget nan' '--budget inf' '--budget -1' '--batch-tokens 1e18' '--batch-tokens nan' '--micro-batches 0' \
  '--devices 1000000000000000000' '--layers 60000' '--vocabulary 18446744073709551615'; do
  # shellcheck disable=SC2086
  expect 2 'found' "${plan[@]}" $bad
done
for bad in 's/rows = 256/rows = 0/=product.tiles[0].rows: found 0' 's/speed = 0.93/speed = 0/=product.tiles[2].speed: found 0' \
  's/value = 0.08/value = -5/=device.collective_share: found -5' 's/value = 4.0/value = 1e308/=device.launch.host_us: found 1e308' \
  's/value = 86/value = nan/=links.injection_gbps: found NaN' 's/value = 82/value = -1/=links.peer_gbps: found -1'; do
  sed -e "${bad%/=*}/" "$machines/perlmutter.toml" >machine.toml
  expect 2 "${bad#*/=}" timeout 10 "$fascicle" plan --machine machine.toml --devices 8 --model gpt-5b
done
expect 2 'whole number from 1 to 4096' timeout 10 "$fascicle" generate --checkpoint run --threads 5000
expect 2 'gone.txt does not exist' timeout 10 "$fascicle" eval --checkpoint run --text gone.txt
expect 2 'empty.txt is empty' timeout 10 "$fascicle" eval --checkpoint run --tasks empty.txt
expect 2 'text.txt, line 1: expected' timeout 10 "$fascicle" eval --checkpoint run --tasks text.txt
expect 2 '--stride: found 17, needs a number from 1 to 16' timeout 10 "$fascicle" eval --checkpoint run --text text.txt --stride 17
expect 2 'whole number from 1 to' timeout 10 "$fascicle" bench gemm --hidden 0
expect 1 'first bad tensor' "$fascicle" train "${small[@]}" --out nan --set training.learning_rate=1e30 --set training.warmup_steps=0 --steps 50
printf 'all refused as they should be\n'
