//! How a program probes for a GPU vendor.

use crate::{libraries::files, table::Tables};
use hal::{Error, Probe};
use std::sync::Arc;

/// Probes for a vendor: reports its libraries with their versions, or where we looked for them, and its devices.
pub fn probe(name: &str, tables: Result<Arc<Tables>, String>) -> Probe {
    match tables {
        Err(reason) => Probe {
            usable: false,
            findings: vec![format!("{name}: no device: {reason}")],
        },
        Ok(tables) => {
            let devices = devices(&tables);
            let usable = matches!(&devices, Ok(devices) if !devices.is_empty());
            let mut findings = libraries(&tables);
            match devices {
                Ok(devices) if devices.is_empty() => findings.push(hidden(&tables)),
                Ok(devices) => findings.extend(devices),
                Err(reason) => findings.push(format!("no device: {reason}")),
            }
            Probe { usable, findings }
        }
    }
}

/// The one-sentence error for a vendor without a driver or device.
pub fn no_device(name: &str, reason: &str) -> Error {
    Error::invalid(
        format!("open {name}"),
        format!("no device: {reason}"),
        "a device and its driver",
    )
}

fn libraries(tables: &Tables) -> Vec<String> {
    let runtime = tables
        .runtime
        .version()
        .unwrap_or_else(|fault| fault.to_string());
    let blas = tables
        .blas
        .as_ref()
        .map_or_else(ToString::to_string, |blas| blas.version().to_string());
    let collectives = match &tables.collectives {
        Ok((name, table)) => format!("{name} {}", library_version(table)),
        Err(missing) => missing.to_string(),
    };
    let kernels: Vec<&str> = tables
        .objects
        .iter()
        .map(|(architecture, _)| &architecture[..])
        .collect();
    let kernels = if kernels.is_empty() {
        "none in this build".into()
    } else {
        kernels.join(", ")
    };
    let epilogues = match &tables.lt {
        Ok(lt) => lt.version.clone(),
        Err(reason) => format!("bias and GELU run as separate kernels: {reason}"),
    };
    vec![
        runtime,
        blas,
        epilogues,
        collectives,
        format!("kernels: {kernels}"),
        format!("opened {}", files(&tables.found)),
    ]
}

/// The version of NCCL or RCCL in words.
pub(crate) fn library_version(table: &rccl_sys::Nccl) -> String {
    // Up to 2.8 the number spends one digit on the minor version.
    match table.version() {
        None => "of unknown version".into(),
        Some(v) if v >= 10_000 => format!("{}.{}.{}", v / 10_000, v % 10_000 / 100, v % 100),
        Some(v) => format!("{}.{}.{}", v / 1000, v % 1000 / 100, v % 100),
    }
}

fn devices(tables: &Tables) -> Result<Vec<String>, String> {
    let text = |ordinal| {
        let device = tables.runtime.device(ordinal);
        let device = device
            .and_then(|device| tables.runtime.properties(device))
            .map_err(|fault| fault.to_string())?;
        let (name, architecture) = (device.name, device.architecture);
        Ok(format!(
            "device {ordinal}: {name} ({architecture}, {} multiprocessors)",
            device.multiprocessors
        ))
    };
    let count = tables
        .runtime
        .device_count()
        .map_err(|fault| fault.to_string())?;
    let variable = tables.visible_devices;
    let limit = variable.read();
    let limit = limit.map(|value| Ok(format!("{}={value} limits the devices", variable.name)));
    (0..count)
        .map(text)
        .chain((count > 0).then_some(limit).flatten())
        .collect()
}

fn hidden(tables: &Tables) -> String {
    let variable = tables.visible_devices;
    match variable.read() {
        Some(value) => format!("no device: {}={value} leaves none", variable.name),
        None => "no device".into(),
    }
}
