//! The capabilities of a single device.

use super::quantity::Quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One accelerator of a machine; on MI250X one GCD.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its product name.
    pub name: String,
    /// `cuda`, `rocm` or `cpu`.
    pub vendor: String,
    /// Memory available to a program, in GiB.
    pub memory_gib: Quantity,
    /// Memory that contexts, libraries and communicators take before the program starts, in GiB.
    pub reserved_gib: Quantity,
    /// Bandwidth of its memory, in GB/s.
    pub memory_gbps: Quantity,
    /// Advertised peak of GEMMs by element type (`f64`, `f32`, `bf16`, `f16`), in Tflop/s.
    pub peak_tflops: BTreeMap<String, Quantity>,
    /// Speed of the slowest device of a large job, relative to the mean; synchronous jobs run at its pace.
    pub slowest: Quantity,
    /// Cores that the devices of a node share if they are the host; `None` for accelerators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_cores: Option<Quantity>,
    /// Fraction of the memory bandwidth that kernels reach, by family; `other` applies to families not named.
    pub kernel_efficiency: BTreeMap<String, Quantity>,
    /// Attention without the s x s matrix.
    pub attention: Attention,
    /// The cost of starting a piece of work.
    pub launch: Launch,
    /// Fraction of the device that a running collective takes from concurrent compute.
    pub collective_share: Quantity,
    /// Bandwidth between host and device, in GB/s.
    pub host_gbps: Quantity,
    /// Memory of a node's host for each of its devices, in GiB, less what the system takes; `None` if it is not known, and
    /// where the devices are the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_memory_gib: Option<Quantity>,
    /// Bandwidth of the host's memory for each device while the host's processors update for all devices of a node, in GB/s of
    /// bytes read and written; `None` if it is not known. Where the devices are the host, it is that of their own updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_update_gbps: Option<Quantity>,
    /// Bandwidth between files on a node's own disks and each of its devices while all devices of the node use them, in GB/s
    /// of the slower direction; `None` if it is not known, or the nodes have no such disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_gbps: Option<Quantity>,
}

/// Speed of fused attention, as a fraction of the advertised peak of its element type, counted over the pairs of
/// queries and keys that meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Forward.
    pub forward: Quantity,
    /// Backward, with 2.5 times the flop of forward.
    pub backward: Quantity,
}

/// The cost of starting a piece of work, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Host time.
    pub host_us: Quantity,
    /// Between two pieces of work on the device.
    pub device_us: Quantity,
}

impl Device {
    /// Bytes available to a program.
    pub fn memory_bytes(&self) -> usize {
        ((self.memory_gib.value - self.reserved_gib.value) * f64::from(1 << 30)) as usize
    }

    /// Bytes of the host's memory that a program on the device may take, if they are known.
    pub fn host_memory_bytes(&self) -> Option<usize> {
        let gib = self.host_memory_gib.as_ref()?;
        Some((gib.value * f64::from(1 << 30)) as usize)
    }

    /// Advertised peak in flop/s of an element type; 16-bit types stand in for each other, and any type for one that the
    /// description does not state.
    pub fn peak(&self, dtype: &str) -> f64 {
        let any = || self.peak_tflops.values().next();
        self.stated_peak(dtype)
            .or_else(|| any().map(|peak| peak.value * 1e12))
            .unwrap_or(1e12)
    }

    /// The same, without another type in place of one that the description does not state.
    pub fn stated_peak(&self, dtype: &str) -> Option<f64> {
        let other = match dtype {
            "bf16" => "f16",
            "f16" => "bf16",
            other => other,
        };
        let stated = |dtype| self.peak_tflops.get(dtype);
        let peak = stated(dtype).or_else(|| stated(other))?;
        Some(peak.value * 1e12)
    }

    /// Bytes per second that a kernel moves: looked up by its name, then by its family, then as `other`.
    pub fn kernel_bandwidth(&self, kernel: &str, family: &str) -> f64 {
        let efficiency = [kernel, family, "other"]
            .iter()
            .find_map(|name| self.kernel_efficiency.get(*name));
        self.memory_gbps.value * 1e9 * efficiency.map_or(1.0, |share| share.value)
    }

    /// Bytes per second between host and device.
    pub fn host_bandwidth(&self) -> f64 {
        self.host_gbps.value * 1e9
    }

    /// Bytes per second that an update on the host's processors reads and writes for each device, if it is known.
    pub fn stated_host_update_bandwidth(&self) -> Option<f64> {
        if let Some(stated) = &self.host_update_gbps {
            return Some(stated.value * 1e9);
        }
        let is_host = self.shared_cores.is_some();
        is_host.then(|| self.kernel_bandwidth("adamw", "optimiser"))
    }

    /// The same; that of the link where it is not known.
    pub fn host_update_bandwidth(&self) -> f64 {
        let stated = self.stated_host_update_bandwidth();
        stated.unwrap_or_else(|| self.host_bandwidth())
    }

    /// Bytes per second between files and a device: those of the host where files are faster, or of unknown speed.
    pub fn files_bandwidth(&self) -> f64 {
        let host = self.host_bandwidth();
        let files = self.files_gbps.as_ref().map(|files| files.value * 1e9);
        files.map_or(host, |files| files.min(host))
    }

    pub(super) fn quantities(&self) -> Vec<(String, &Quantity)> {
        let mut all = vec![
            ("device.memory_gib".into(), &self.memory_gib),
            ("device.memory_gbps".into(), &self.memory_gbps),
            ("device.slowest".into(), &self.slowest),
            ("device.attention.forward".into(), &self.attention.forward),
            ("device.attention.backward".into(), &self.attention.backward),
            ("device.launch.host_us".into(), &self.launch.host_us),
            ("device.launch.device_us".into(), &self.launch.device_us),
            ("device.host_gbps".into(), &self.host_gbps),
        ];
        let optional = [
            ("device.host_memory_gib", &self.host_memory_gib),
            ("device.host_update_gbps", &self.host_update_gbps),
            ("device.files_gbps", &self.files_gbps),
            ("device.shared_cores", &self.shared_cores),
        ];
        all.extend(
            optional
                .into_iter()
                .filter_map(|(key, value)| Some((key.into(), value.as_ref()?))),
        );
        all.extend(
            self.peak_tflops
                .iter()
                .map(|(key, peak)| (format!("device.peak_tflops.{key}"), peak)),
        );
        let shares = self.kernel_efficiency.iter();
        all.extend(shares.map(|(key, share)| (format!("device.kernel_efficiency.{key}"), share)));
        all
    }
}
