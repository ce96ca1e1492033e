"""Lets AxoNN 0.2.0, written for CUDA and NCCL, run on the CPU over gloo.

AxoNN's algorithm is unchanged: the same matmuls and the same collectives, in the same order, on the same data.
These requests are answered differently:

- communicators are requested with the back end "nccl" and NumPy integers as ranks     -> `groups_over_gloo`
- memory is requested on "cuda", or on the number of the current device                  -> `memory_on_cpu`
- a device synchronise completes overlapped reduce-scatters, but gloo's complete only when their handles are waited
  for, and must not touch autograd while they copy their result out                    -> `collectives_complete`
- biases: `sync_gradients` of expert mode looks for the mark `needs_gradient_sync`, but layers set
  `needs_depth_parallel_gradient_sync`, so bias gradients are never summed over z        -> `sync_biases_over_depth`
"""

import functools

import torch
import torch.distributed as dist


def start(options):
    """Imports AxoNN with the substitutions in place and builds its grid; returns its communication handle."""
    torch.cuda.set_device = lambda device: None
    torch.cuda.current_device = lambda: "cpu"
    from axonn import axonn
    from axonn.intra_layer import fully_connected, overlap_communication

    memory_on_cpu(fully_connected)
    collectives_complete(overlap_communication)
    with_nccl = dist.new_group
    dist.new_group = groups_over_gloo(with_nccl)
    try:
        axonn.init(G_inter=1, G_data=options.data, G_intra_r=options.x, G_intra_c=options.y, G_intra_d=options.z,
                   gpus_per_node=options.ranks)
    finally:
        dist.new_group = with_nccl
    return axonn


def groups_over_gloo(new_group):
    def make(ranks, backend):
        assert backend == "nccl"
        return new_group([int(rank) for rank in ranks], backend="gloo")

    return make


def memory_on_cpu(fully_connected):
    """Layers make their initial weights on the device named by a default argument."""
    initialise = fully_connected.initialize_params.__wrapped__
    assert initialise.__defaults__ == ("cuda",)
    initialise.__defaults__ = ("cpu",)


class Work:
    """A started collective; its wait copies the result from gloo's buffer, which autograd must not see."""

    def __init__(self, work):
        self.work = work

    @torch.no_grad()
    def wait(self):
        self.work.wait()


def unseen_by_autograd(collective):
    @functools.wraps(collective)
    @torch.no_grad()
    def call(output, source, group=None, async_op=False):
        work = collective(output, source, group=group, async_op=async_op)
        return Work(work) if async_op else work

    return call


def collectives_complete(overlap):
    """When the context of a step ends, AxoNN synchronises the device and then uses the gradients."""
    dist.reduce_scatter_tensor = unseen_by_autograd(dist.reduce_scatter_tensor)
    dist.all_gather_into_tensor = unseen_by_autograd(dist.all_gather_into_tensor)
    torch.cuda.synchronize = lambda device=None: [work.wait() for work in overlap.handles]


def sync_biases_over_depth(model):
    for parameter in model.parameters():
        parameter.needs_gradient_sync = getattr(parameter, "needs_depth_parallel_gradient_sync", False)
