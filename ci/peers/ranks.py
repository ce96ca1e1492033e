"""Code shared by the training peers: options, starting ranks, timing of steps, the JSON line.

A step is forward, backward and the optimiser, followed by a barrier if there is more than one rank. The figures exclude
two warm-up steps. The keys of the line are those of `fascicle bench step --json`, and a few more:

    peer, mode, grid, ranks, threads (per rank), head, steps
    step_s, min_s, max_s    median and extremes of the steps after warm-up, on rank 0
    loss, losses            mean over the full batch in each step's forward; `loss` is that of the last step
    peak_mib, base_mib      peak resident memory of a rank; the part that importing PyTorch took on rank 0
    torch                   version
"""

import argparse
import json
import os
import re
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

from gpt import SIZES

WARM_UP = 2
# Stated here because Fascicle must use the same: PyTorch's defaults but for `lr`, decay on every parameter.
ADAMW = dict(lr=3e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


def parser(doc):
    """A parser with the options that all training peers accept."""
    options = argparse.ArgumentParser(description=doc.splitlines()[0])
    for name, value in (SIZES | dict(steps=9, threads=1)).items():
        options.add_argument(f"--{name}", type=int, default=value)
    options.add_argument("--head", choices=("serial", "parallel"), default="serial",
                         help="a copy of the head on every rank of a tensor group, or its vocabulary cut over them")
    return options


def launch(rank_main, options):
    """Runs `rank_main(rank, options)` in `options.ranks` processes that find each other through a file."""
    with tempfile.TemporaryDirectory() as folder:
        options.rendezvous = f"file://{folder}/store"
        torch.multiprocessing.spawn(rank_main, (options,), nprocs=options.ranks)


def join(rank, options):
    """Makes this process a rank: its threads, and gloo over the loopback device."""
    torch.set_num_threads(options.threads)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=options.rendezvous, rank=rank, world_size=options.ranks)


def timed(options, step):
    """Runs `step`, which returns its loss; returns seconds and losses, one of each per step."""
    seconds, losses = [], []
    for _ in range(options.steps):
        start = time.perf_counter()
        loss = step()
        if options.ranks > 1:
            dist.barrier()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.detach())
    return seconds, torch.stack(losses)


def peak_mib():
    """Peak resident memory of this process. `ru_maxrss` would not do: it starts from that of the parent."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024


BASE_MIB = peak_mib()


def report(rank, options, seconds, losses, **facts):
    """Prints the line on rank 0; every rank must call it. Equal shares of the batch make the mean over ranks its loss."""
    peak = torch.tensor(peak_mib())
    if options.ranks > 1:
        dist.all_reduce(losses)
        dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    if rank != 0:
        return
    kept = seconds[WARM_UP:] or seconds
    losses = [round(loss / options.ranks, 6) for loss in losses.tolist()]
    line = facts | dict(
        ranks=options.ranks, threads=options.threads, head=options.head, steps=options.steps,
        step_s=round(statistics.median(kept), 5), min_s=round(min(kept), 5), max_s=round(max(kept), 5),
        loss=losses[-1], losses=losses, peak_mib=round(peak.item(), 1), base_mib=round(BASE_MIB, 1), torch=torch.__version__)
    print(json.dumps(line), flush=True)
