"""Peer: training steps of the GPT in PyTorch on the CPU, gloo between processes.

    torch_gpt.py --mode serial --threads 2          one process, no communication
    torch_gpt.py --mode ddp --world 2               DistributedDataParallel, batch cut
    torch_gpt.py --mode tp --world 2                DTensor, Megatron's cut of attention and MLP, full batch
    torch_gpt.py --mode fsdp --world 2              fully_shard on every block, batch cut
    torch_gpt.py --export DIR                       writes DIR/gpt.safetensors (weights and batch), trains nothing

Prints one JSON line; its keys are in ranks.py.
"""

import contextlib
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import gpt
import ranks

AXIS = dict(serial="x", ddp="data", tp="x", fsdp="z")


def ddp(model, options):
    return torch.nn.parallel.DistributedDataParallel(model)


def tp(model, options):
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (options.ranks,))
    plan = {f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")}
    plan |= {"attention.output": RowwiseParallel(), "mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    if options.head == "parallel":
        head = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
        parallelize_module(model, mesh, {"head": head})
    return model


def fsdp(model, options):
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (options.ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def adamw(model):
    """AdamW over lists of tensors (`foreach`); DTensors may not share a list with plain ones, so they get their own."""
    kinds = {}
    for parameter in model.parameters():
        kinds.setdefault(type(parameter.data), []).append(parameter)
    return torch.optim.AdamW([dict(params=group) for group in kinds.values()], foreach=True, **ranks.ADAMW)


def loss_context(options):
    """With a parallel head the softmax is computed on shards of the vocabulary."""
    if options.mode == "tp" and options.head == "parallel":
        from torch.distributed.tensor.parallel import loss_parallel

        return loss_parallel()
    return contextlib.nullcontext()


def rank_main(rank, options):
    if options.mode == "serial":
        torch.set_num_threads(options.threads)
    else:
        ranks.join(rank, options)
    model = gpt.initial_model(options)
    if options.mode != "serial":
        model = dict(ddp=ddp, tp=tp, fsdp=fsdp)[options.mode](model, options)
    optimizer = adamw(model)
    ids = gpt.batch(options)
    if options.mode in ("ddp", "fsdp"):
        ids = ids.chunk(options.ranks)[rank]

    def step():
        with loss_context(options):
            loss = gpt.next_token_loss(model(ids[:, :-1]), ids[:, 1:])
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        return loss.full_tensor() if hasattr(loss, "full_tensor") else loss

    seconds, losses = ranks.timed(options, step)
    grid = f"{AXIS[options.mode]}={options.ranks}"
    ranks.report(rank, options, seconds, losses, peer="torch", mode=options.mode, grid=grid)
    if options.mode != "serial":
        dist.destroy_process_group()


def main():
    parser = ranks.parser(__doc__)
    parser.add_argument("--mode", choices=tuple(AXIS), default="serial")
    parser.add_argument("--world", type=int, default=1, dest="ranks", help="processes (1 for serial)")
    parser.add_argument("--export", type=Path, metavar="DIR")
    options = parser.parse_args()
    if options.export:
        options.export.mkdir(parents=True, exist_ok=True)
        gpt.export(options, options.export / "gpt.safetensors")
    elif options.mode == "serial":
        if options.ranks != 1:
            parser.error(f"--mode serial runs 1 process, --world says {options.ranks}")
        rank_main(0, options)
    elif options.mode in ("ddp", "fsdp") and options.batch % options.ranks:
        parser.error(f"--batch {options.batch} does not divide over {options.ranks} ranks")
    else:
        ranks.launch(rank_main, options)


if __name__ == "__main__":
    main()
