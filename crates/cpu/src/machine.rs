//! Properties of this machine: memory, and its processor's name.

use std::path::Path;

/// Bytes that this process could still use without swapping, within its control groups.
pub(crate) fn available_bytes() -> usize {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = meminfo_bytes(&meminfo, "MemAvailable:").unwrap_or_else(physical_bytes);
    control_group_bytes().map_or(machine, |group| group.min(machine))
}

/// The processor's name, as the system reports it.
pub(crate) fn processor() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(
        || std::env::consts::ARCH.into(),
        |(_, name)| name.trim().into(),
    )
}

/// The widest vector instructions that kernels use here.
pub(crate) fn vectors() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return "AVX-512";
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return "AVX2";
        }
    }
    if cfg!(target_arch = "aarch64") {
        "NEON"
    } else {
        "no wide vectors"
    }
}

fn meminfo_bytes(meminfo: &str, name: &str) -> Option<usize> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: usize = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(unix)]
fn physical_bytes() -> usize {
    // SAFETY: `sysconf` reads a constant of the system and touches no memory of ours.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    // SAFETY: as above.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(pages)
        .unwrap_or(0)
        .saturating_mul(usize::try_from(page).unwrap_or(0))
}

#[cfg(not(unix))]
fn physical_bytes() -> usize {
    isize::MAX as usize
}

// The smallest limit that remains in any control group above this process, in either version of the interface.
fn control_group_bytes() -> Option<usize> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let left = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        match (fields.next()?, fields.next()?) {
            ("", path) => least_left("/sys/fs/cgroup", path, "memory.max", "memory.current"),
            (names, path) if names.split(',').any(|name| name == "memory") => least_left(
                "/sys/fs/cgroup/memory",
                path,
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            ),
            _ => None,
        }
    };
    groups.lines().filter_map(left).min()
}

fn least_left(root: &str, path: &str, limit: &str, usage: &str) -> Option<usize> {
    let number = |file: &Path| {
        std::fs::read_to_string(file)
            .ok()?
            .trim()
            .parse::<usize>()
            .ok()
    };
    let ancestors = Path::new(path.trim_start_matches('/')).ancestors();
    let left = |group: &Path| {
        let group = Path::new(root).join(group);
        Some(number(&group.join(limit))?.saturating_sub(number(&group.join(usage))?))
    };
    ancestors.filter_map(left).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_memory_and_a_name() {
        assert!(available_bytes() > 1 << 20);
        assert!(!processor().is_empty() && !vectors().is_empty());
    }

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text = "MemTotal:  24684084 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(meminfo_bytes(text, "MemAvailable:"), Some(1 << 20));
        assert_eq!(meminfo_bytes(text, "Swap:"), None);
    }
}
