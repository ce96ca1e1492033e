"""Prefill and decode of a GPT-2 in `transformers`, with its cache, for comparison with `fascicle bench generate`.

    python ci/peers/transformers_generate.py --batch 1 --threads 2 --precision bf16

Weights are random: only the time counts. Sizes are those of `fascicle bench generate`. Tokens are chosen greedily, by a loop
around the model, which leaves out what `generate` does around it. Prints one line of JSON.
"""

import argparse
import json
import statistics
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--prompt", type=int, default=16)
parser.add_argument("--tokens", type=int, default=240)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
parser.add_argument("--rounds", type=int, default=3)
args = parser.parse_args()

torch.manual_seed(1)
torch.set_num_threads(args.threads)
dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.precision]
config = GPT2Config(
    n_layer=4, n_embd=512, n_head=8, n_positions=256, vocab_size=8192, tie_word_embeddings=False
)
model = GPT2LMHeadModel(config).to(dtype).eval()
ids = torch.randint(0, 8192, (args.batch, args.prompt))


def step(ids, cache):
    out = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values


prefill, decode = [], []
with torch.inference_mode():
    for _ in range(args.rounds + 1):
        begun = time.perf_counter()
        token, cache = step(ids, None)
        after = time.perf_counter()
        for _ in range(args.tokens - 1):
            token, cache = step(token, cache)
        prefill.append(after - begun)
        decode.append(time.perf_counter() - after)

# The first round warms up.
prefill, decode = statistics.median(prefill[1:]), statistics.median(decode[1:])
print(
    json.dumps(
        {
            "torch": torch.__version__,
            "precision": args.precision,
            "sequences": args.batch,
            "threads": args.threads,
            "prefill_tokens_per_second": round(args.batch * args.prompt / prefill, 1),
            "decode_tokens_per_second": round(args.batch * (args.tokens - 1) / decode, 1),
        }
    )
)
