"""Peer: PyTorch's side of the measurements in `ci/gpu.sh`: GEMMs, fused attention, training steps.

    gpu.py matmuls attention step --layers 24 --width 2048 --heads 16 --context 2048 --vocabulary 51200 --batch 4
    gpu.py step --compile                           the step through torch.compile; without it, eager
    gpu.py --device cpu --tiny                      all three on any machine, to show that this program works; not for speed

Types are those of Fascicle's bf16: weights and activations in bf16; master weights, their gradients and the state of AdamW
in fp32. So the model has bf16 weights and does not use autocast, which would keep norms and the residual stream in fp32 and
move more bytes. After each backward pass, gradients are copied to fp32, PyTorch's fused AdamW updates the masters, and the
weights are copied back.

Prints one JSON line for each GEMM (with the keys of `fascicle bench gemm --json`), attention (of `bench kernels --json`)
and step (of `bench step --json`). Exits with status 3 if there is no such device, or no
PyTorch.
"""

import argparse
import json
import statistics
import sys
import time
from types import SimpleNamespace

ABSENT = 3
try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as missing:
    print(f"gpu.py: no PyTorch in {sys.executable}: {missing}", file=sys.stderr)
    sys.exit(ABSENT)

import gpt
import ranks

PARTS = ("matmuls", "attention", "step")
TINY = dict(layers=1, width=64, heads=1, context=16, vocabulary=128, batch=2)
HEAD_WIDTHS = (64, 128)
FUSED = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)
DTYPE = torch.bfloat16
# As `fascicle bench gemm` and `bench kernels` time: batches of calls between two waits.
REPETITIONS, SHORTEST_BATCH_S, MOST_CALLS = 9, 0.005, 4096


class Clock:
    """Seconds by the host's clock, for work that has completed."""

    def __init__(self, device):
        self.wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None

    def seconds(self, call, calls=1):
        """Seconds of a batch of calls between two waits."""
        self.wait()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        self.wait()
        return time.perf_counter() - start

    def batches(self, call):
        """Seconds per call, as the mean of each batch. A batch has as many calls as it needs to be long enough."""
        calls = 1
        self.seconds(call)
        while self.seconds(call, calls) < SHORTEST_BATCH_S and calls < MOST_CALLS:
            calls *= 2
        return [self.seconds(call, calls) / calls for _ in range(REPETITIONS)]


def spread(seconds, digits=1):
    """Median, smallest and largest in microseconds."""
    return [round(1e6 * value, digits) for value in (statistics.median(seconds), min(seconds), max(seconds))]


def random(options, *shape):
    return torch.rand(shape, device=options.device).sub_(0.5).to(DTYPE)


def shapes(tokens, width, vocabulary):
    """The GEMMs of `fascicle bench gemm`: name, form, m, n, k."""
    wide = 4 * width
    for layer, inside, outside in (("attention", width, width), ("mlp up", width, wide), ("mlp down", wide, width)):
        yield f"{layer} forward", "NN", tokens, outside, inside
        yield f"{layer} d_input", "NT", tokens, inside, outside
        yield f"{layer} d_weight", "TN", inside, outside, tokens
    yield "head forward", "NT", tokens, vocabulary, width
    yield "head d_input", "NN", tokens, width, vocabulary
    yield "head d_weight", "TN", vocabulary, width, tokens


def matmuls(options, clock):
    """The matrices are stored like Fascicle's: one that is used transposed is stored transposed."""
    for what, form, m, n, k in shapes(options.batch * options.context, options.width, options.vocabulary):
        first = random(options, k, m).t() if form == "TN" else random(options, m, k)
        second = random(options, n, k).t() if form == "NT" else random(options, k, n)
        out = torch.empty(m, n, device=options.device, dtype=DTYPE)
        seconds = clock.batches(lambda: torch.matmul(first, second, out=out))
        us, low, high = spread(seconds)
        gflops = round(2 * m * n * k / statistics.median(seconds) / 1e9, 1)
        yield dict(what=what, form=form, m=m, n=n, k=k, dtype="bf16", us=us, min_us=low, max_us=high, gflops=gflops)


def attention(options, clock):
    """Causal attention by the fastest of PyTorch's fused kernels; flop are counted as in `fascicle bench kernels`."""
    widths = {width for width in HEAD_WIDTHS if options.width % width == 0} | {options.width // options.heads}
    for head_width in sorted(widths):
        flop = 2 * options.context**2 * options.batch * options.width
        timed = dict(fused(options, clock, head_width))
        if not timed:
            raise RuntimeError(f"no fused attention for heads of {head_width} on {options.device}")
        for index, (name, factor) in enumerate((("", 1), (" backward", 2.5))):
            backend = min(timed, key=lambda backend: statistics.median(timed[backend][index]))
            us, low, high = spread(timed[backend][index], digits=3)
            yield dict(kernel=f"attention {head_width}{name}", dtype="bf16", backend=backend, microseconds=us, low=low,
                       high=high, tflop_per_s=round(factor * flop / us / 1e6, 5))


def fused(options, clock, head_width):
    """Pairs of a backend that runs here and its seconds, forward and backward."""
    def heads():
        rows = random(options, options.batch, options.context, options.width).requires_grad_()
        return rows, rows.unflatten(-1, (-1, head_width)).transpose(1, 2)

    (rows, views) = zip(*(heads() for _ in range(3)))
    d_out = random(options, *views[0].shape)
    for backend in FUSED:
        try:
            with sdpa_kernel(backend):
                with torch.no_grad():
                    forward = clock.batches(lambda: F.scaled_dot_product_attention(*views, is_causal=True))
                out = F.scaled_dot_product_attention(*views, is_causal=True)
                backward = clock.batches(lambda: torch.autograd.grad(out, views, d_out, retain_graph=True))
        except RuntimeError as why:
            print(f"gpu.py: {backend.name}: {str(why).splitlines()[0]}", file=sys.stderr)
        else:
            yield backend.name, (forward, backward)


class Masters:
    """A bf16 model with fp32 master weights, and AdamW on those."""

    def __init__(self, model):
        self.weights = list(model.parameters())
        self.masters = [weight.detach().float() for weight in self.weights]
        for master in self.masters:
            master.grad = torch.zeros_like(master)
        on_device = self.masters[0].device.type == "cuda"
        kind = dict(fused=True) if on_device else dict(foreach=True)
        self.optimizer = torch.optim.AdamW(self.masters, **kind, **ranks.ADAMW)

    @torch.no_grad()
    def step(self):
        torch._foreach_copy_([master.grad for master in self.masters], [weight.grad for weight in self.weights])
        self.optimizer.step()
        torch._foreach_copy_(self.weights, self.masters)


def step(options, clock):
    """Steps on one batch, AdamW included."""
    with torch.device(options.device):
        model = gpt.initial_model(options).to(DTYPE)
    masters = Masters(model)
    ids = gpt.batch(options).to(options.device)
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    forward = lambda: gpt.next_token_loss(model(inputs), targets)
    forward = torch.compile(forward, dynamic=False) if options.compile else forward
    losses = []

    def one():
        model.zero_grad(set_to_none=True)
        loss = forward()
        loss.backward()
        masters.step()
        losses.append(loss.detach())

    seconds = [clock.seconds(one) for _ in range(options.steps)]
    kept = seconds[ranks.WARM_UP:] or seconds
    losses = [round(loss.item(), 6) for loss in losses]
    yield dict(peer="torch", mode="compiled" if options.compile else "eager", steps=options.steps,
               precision="bf16 weights and activations, fp32 master weights and AdamW",
               step_s=round(statistics.median(kept), 5), min_s=round(min(kept), 5), max_s=round(max(kept), 5),
               loss=losses[-1], losses=losses)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; all when none is named")
    for name, value in gpt.SIZES.items():
        parser.add_argument(f"--{name}", type=int, help=f"by default {value}, with --tiny {TINY[name]}")
    parser.add_argument("--steps", type=int, default=9, help="the first two of them warm-up")
    parser.add_argument("--device", default="cuda", help="cuda, which is ROCm's name too, or cpu")
    parser.add_argument("--compile", action="store_true", help="the step through torch.compile")
    parser.add_argument("--tiny", action="store_true", help="sizes that any machine computes at once")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"{unknown[0]}: needs {', '.join(PARTS)}")
    for name, value in (TINY if options.tiny else gpt.SIZES).items():
        given = getattr(options, name)
        setattr(options, name, value if given is None else given)
        if getattr(options, name) < 1:
            parser.error(f"--{name} {given}: at least 1")
    if options.width % options.heads:
        parser.error(f"--width {options.width} does not divide over {options.heads} heads")
    if options.steps < 1:
        parser.error(f"--steps {options.steps}: at least 1")
    return SimpleNamespace(**vars(options) | dict(device=torch.device(options.device), parts=options.parts or PARTS))


def main():
    options = parse()
    if options.device.type == "cuda" and not torch.cuda.is_available():
        print(f"gpu.py: PyTorch {torch.__version__} finds no device here", file=sys.stderr)
        sys.exit(ABSENT)
    name = torch.cuda.get_device_name() if options.device.type == "cuda" else "cpu"
    clock = Clock(options.device)
    for part in options.parts:
        for line in dict(matmuls=matmuls, attention=attention, step=step)[part](options, clock):
            print(json.dumps(line | dict(torch=torch.__version__, device=name)), flush=True)


if __name__ == "__main__":
    main()
