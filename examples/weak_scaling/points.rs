//! The points of a machine in a folder: as JSON that later runs extend, as a table and as the plot.

use crate::{
    Result, plot,
    point::{Point, PointKind},
    table,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The file that stores a machine's points.
fn file(dir: &Path, machine: &str) -> PathBuf {
    dir.join(format!("{machine}.json"))
}

/// The existing points; empty if there is no file yet.
///
/// # Errors
/// A file that cannot be read, or that holds no points.
pub fn read(dir: &Path, machine: &str) -> Result<Vec<Point>> {
    let path = file(dir, machine);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Adds points to the machine's file, where newer ones replace older ones, and regenerates table and plot.
///
/// # Errors
/// Files that cannot be written.
pub fn add(dir: &Path, machine: &str, new: Vec<Point>) -> Result<Vec<Point>> {
    let points = merged(read(dir, machine)?, new);
    fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let write = |extension: &str, bytes: &[u8]| {
        let path = dir.join(format!("{machine}.{extension}"));
        fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))
    };
    write("json", serde_json::to_string_pretty(&points)?.as_bytes())?;
    write("txt", table::text(&points).as_bytes())?;
    let svg = plot::svg(machine, &points)?;
    write("svg", svg.as_bytes())?;
    write("png", &plot::png(&svg)?)?;
    Ok(points)
}

fn merged(mut points: Vec<Point>, new: Vec<Point>) -> Vec<Point> {
    points.retain(|old| !new.iter().any(|point| old.is_same_as(point)));
    points.extend(new);
    let key = |point: &Point| (point.devices, point.kind, point.settings.clone());
    points.sort_by_key(key);
    points
}

/// The plan that a run on `devices` follows: the simulated one with this library's settings.
pub fn planned(points: &[Point], devices: usize) -> Option<&Point> {
    let ours = |point: &&Point| point.kind == PointKind::Simulated && point.settings == "ours";
    points
        .iter()
        .filter(ours)
        .find(|point| point.devices == devices && point.run.is_some())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn point(devices: usize, kind: PointKind, step_s: f64) -> Point {
        Point {
            machine: "perlmutter".into(),
            devices,
            model: "gpt-5b".into(),
            settings: "ours".into(),
            kind,
            step_s,
            pflops: 70.0,
            percent_of_peak: 45.0,
            memory_gib: None,
            run: None,
        }
    }

    #[test]
    fn a_newer_point_takes_the_older_ones_place() {
        let folder = tempfile::tempdir().unwrap();
        let first = [
            point(1024, PointKind::Simulated, 9.0),
            point(512, PointKind::Simulated, 8.0),
        ];
        add(folder.path(), "perlmutter", first.into()).unwrap();
        let second = [
            point(512, PointKind::Simulated, 7.0),
            point(512, PointKind::Measured, 7.5),
        ];
        add(folder.path(), "perlmutter", second.into()).unwrap();
        let found = read(folder.path(), "perlmutter").unwrap();
        assert_eq!(
            found.iter().map(|point| point.step_s).collect::<Vec<_>>(),
            [7.0, 7.5, 9.0]
        );
        for extension in ["json", "txt", "svg", "png"] {
            assert!(
                folder
                    .path()
                    .join(format!("perlmutter.{extension}"))
                    .exists(),
                "{extension}"
            );
        }
    }
}
