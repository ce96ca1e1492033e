//! Cuts the model's layers into stages by cost.

use super::{Result, ScheduleError};
use std::ops::Range;

/// Sums of squares this close count as equal, so that rounding does not decide between equal partitions.
const EQUAL: f64 = 1e-12;

/// Cuts items into contiguous, non-empty ranges whose largest sum is as small as possible.
///
/// The largest sum is exact, not a heuristic. Among the partitions that reach it, the one with the most even
/// sums is chosen (smallest sum of squares). Among equals, the one with the shortest first range is chosen,
/// then the shortest second, and so on, because the first stages of a pipeline keep the most activations. The
/// time is proportional to parts x items^2 at most, and to items^2 for many parts of similar costs.
///
/// # Errors
/// [`ScheduleError::Invalid`] when there are no parts, fewer items than parts, or costs that are negative, not finite,
/// or so large that the square of their sum is not finite.
pub fn balance(costs: &[f64], parts: usize) -> Result<Vec<Range<usize>>> {
    let invalid = |found, needed| {
        Err(ScheduleError::Invalid {
            operation: "balance",
            found,
            needed,
        })
    };
    if parts == 0 || costs.len() < parts {
        let found = format!("{} items for {parts} parts", costs.len());
        return invalid(
            found,
            "at least 1 part, and at least 1 item for each".to_string(),
        );
    }
    let sound = |cost: &f64| cost.is_finite() && *cost >= 0.0;
    if let Some(index) = costs.iter().position(|cost| !sound(cost)) {
        return invalid(
            format!("cost {} of item {index}", costs[index]),
            "finite costs from 0".to_string(),
        );
    }
    let total: f64 = costs.iter().sum();
    if !(total * total).is_finite() {
        return invalid(
            format!("costs of {total} in all"),
            "a sum whose square is finite".to_string(),
        );
    }
    let largest = Cuts::find(costs, parts, 0.0, |sum, rest: f64| sum.max(rest)).value();
    let even = |sum: f64, rest: f64| {
        if sum <= largest {
            sum * sum + rest
        } else {
            f64::INFINITY
        }
    };
    Ok(Cuts::find(costs, parts, EQUAL, even).ranges())
}

/// The best cuts of every tail of the items into every number of parts.
struct Cuts {
    /// `value[parts][start]` and the end of the first range that gives it; parts from 0.
    table: Vec<Vec<(f64, usize)>>,
}

impl Cuts {
    /// Minimises a value built from the back: `join(sum of the first range, value of the rest)`. A longer first
    /// range is chosen only if it is better by more than `tolerance` of the value.
    fn find(costs: &[f64], parts: usize, tolerance: f64, join: impl Fn(f64, f64) -> f64) -> Cuts {
        let num_items = costs.len();
        let mut nothing = vec![(f64::INFINITY, num_items); num_items + 1];
        nothing[num_items].0 = 0.0;
        let mut table = vec![nothing];
        for part in 0..parts {
            let rest = &table[part];
            let row = (0..=num_items)
                .map(|start| Cuts::first_range(costs, start, rest, tolerance, &join))
                .collect();
            table.push(row);
        }
        Cuts { table }
    }

    /// The best first range from `start`: the shortest among those that are equally good.
    fn first_range(
        costs: &[f64],
        start: usize,
        rest: &[(f64, usize)],
        tolerance: f64,
        join: &impl Fn(f64, f64) -> f64,
    ) -> (f64, usize) {
        let mut best = (f64::INFINITY, costs.len());
        let mut sum = 0.0;
        for end in start + 1..=costs.len() {
            sum += costs[end - 1];
            // A longer range only costs more.
            if join(sum, 0.0) >= best.0 {
                break;
            }
            let value = join(sum, rest[end].0);
            if value < best.0 * (1.0 - tolerance) {
                best = (value, end);
            }
        }
        best
    }

    fn value(&self) -> f64 {
        self.table[self.table.len() - 1][0].0
    }

    fn ranges(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        let cut = |row: &Vec<(f64, usize)>| {
            let range = start..row[start].1;
            start = range.end;
            range
        };
        self.table.iter().skip(1).rev().map(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_items_take_no_time() {
        let costs: Vec<f64> = (0..4000).map(|item| f64::from(item % 7 + 1)).collect();
        let begun = std::time::Instant::now();
        let ranges = balance(&costs, 256).unwrap();
        assert_eq!((ranges.len(), ranges[255].end), (256, 4000));
        // All ends of all ranges take a minute.
        assert!(begun.elapsed().as_secs() < 20);
    }

    #[test]
    fn a_heavy_head_gets_a_stage_of_its_own_and_the_rest_is_even() {
        assert_eq!(
            balance(&[1.0, 1.0, 1.0, 1.0, 9.0], 3).unwrap(),
            [0..2, 2..4, 4..5]
        );
    }

    #[test]
    fn equal_layers_leave_the_first_stages_lighter() {
        assert_eq!(balance(&[0.1; 5], 3).unwrap(), [0..1, 1..3, 3..5]);
        assert_eq!(balance(&[0.0; 3], 2).unwrap(), [0..1, 1..3]);
    }

    #[test]
    fn what_cannot_be_cut_is_refused_with_numbers() {
        let text = balance(&[1.0; 3], 4).unwrap_err().to_string();
        assert_eq!(
            text,
            "balance: 3 items for 4 parts, needed at least 1 part, and at least 1 item for each"
        );
        assert!(balance(&[1.0], 0).is_err());
        let text = balance(&[1.0, f64::NAN], 1).unwrap_err().to_string();
        assert_eq!(
            text,
            "balance: cost NaN of item 1, needed finite costs from 0"
        );
    }
}
