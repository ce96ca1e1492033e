"""Prefill and decode of a Llama in llama.cpp, for comparison with `fascicle bench generate --family llama`.

    pip install llama-cpp-python gguf numpy
    python ci/peers/llama_cpp_generate.py --batch 8 --threads 2 --precision bf16

Weights are random: only the time counts. Sizes are those of `fascicle bench generate`, and `--mlp` is the width that it takes by default.
Tokens are chosen greedily, by a loop around the library's own batches. Prints one line of JSON.
"""

import argparse
import ctypes
import json
import statistics
import tempfile
import time

import gguf
import llama_cpp
import numpy

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--hidden", type=int, default=512)
parser.add_argument("--heads", type=int, default=8)
parser.add_argument("--mlp", type=int)
parser.add_argument("--vocabulary", type=int, default=8192)
parser.add_argument("--context", type=int, default=256)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--prompt", type=int, default=16)
parser.add_argument("--tokens", type=int, default=240)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
parser.add_argument("--rounds", type=int, default=3)
args = parser.parse_args()
hidden, mlp = args.hidden, args.mlp or -(-8 * args.hidden // 3 // 8) * 8
kind = {"f32": gguf.GGMLQuantizationType.F32, "bf16": gguf.GGMLQuantizationType.BF16}[args.precision]
random = numpy.random.default_rng(1)


def write(path):
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(args.context)
    file.add_embedding_length(hidden)
    file.add_block_count(args.layers)
    file.add_feed_forward_length(mlp)
    file.add_head_count(args.heads)
    file.add_head_count_kv(args.heads)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(hidden // args.heads)
    file.add_vocab_size(args.vocabulary)
    file.add_tokenizer_model("no_vocab")
    weights = 0

    def matrix(name, rows, columns):
        nonlocal weights
        weights += rows * columns
        values = random.standard_normal((rows, columns), dtype=numpy.float32) * numpy.float32(0.02)
        file.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    def ones(name):
        file.add_tensor(name, numpy.ones(hidden, dtype=numpy.float32))

    matrix("token_embd.weight", args.vocabulary, hidden)
    for layer in range(args.layers):
        for name in ["attn_q", "attn_k", "attn_v", "attn_output"]:
            matrix(f"blk.{layer}.{name}.weight", hidden, hidden)
        for name, rows, columns in [("gate", mlp, hidden), ("up", mlp, hidden), ("down", hidden, mlp)]:
            matrix(f"blk.{layer}.ffn_{name}.weight", rows, columns)
        ones(f"blk.{layer}.attn_norm.weight")
        ones(f"blk.{layer}.ffn_norm.weight")
    ones("output_norm.weight")
    matrix("output.weight", args.vocabulary, hidden)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return weights


def filled(batch, rows):
    """`rows`: tokens, with their place, sequence, and whether their logits are asked for."""
    batch.n_tokens = len(rows)
    for i, (token, place, sequence, wants) in enumerate(rows):
        batch.token[i], batch.pos[i], batch.logits[i] = token, place, wants
        batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
    return batch


def run(context, batch, rows):
    if llama_cpp.llama_decode(context, filled(batch, rows)) != 0:
        raise SystemExit("llama_decode fails")
    chosen = []
    for i, row in enumerate(rows):
        if row[3]:
            logits = llama_cpp.llama_get_logits_ith(context, i)
            view = numpy.ctypeslib.as_array(logits, shape=(args.vocabulary,))
            chosen.append(int(view.argmax()))
    return chosen


with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
    weights = write(file.name)
    quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(file.name.encode(), llama_cpp.llama_model_default_params())
    options = llama_cpp.llama_context_default_params()
    options.n_ctx, options.n_batch, options.n_ubatch = args.batch * args.context, 512, 512
    options.n_seq_max = args.batch
    options.n_threads = options.n_threads_batch = args.threads
    options.type_k = options.type_v = int(kind)
    context = llama_cpp.llama_init_from_model(model, options)
    batch = llama_cpp.llama_batch_init(512, 0, 1)
    prefill, decode = [], []
    for number in range(args.rounds + 1):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        begun = time.perf_counter()
        newest = [0] * args.batch
        prompts = [
            (int(token), place, sequence, place + 1 == args.prompt)
            for sequence in range(args.batch)
            for place, token in enumerate(random.integers(0, args.vocabulary, args.prompt))
        ]
        for first in range(0, len(prompts), 512):
            rows = prompts[first : first + 512]
            ends = [row[2] for row in rows if row[3]]
            for sequence, token in zip(ends, run(context, batch, rows)):
                newest[sequence] = token
        middle = time.perf_counter()
        for step in range(args.tokens - 1):
            rows = [(newest[sequence], args.prompt + step, sequence, True) for sequence in range(args.batch)]
            newest = run(context, batch, rows)
        end = time.perf_counter()
        if number > 0:
            prefill.append(args.batch * args.prompt / (middle - begun))
            decode.append(args.batch * (args.tokens - 1) / (end - middle))

print(json.dumps({
    "llama-cpp-python": llama_cpp.__version__,
    "precision": args.precision,
    "sequences": args.batch,
    "threads": args.threads,
    "weights": weights,
    "prefill_tokens_per_second": round(statistics.median(prefill), 1),
    "decode_tokens_per_second": round(statistics.median(decode), 1),
}))
