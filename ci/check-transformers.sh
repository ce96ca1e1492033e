#!/usr/bin/env bash
# Converts random models of the library transformers to this program and back, and compares with the library itself.
#
# Usage: ci/check-transformers.sh      PYTHON names a Python that has torch and transformers (ci/peers/requirements.txt)
# For each kind and element type: import, export, equal tensors, equal logits of the exported folder, log-probabilities of a
# generated token against the library's, and the same of adapters trained on x=2,y=2, plain and decomposed, whose export merges them.
# It needs 6 GB of Python packages, and is not part of .ci/run: tests/foreign.rs and
# tests/pytorch.rs hold the same on fixtures.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${FASCICLE:-target/release/fascicle}")
[ -x "$program" ] || cargo build --quiet --release
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
models=ci/peers/transformers_models.py
"${PYTHON:-python3}" $models make "$dir"
prompt=$(seq -s ' ' 1 32)
python3 -c "print(' '.join(str(i * 7919 % 250) for i in range(20000)))" >"$dir/ids.txt"
for model in "$dir"/model/*; do
  name=$(basename "$model")
  run=$dir/run/$name
  mkdir -p "$dir/back" "$dir/merged"
  "$program" checkpoint import "$model" --out "$run" >/dev/null 2>"$dir/log" || { cat "$dir/log"; exit 1; }
  grep -q '^proved: ' "$dir/log"
  "$program" checkpoint export "$run" --format transformers --out "$dir/back/$name" >/dev/null 2>"$dir/log" || { cat "$dir/log"; exit 1; }
  "$program" generate --checkpoint "$run" --prompt "$prompt" --tokens 1 --temperature 0 --logprobs 20 --json \
    >"$dir/back/$name.json" 2>/dev/null
  for decomposed in false true; do
    tuned=$name-$decomposed
    "$program" train --init-from "$model" --data "$dir/ids.txt" --steps 4 --batch 4 --micro-batches 1 --grid x=2,y=2 \
      --set tuning.adapter_rank=4 --set tuning.adapter_decomposed=$decomposed --set model.dropout=0.0 --out "$dir/tuned-$tuned" \
      >/dev/null 2>"$dir/log" || { cat "$dir/log"; exit 1; }
    "$program" checkpoint export "$dir/tuned-$tuned" --format transformers --out "$dir/merged/$tuned" >/dev/null 2>"$dir/log" ||
      { cat "$dir/log"; exit 1; }
    case $name in
      # Their queries, keys and values are one matrix, which PEFT would adapt as one.
      gpt2-* | gpt_neox*) ;;
      *)
        mkdir -p "$dir/adapter"
        "$program" checkpoint export "$dir/tuned-$tuned" --format peft --out "$dir/adapter/$tuned" >/dev/null 2>"$dir/log" ||
          { cat "$dir/log"; exit 1; }
        ;;
    esac
    "$program" generate --checkpoint "$dir/tuned-$tuned" --prompt "$prompt" --tokens 1 --temperature 0 --logprobs 20 --json \
      >"$dir/merged/$tuned.json" 2>/dev/null
  done
done
"${PYTHON:-python3}" $models compare "$dir"
