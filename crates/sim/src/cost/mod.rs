//! The cost of each piece of work on a machine, in seconds of the virtual clock.
//!
//! All costs are here: GEMMs from the machine's [`GemmModel`](grid::machine::GemmModel), kernels by the bytes they
//! move (`kernels`), collectives by the route of their group over the nodes (`collectives`).

mod collectives;
mod kernels;

use grid::machine::{
    AttentionForm, GemmShape, Machine, Placement, Variant, stored_attention_bytes,
};
use hal::{DType, Gemm, Kernel, StreamKind};
use kernels::Work;
use std::sync::Arc;

/// The costs of a job on a machine.
#[derive(Clone, Debug)]
pub struct Costs {
    machine: Arc<Machine>,
    placement: Placement,
    tuned: bool,
    attention: AttentionForm,
    // Number of ranks of a node that compute at a time.
    busy: f64,
    // Speed of the job's slowest device relative to the mean device.
    slowest: f64,
    memory_limit: Option<usize>,
    is_unbounded: bool,
}

impl Costs {
    /// The costs of a job of `ranks` ranks, which fill the machine's nodes in order.
    pub fn new(machine: Arc<Machine>, ranks: usize) -> Costs {
        let placement = machine.placement(ranks);
        let slowest = if ranks > 1 {
            machine.device.slowest.value
        } else {
            1.0
        };
        Costs {
            placement,
            tuned: true,
            attention: AttentionForm::Fused,
            busy: placement.per_node as f64,
            slowest,
            memory_limit: None,
            is_unbounded: false,
            machine,
        }
    }

    /// Assumes that `ranks` ranks of a node compute at a time, rather than all, because the others wait.
    pub fn busy(self, ranks: f64) -> Costs {
        Costs {
            busy: ranks,
            ..self
        }
    }

    /// Whether the fastest variant of every GEMM is used, as if chosen by timing; true by default.
    pub fn tuned(self, tuned: bool) -> Costs {
        Costs { tuned, ..self }
    }

    /// How attention is computed; in one kernel by default.
    pub fn attention(self, form: AttentionForm) -> Costs {
        Costs {
            attention: form,
            ..self
        }
    }

    /// Limits the bytes that each rank may allocate, as [`hal::DeviceSettings::memory_limit`] does on a device.
    pub fn memory_limit(self, memory_limit: Option<usize>) -> Costs {
        Costs {
            memory_limit,
            ..self
        }
    }

    /// Gives every rank all the memory that it asks for, to learn how much that is.
    pub fn unbounded(self) -> Costs {
        Costs {
            is_unbounded: true,
            ..self
        }
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The placement of the ranks on the nodes.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Seconds of a GEMM on the device; those of a batch run one after another.
    pub fn gemm(&self, gemm: &Gemm) -> f64 {
        let variant = match (gemm.a.transposed, gemm.b.transposed) {
            (false, false) => Variant::Nn,
            (false, true) => Variant::Nt,
            (true, false) => Variant::Tn,
            (true, true) => Variant::Tt,
        };
        let sides = gemm.m * gemm.k + gemm.k * gemm.n;
        let result = gemm.m * gemm.n * if gemm.beta == 0.0 { 1 } else { 2 };
        let bytes = sides * gemm.a.data.dtype.bytes() + result * gemm.c.data.dtype.bytes();
        let dtype = gemm.a.data.dtype.name();
        let shape = GemmShape {
            m: gemm.m,
            n: gemm.n,
            k: gemm.k,
            dtype,
            variant,
            bytes,
        };
        if shape.flop() == 0.0 {
            return 0.0;
        }
        let count = gemm.batch.count as f64;
        count
            * self.pace()
            * self
                .machine
                .product
                .seconds(&shape, &self.machine.device, self.tuned)
    }

    /// Bytes that a kernel reads and writes.
    pub fn moved_bytes(&self, kernel: &Kernel) -> f64 {
        match kernels::work(kernel) {
            Work::Bytes(bytes) | Work::Custom { bytes, .. } | Work::Attention { bytes, .. } => {
                bytes
            }
        }
    }

    /// Seconds of a kernel on the device.
    pub fn kernel(&self, kernel: &Kernel) -> f64 {
        let device = &self.machine.device;
        let moved =
            |bytes: f64| bytes / device.kernel_bandwidth(kernel.name(), kernels::family(kernel));
        self.pace()
            * match kernels::work(kernel) {
                Work::Bytes(bytes) => moved(bytes),
                Work::Custom { bytes, flop, dtype } => {
                    let peak = |dtype: DType| flop / device.peak(dtype.name());
                    dtype.map_or(0.0, peak).max(moved(bytes))
                }
                Work::Attention {
                    bytes,
                    shape,
                    dtype,
                    backward,
                } => {
                    let form = self.attention;
                    let seconds = self.machine.attention(&shape, dtype, form, backward);
                    seconds.max(moved(bytes))
                }
            }
    }

    /// Seconds of a kernel on this rank's share of the host's processors, where only its bytes count.
    pub fn host_kernel(&self, kernel: &Kernel) -> f64 {
        self.host_pace() * self.moved_bytes(kernel) / self.machine.device.host_update_bandwidth()
    }

    /// Seconds of a copy within the host's memory.
    pub fn host_copy(&self, bytes: usize) -> f64 {
        self.host_pace() * 2.0 * bytes as f64 / self.machine.device.host_update_bandwidth()
    }

    // Where the devices are the host, ranks share its cores.
    fn host_pace(&self) -> f64 {
        self.machine.crowding(self.busy)
    }

    /// Bytes that a kernel needs while it runs, besides its operands: scores and probabilities, if attention stores
    /// them.
    pub fn scratch_bytes(&self, kernel: &Kernel) -> usize {
        match kernels::work(kernel) {
            Work::Attention { shape, dtype, .. } if self.attention != AttentionForm::Fused => {
                stored_attention_bytes(&shape, dtype)
            }
            _ => 0,
        }
    }

    /// Seconds of a copy within the device.
    pub fn copy(&self, bytes: usize) -> f64 {
        self.pace() * 2.0 * bytes as f64 / self.machine.device.kernel_bandwidth("copy", "layout")
    }

    /// Seconds of a copy from or to the host, on a stream of that kind.
    pub fn transfer(&self, kind: StreamKind, bytes: usize) -> f64 {
        let device = &self.machine.device;
        let bandwidth = match kind {
            StreamKind::Files => device.files_bandwidth(),
            _ => device.host_bandwidth(),
        };
        bytes as f64 / bandwidth
    }

    /// Seconds of host time to start one piece of work.
    pub fn launch_host(&self) -> f64 {
        self.machine.crowding(self.busy) * self.machine.device.launch.host_us.value * 1e-6
    }

    /// Seconds between two pieces of work on a stream.
    pub fn launch_device(&self) -> f64 {
        self.machine.device.launch.device_us.value * 1e-6
    }

    /// Fraction of the device that a running collective takes from concurrent compute.
    pub fn compute_slowdown(&self) -> f64 {
        self.machine.device.collective_share.value.clamp(0.0, 1.0)
    }

    // Seconds on this job's slowest device per second on the mean device, including the effect of shared cores.
    fn pace(&self) -> f64 {
        self.machine.crowding(self.busy) / self.slowest
    }

    /// Bytes of one device's memory that a program can use.
    pub fn memory_bytes(&self) -> usize {
        let all = self.machine.device.memory_bytes();
        match (self.is_unbounded, self.memory_limit) {
            (true, _) => usize::MAX >> 1,
            (false, limit) => limit.map_or(all, |limit| limit.min(all)),
        }
    }
}
