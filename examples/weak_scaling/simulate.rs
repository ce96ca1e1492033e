//! Rows on the simulated vendor: the planner's best candidate for each.

use crate::{Result, point::Point, published, rows::Row};
use plan::{Error, Preset, search};
use std::time::Duration;

/// The best way to run a row under each of the settings. Rows that no device count of the machine can hold are
/// reported and left out.
///
/// # Errors
/// Invalid names and numbers.
pub fn row(row: &Row, settings: &[Preset], budget: Duration) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for preset in settings {
        let request = row.request(*preset, budget)?;
        match search(&request) {
            Ok(plan) => points.extend(
                plan.best
                    .first()
                    .map(|best| Point::simulated(row, &request, best)),
            ),
            Err(error @ Error::OutOfReach { .. }) => eprintln!("left out: {error}"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(points)
}

/// The published points of the machine's rows: same devices, same model, same batch; of each row those of the code whose GEMMs are
/// chosen by timing, as in the simulations beside them.
///
/// # Errors
/// Those of `published.toml` and of the machine's file.
pub fn published(machine: &str, rows: &[Row]) -> Result<Vec<Point>> {
    let all = published::all()?;
    let mut points = Vec::new();
    for row in rows {
        let request = row.request(Preset::PublishedAxonn, Duration::ZERO)?;
        for published in all
            .iter()
            .filter(|published| published.machine == machine && published.tuned)
        {
            points.extend(published.point(row, &request)?);
        }
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::rows;

    #[test]
    fn published_points_stand_beside_rows_of_the_same_model() {
        let found = |machine| published(machine, &rows(machine).unwrap()).unwrap();
        let devices = |machine| {
            found(machine)
                .iter()
                .map(|point| point.devices)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            devices("perlmutter"),
            [4096],
            "the 80B model on 1,024 devices is no row"
        );
        assert_eq!(devices("frontier"), [512, 8192, 16_384, 32_768]);
        assert_eq!(devices("alps"), [6144]);
    }
}
