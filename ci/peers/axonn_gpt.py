"""Peer: the same GPT trained by AxoNN 0.2.0 on the CPU, gloo between processes.

    axonn_gpt.py --x 2 --y 1 --z 2 --data 1 [--head parallel] [--overlap 0] [--threads 1]

Prints one JSON line; its keys are those of ranks.py, and `overlap` and `same_function`. Needs
`pip install --no-deps axonn==0.2.0`; axonn_cpu.py describes how it runs without a GPU.

Axes: x cuts output features (AxoNN's `G_intra_r`, outer), y cuts contracted features (`G_intra_c`, inner), z cuts rows of
the batch and every weight once more (`G_intra_d`, depth), and data replicates. The layers are AxoNN's in expert mode, used
as in its ports of Megatron-LM: query, key, value and up are normal, output and down are transposed. The residual stream is
cut over y between `Drop` and `Gather`. Embeddings are replicated on every rank, and so is the head unless `--head parallel`.
All of AxoNN's overlaps are on.

For y > 1, AxoNN's ports normalise each shard of the stream by its own mean and variance, and so does this program. This is
a different function from the serial model's (`same_function` is false): its time is comparable, but its loss is not.
"""

import contextlib
import os
import sys

import torch
from torch import nn

import axonn_cpu
import gpt
import ranks

NORMAL = ("attention.query", "attention.key", "attention.value", "mlp.up")
TRANSPOSED = ("attention.output", "mlp.down")


class ParallelGPT(gpt.GPT):
    """The serial model with its matrices replaced by AxoNN's, which cut the full weights when they load them."""

    def distribute(self, options, comm):
        from axonn.intra_layer import Linear

        weights = self.state_dict()
        self.inner, self.outer = comm.inner_intra_layer_parallel_group, comm.outer_intra_layer_parallel_group
        for block in self.blocks:
            for name in NORMAL + TRANSPOSED:
                n, k = block.get_submodule(name).weight.shape
                block.set_submodule(name, Linear(k, n, transpose=name in TRANSPOSED, expert_mode=True))
        self.parallel_head = options.head == "parallel"
        if self.parallel_head:
            self.head = Linear(options.width, options.vocabulary, bias=False, expert_mode=True)
        if options.y > 1:
            self.norm_shards(options.width // options.y)
            weights = {name: weight for name, weight in weights.items() if "norm" not in name}
        self.load_state_dict(weights, strict=options.y == 1)
        axonn_cpu.sync_biases_over_depth(self)

    def norm_shards(self, width):
        """Norms over only this rank's features; they start with gain 1 and bias 0 like those they replace."""
        self.final_norm = nn.LayerNorm(width)
        for block in self.blocks:
            block.norm1, block.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, ids):
        from axonn.intra_layer import Drop, Gather

        x = Drop.apply(self.embedding(ids), self.inner)
        for block in self.blocks:
            x = block(x)
        x = self.final_norm(x)
        if self.parallel_head:
            return Gather.apply(self.head(x), self.outer)
        return self.head(Gather.apply(x, self.inner))


class Reversed:
    """A model in the order of backward, for AxoNN's prefetch of weights, which only calls `modules()`."""

    def __init__(self, model):
        self.order = list(model.modules())[::-1]

    def modules(self):
        return iter(self.order)


@contextlib.contextmanager
def overlapped(model, on):
    """AxoNN's three overlaps around a step; yields the context for its backward.

    They are: the all-reduce of dX beside dW, the reduce-scatter of dW beside earlier layers, the all-gather of the next
    weight beside this layer. The last works in forward by itself, and in backward inside the second context.
    """
    from axonn.intra_layer import optimize_communication, overlap_all_gathers_for_checkpointed_forward

    with optimize_communication(on, on, on, model):
        yield overlap_all_gathers_for_checkpointed_forward(Reversed(model))


def share_of_batch(options, config):
    """Rows are cut over data and, inside a replica, over z."""
    part = config.data_parallel_rank * options.z + config.intra_layer_depth_parallel_rank
    return gpt.batch(options).chunk(options.data * options.z)[part]


def rank_main(rank, options):
    ranks.join(rank, options)
    axonn = axonn_cpu.start(options)
    from axonn.intra_layer import sync_gradients

    torch.manual_seed(0)
    model = ParallelGPT(options)
    model.distribute(options, axonn.comm_handle)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True, **ranks.ADAMW)
    ids = share_of_batch(options, axonn.config)

    def step():
        with overlapped(model, bool(options.overlap)) as backward:
            loss = gpt.next_token_loss(model(ids[:, :-1]), ids[:, 1:])
            optimizer.zero_grad()
            with backward:
                loss.backward()
        sync_gradients(model, mean=True, expert_mode=True)
        optimizer.step()
        return loss

    seconds, losses = ranks.timed(options, step)
    grid = ",".join(f"{axis}={getattr(options, axis)}" for axis in ("x", "y", "z", "data"))
    ranks.report(rank, options, seconds, losses, peer="axonn", mode="axonn", grid=grid,
                 overlap=bool(options.overlap), same_function=options.y == 1)
    sys.stdout.flush()
    os._exit(0)  # AxoNN never destroys its groups; gloo's threads sometimes abort when the interpreter tears them down


def refuse_indivisible(parser, options):
    for what, size, over in (("batch", options.batch, options.data * options.z), ("heads", options.heads, options.x),
                             ("width", options.width, options.y)):
        if size % over:
            parser.error(f"--{what} {size} does not divide over {over}")


def main():
    parser = ranks.parser(__doc__)
    for axis in ("x", "y", "z", "data"):
        parser.add_argument(f"--{axis}", type=int, default=1)
    parser.add_argument("--overlap", type=int, choices=(0, 1), default=1)
    options = parser.parse_args()
    refuse_indivisible(parser, options)
    options.ranks = options.x * options.y * options.z * options.data
    ranks.launch(rank_main, options)


if __name__ == "__main__":
    main()
