"""The comparisons: for each case, the arguments of Fascicle, and the program and arguments of the peer.

Threads are per rank. Both sides have the same number of ranks, weights, batch and optimiser, and f32 throughout.
"""

from dataclasses import dataclass

AXONN_GRIDS = ("x=2", "y=2", "z=2", "data=2", "x=2,y=2", "x=2,z=2", "x=4", "x=2,y=2,z=2")
ALL_REDUCE_BYTES = 4 << 20


@dataclass(frozen=True)
class Case:
    """One comparison; `group` names several at once on the command line."""

    name: str
    group: str
    ours: tuple
    peer: str
    program: str
    theirs: tuple
    unit: str = "step_s"


def step(name, group, grid, peer, program, *theirs, threads=1):
    ours = ("bench", "step", "--json", "--grid", grid, "--threads", str(threads))
    return Case(name, group, ours, peer, program, (*theirs, "--threads", str(threads)))


def axonn(grid):
    theirs = [word for axis in grid.split(",") for word in ("--" + axis.split("=")[0], axis.split("=")[1])]
    name = "axonn-" + grid.replace("=", "").replace(",", "")
    return step(name, "axonn", grid, "AxoNN", "axonn_gpt.py", *theirs)


def all_reduce(over, peer):
    ours = ("bench", "collectives", "--json", "--ranks", "2")
    theirs = ("--over", over, "--ranks", "2", "--bytes", str(ALL_REDUCE_BYTES))
    return Case(f"all-reduce-{over}", "all-reduce", ours, peer, "all_reduce.py", theirs, unit="us")


CASES = [
    step("serial-1", "serial", "x=1", "PyTorch", "torch_gpt.py", "--mode", "serial"),
    step("serial-2", "serial", "x=1", "PyTorch", "torch_gpt.py", "--mode", "serial", threads=2),
    step("ddp-2", "ddp", "data=2", "PyTorch DDP", "torch_gpt.py", "--mode", "ddp", "--world", "2"),
    step("tp-2", "tp", "x=2", "PyTorch DTensor", "torch_gpt.py", "--mode", "tp", "--world", "2"),
    step("tp-4", "tp", "x=4", "PyTorch DTensor", "torch_gpt.py", "--mode", "tp", "--world", "4"),
    step("fsdp-2", "fsdp", "z=2", "PyTorch FSDP", "torch_gpt.py", "--mode", "fsdp", "--world", "2"),
    *map(axonn, AXONN_GRIDS),
    all_reduce("mpi", "Open MPI"),
    all_reduce("gloo", "gloo"),
]


def select(words):
    """The cases named by the words, by case or by group; all cases without words. Raises KeyError with unknown words."""
    unknown = [word for word in words if not any(word in (case.name, case.group) for case in CASES)]
    if unknown:
        raise KeyError(", ".join(unknown))
    return [case for case in CASES if not words or case.name in words or case.group in words]
