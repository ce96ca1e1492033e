#!/usr/bin/env bash
# Trains with copies of checkpoints in a local S3 server, loses the run's folder, resumes from the store, and compares the losses bit by bit
# with those of a run that nothing disturbed. Also: a copy that is killed, damage, a store that is away, full listings.
#
# Not part of .ci/run: it needs Python with pip and packages from PyPI (moto, a server with the protocol of S3), which it puts into
# target/object-store/venv. Without them it says so and ends with status 0; FASCICLE_REQUIRE=s3 makes that a failure.
#
# Usage: ci/object-store.sh [PROGRAM]    builds the program with --features object-store if none is given
set -euo pipefail
cd "$(dirname "$0")/.."
skip() {
  printf 'SKIPPED: object-store: %s\n' "$1" >&2
  case ",${FASCICLE_REQUIRE:-}," in *,s3,*) exit 1 ;; esac
  exit 0
}
venv=$PWD/target/object-store/venv
if [ ! -x "$venv/bin/moto_server" ]; then
  python3 -m venv "$venv" 2>/dev/null || skip 'python3 -m venv does not work here'
  "$venv/bin/pip" --quiet install 'moto[server]' || skip 'pip cannot install moto[server]'
fi
fascicle=${1:-}
if [ -z "$fascicle" ]; then
  cargo build --quiet --release --features object-store
  fascicle=$PWD/target/release/fascicle
fi
fascicle=$(realpath "$fascicle")
dir=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
fail() { printf 'FAILED: %s\n' "$1" >&2; cat log >&2; exit 1; }
# ends STATUS TEXT COMMAND...: the command exits with STATUS, and prints TEXT on stderr or stdout; no line has the secret.
ends() {
  local status=$1 text=$2 found=0
  shift 2
  "$@" >log 2>&1 || found=$?
  [ "$found" -eq "$status" ] || fail "$*: status $found, expected $status"
  grep -qE -- "$text" log || fail "$*: expected to read: $text"
  ! grep -q "$AWS_SECRET_ACCESS_KEY" log || fail "$*: prints the secret"
}
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export AWS_ENDPOINT=http://127.0.0.1:$port AWS_ALLOW_HTTP=true AWS_REGION=us-east-1
export AWS_ACCESS_KEY_ID=testing AWS_SECRET_ACCESS_KEY=a-secret-of-the-test
start() {
  "$venv/bin/moto_server" -H 127.0.0.1 -p "$port" >server.log 2>&1 &
  server=$!
  for _ in $(seq 100); do curl --silent --fail "$AWS_ENDPOINT" >/dev/null && break || sleep 0.2; done
  curl --silent --fail -X PUT "$AWS_ENDPOINT/bucket" >/dev/null || { cat server.log >&2; exit 1; }
}
start

for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >text.txt
small=(--data text.txt --grid x=2,z=2 --batch 4 --micro-batches 1 --set model.hidden=64 --set model.layers=2 --set model.heads=2
  --set model.context=16 --set training.validation_batches=1 --set training.checkpoint_every=4 --set training.rate_schedule=constant)
losses() { grep -oE '"step":[0-9]+,"loss":[0-9.e-]+' "$1/metrics.jsonl" | sort -u; }
train=("$fascicle" train "${small[@]}")
url=s3://bucket/runs/one
stored=(--out run --auto-resume --set "checkpoint.store=$url")

# The run's folder is lost between two parts; the second goes on from the store.
ends 0 'done: step 24' "${train[@]}" --steps 24 --out whole
ends 0 'copied to .*step-00000012' "${train[@]}" --steps 12 "${stored[@]}"
ends 0 'step-00000012' "$fascicle" checkpoint list "$url"
[ "$(grep -c '^step-' log)" -eq 3 ] || fail 'the store keeps other checkpoints than the three newest'
losses run >first
rm -rf run
ends 0 "taken from $url" "${train[@]}" --steps 24 "${stored[@]}"
{ cat first; losses run; } | sort -u >both
losses whole >needed
diff needed both >log || fail 'a run that was resumed from the store has other losses'
printf 'object-store: %d losses are those of the undisturbed run, bit by bit\n' "$(wc -l <both)"

# Damage in the folder: the store has the checkpoint whole. An empty folder too.
shard=run/checkpoints/step-00000024/shard-00000.safetensors
printf 'x' | dd of="$shard" bs=1 seek=2000 conv=notrunc status=none
ends 0 'taken from' "${train[@]}" --steps 28 "${stored[@]}"
rm -r run/checkpoints/*
ends 0 'taken from' "$fascicle" train --resume run --steps 32
ends 0 'step-00000032' "$fascicle" checkpoint pull "$url" --out got
diff -r got/step-00000032 run/checkpoints/step-00000032 >log || fail 'a pull gives other bytes'

# A copy that is killed is no checkpoint, and is completed by the next.
python3 - <<'P'
import json, os, struct, zlib
d = "large/step-00000007"; os.makedirs(d)
size = 64 << 20
head = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
head += b" " * (-len(head) % 8)
data = struct.pack("<Q", len(head)) + head + os.urandom(1 << 20) * (size >> 20)
open(d + "/shard-00000.safetensors", "wb").write(data)
body = json.dumps({"format": 1, "step": 7, "files": [{"name": "shard-00000.safetensors", "bytes": len(data), "crc32": zlib.crc32(data)}],
  "tensors": {"w": {"info": {"dtype": "u8", "global_shape": [size], "layout": [[]]},
    "pieces": [{"file": 0, "offset": 8 + len(head), "index": {"start": [0], "shape": [size]}}]}},
  "sections": {"model": None, "trainer": None, "tokenizer": None, "grid": None}}, separators=(",", ":"))[1:]
open(d + "/manifest.json", "w").write('{"crc32":"%08x",\n' % zlib.crc32(body.encode()) + body)
P
ends 0 'intact' "$fascicle" checkpoint verify large/step-00000007
killed=0
for pause in 0.05 0.1 0.2 0.3 0.5; do
  "$fascicle" checkpoint push large "s3://bucket/killed" >log 2>&1 & push=$!
  sleep "$pause"
  kill -9 $push 2>/dev/null && killed=$((killed + 1)) || true
  wait $push 2>/dev/null || true
  "$fascicle" checkpoint list s3://bucket/killed >log 2>&1
  ! grep -q '^step-' log || { ends 0 'step-' "$fascicle" checkpoint pull s3://bucket/killed --out some; rm -rf some; break; }
done
ends 0 'step-00000007' "$fascicle" checkpoint push large s3://bucket/killed
ends 0 'step-00000007' "$fascicle" checkpoint pull s3://bucket/killed --out back
diff -r large back >log || fail 'a push after a killed one gives other bytes'
printf 'object-store: %d killed copies, none taken for whole\n' "$killed"

# Another run's place; a bucket that is not there; a store that is away. None ends a run.
ends 0 'this run has not made' "${train[@]}" --steps 4 --out other --set "checkpoint.store=$url"
ends 0 'warning: .*s3://absent/run' "${train[@]}" --steps 4 --out absent --set checkpoint.store=s3://absent/run
kill $server
wait $server 2>/dev/null || true
ends 0 'warning: .*the run continues without it' "${train[@]}" --steps 36 "${stored[@]}" --set checkpoint.store_timeout_s=5
[ "$(grep -c 'checkpoint store.*the run continues without it' log)" -eq 1 ] || fail 'a store that is away is reported more than once'
ends 1 "checkpoint store $url: listing" timeout 60 "$fascicle" checkpoint list "$url" --timeout 3
rm -rf run
ends 1 "checkpoint store $url: listing" timeout 60 "${train[@]}" --steps 36 "${stored[@]}" --set checkpoint.store_timeout_s=3
[ ! -e run ] || fail 'a run began anew while its checkpoints lie in a store that is away'

# Back again: the next checkpoint takes the missing ones along (this server has forgotten all).
start
ends 0 'copied' "${train[@]}" --steps 8 --out later --set checkpoint.store=s3://bucket/later
ends 1 'found no step 5; its newest is 8, needs step 5' "$fascicle" checkpoint pull s3://bucket/later --out none --step 5
printf 'object-store: passed\n'
