//! The peak of a job, against which its speed is compared.

use super::Machine;

/// GPUs by a part of the name that their driver reports, and the machine that ships with the library and has them.
const GPUS: [(&str, &str); 5] = [
    ("A100", "perlmutter"),
    ("GH200", "alps"),
    ("H200", "alps"),
    ("H100 80GB HBM3", "alps"),
    ("MI250X", "frontier"),
];

impl Machine {
    /// The flop/s that GEMMs of an element type could reach on `ranks` devices; 16-bit types stand in for each other. Devices
    /// that share cores have the peak of these cores. `None` if the description states no peak for the type.
    pub fn peak_of(&self, ranks: usize, dtype: &str) -> Option<f64> {
        let in_node = ranks.min(self.devices_per_node) as f64;
        Some(self.device.stated_peak(dtype)? * ranks as f64 / self.crowding(in_node))
    }

    /// The machine that ships with the library and has the GPU of this description, if one has.
    pub fn with_gpu(description: &str) -> Option<Machine> {
        let known = GPUS.iter().find(|(name, _)| description.contains(name));
        Machine::find(known?.1).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_has_the_peak_of_its_datasheet_and_an_unknown_type_has_none() {
        let found = Machine::with_gpu("cuda: NVIDIA A100-SXM4-80GB (sm_80, 108 multiprocessors)");
        let peak = |dtype| found.as_ref().and_then(|machine| machine.peak_of(4, dtype));
        assert_eq!((peak("bf16"), peak("f16")), (Some(1248e12), Some(1248e12)));
        assert_eq!(peak("f8"), None);
        assert!(Machine::with_gpu("cuda: NVIDIA H100 PCIe").is_none());
        for (_, machine) in GPUS {
            assert!(Machine::find(machine).is_ok());
        }
    }

    #[test]
    fn ranks_that_share_cores_have_no_more_than_these() {
        let laptop = Machine::find("laptop").unwrap();
        let peak = |ranks| laptop.peak_of(ranks, "f32").unwrap();
        assert_eq!(peak(2), 2.0 * peak(1));
        assert_eq!((peak(8), peak(16)), (peak(2), 2.0 * peak(2)));
    }
}
