"""Peer: in-place all-reduce (sum, f32) between processes of this machine, over gloo or over Open MPI.

    all_reduce.py --over gloo --ranks 2
    all_reduce.py --over mpi --ranks 2 [--bytes 4194304]      starts itself under mpirun

Prints one JSON line per size, 1 KiB to 64 MiB: peer, library, operation, ranks, bytes, us (median of the calls on rank 0,
each after a barrier), min_us, max_us, algbw_gbs (bytes / time), busbw_gbs (times 2(n-1)/n: what a ring must move).
Exit status 3: this machine lacks what the peer needs.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

SIZES = [1 << shift for shift in range(10, 27, 2)]
WARM_UP, CALLS = 3, 15
ABSENT = 3


def measure(ranks, bytes_, reduce, barrier):
    """Seconds of each call after warm-up. Ones must become ranks^calls, otherwise the time is meaningless."""
    buffer = np.ones(bytes_ // 4, np.float32)
    seconds = []
    for _ in range(CALLS):
        barrier()
        start = time.perf_counter()
        reduce(buffer)
        seconds.append(time.perf_counter() - start)
    np.testing.assert_allclose(buffer, float(ranks) ** CALLS, rtol=1e-5)
    return seconds[WARM_UP:]


def report(options, peer, library, bytes_, seconds):
    median = statistics.median(seconds)
    bandwidth = bytes_ / median / 1e9
    print(json.dumps(dict(
        peer=peer, library=library, operation="all_reduce", ranks=options.ranks, bytes=bytes_, us=round(median * 1e6, 2),
        min_us=round(min(seconds) * 1e6, 2), max_us=round(max(seconds) * 1e6, 2), algbw_gbs=round(bandwidth, 4),
        busbw_gbs=round(bandwidth * 2 * (options.ranks - 1) / options.ranks, 4))), flush=True)


def gloo_rank(rank, options):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=options.rendezvous, rank=rank, world_size=options.ranks)
    for bytes_ in options.bytes:
        seconds = measure(options.ranks, bytes_, lambda buffer: dist.all_reduce(torch.from_numpy(buffer)), dist.barrier)
        if rank == 0:
            report(options, "gloo", f"torch {torch.__version__}", bytes_, seconds)
    dist.destroy_process_group()


def over_gloo(options):
    try:
        import torch.multiprocessing as multiprocessing
    except ImportError as error:
        absent("gloo", error)
    with tempfile.TemporaryDirectory() as folder:
        options.rendezvous = f"file://{folder}/store"
        multiprocessing.spawn(gloo_rank, (options,), nprocs=options.ranks)


def mpi_rank(options):
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    library = MPI.Get_library_version().split(",")[0]
    assert world.size == options.ranks, f"mpirun started {world.size} ranks, {options.ranks} asked for"
    for bytes_ in options.bytes:
        seconds = measure(world.size, bytes_, lambda buffer: world.Allreduce(MPI.IN_PLACE, buffer), world.Barrier)
        if world.rank == 0:
            report(options, "openmpi" if library.startswith("Open MPI") else "mpi", library, bytes_, seconds)


def over_mpi(options):
    """Starts this program under mpirun, preferably the one beside this Python, so that it matches mpi4py's."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpirun")
    mpirun = beside if os.path.exists(beside) else shutil.which("mpirun")
    if mpirun is None:
        absent("mpi", "no mpirun beside this Python or on PATH")
    loads = subprocess.run([sys.executable, "-c", "from mpi4py import MPI"], capture_output=True, text=True)
    if loads.returncode:
        absent("mpi", loads.stderr.strip().splitlines()[-1])
    # Open MPI yields the processor while it waits once it knows that ranks share cores; only say so where they do.
    crowded = ["--oversubscribe"] if options.ranks > len(os.sched_getaffinity(0)) else []
    environment = os.environ | dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    sizes = [str(size) for size in options.bytes]
    command = [mpirun, *crowded, "-n", str(options.ranks), sys.executable, __file__, "--over", "mpi", "--as-rank",
               "--ranks", str(options.ranks), "--bytes", *sizes]
    sys.exit(subprocess.run(command, env=environment).returncode)


def absent(peer, why):
    print(f"all_reduce.py: {peer} is not available here: {why}", file=sys.stderr)
    sys.exit(ABSENT)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--over", choices=("gloo", "mpi"), required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bytes", type=int, nargs="+", default=SIZES, help="multiples of 4")
    parser.add_argument("--as-rank", action="store_true", help="used by this program under mpirun")
    options = parser.parse_args()
    if any(size < 4 or size % 4 for size in options.bytes):
        parser.error(f"--bytes {options.bytes}: every size must be a positive multiple of 4")
    if options.as_rank:
        mpi_rank(options)
    else:
        dict(gloo=over_gloo, mpi=over_mpi)[options.over](options)


if __name__ == "__main__":
    main()
