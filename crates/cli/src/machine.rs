//! Properties of this machine.

/// Processors that this process may use at once.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The peak resident memory of this process in MiB; `None` if the system does not report it.
pub(crate) fn peak_resident_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(kib(&status, "VmHWM:")? as f64 / 1024.0)
}

/// Total and available memory, in bytes; `None` if the system does not report them.
pub(crate) fn memory() -> Option<(usize, usize)> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    Some((
        kib(&info, "MemTotal:")? * 1024,
        kib(&info, "MemAvailable:")? * 1024,
    ))
}

/// The processor's name, as the system reports it.
pub(crate) fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(
        || std::env::consts::ARCH.into(),
        |(_, name)| name.trim().into(),
    )
}

/// The widest vectors that the processor supports.
pub(crate) fn vectors() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return "AVX-512 (16 f32)";
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return "AVX2 with FMA (8 f32)";
        }
    }
    if cfg!(target_arch = "aarch64") {
        "NEON (4 f32)"
    } else {
        "none wider than the target's own"
    }
}

fn kib(text: &str, name: &str) -> Option<usize> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kibibytes_are_found_by_name() {
        let text = "VmPeak:\t  200 kB\nVmHWM:\t  1536 kB\n";
        assert_eq!(
            (kib(text, "VmHWM:"), kib(text, "VmSwap:")),
            (Some(1536), None)
        );
    }

    #[test]
    fn there_is_a_core_and_a_name() {
        assert!(cores() > 0 && !processor().is_empty() && !vectors().is_empty());
    }
}
